import PerdureModel

extension EnvironmentConformance {
  static let linkCases = each(
    .links,
    [
      ("links are followed unless only the last one is refused", followsLinks),
      ("links are shown as such, with what they lead to", showsLinks),
      ("a change of what a watched link leads to is reported", watchesLinks),
      ("writing through a link changes what it leads to", writesLinks),
    ]
  )

  static let listingCases = each(
    .listing,
    [
      ("entries are in the order of their bytes, folders before what they hold", order),
      ("what git ignores is left out in a work tree only", ignores),
      ("a bound that is reached is told", bounds),
      ("what cannot be listed says so", unlistable),
    ]
  )

  private static let followsLinks: Body = { harness in
    let env = harness.env
    try await env.writeFile("d/f", "content")
    try await harness.link("last", to: "d/f")
    try await harness.link("folder", to: "d")
    for path in ["last", "folder/f"] {
      try expect(try await env.readTextFile(path), "content", "what '\(path)' leads to")
    }
    let reader = try await env.openFile("folder/f", noFollow: true)
    try expect(try await reader.info().size, 7, "a file behind a link that is not the last name")
    await reader.close()
    try await expectFileError(.invalid, "a link as the last name") {
      _ = try await env.openFile("last", noFollow: true)
    }
    try expect(
      try await env.canonicalPath("folder/f"),
      try env.absolutePath("d/f"),
      "a canonical path"
    )
  }

  private static let showsLinks: Body = { harness in
    let env = harness.env
    try await env.writeFile("d/f", "content")
    try await harness.link("d/l", to: "f")
    try await harness.link("d/broken", to: "missing")
    let info = try await env.fileInfo("d/l")
    try expect(info.kind, .symlink, "the kind of a link")
    try expect(info.target, "f", "what it leads to")
    try expect(try await env.exists("d/broken"), true, "whether a link to nothing exists")
    let kinds = try await env.listFolder("d").reduce(into: [:]) { $0[$1.name] = $1.kind }
    try expect(
      kinds,
      ["f": .file, "l": .symlink, "broken": .symlink],
      "the kinds in a folder"
    )
    try await env.remove("d/l")
    try expect(try await env.exists("d/f"), true, "whether the target of a removed link exists")
  }

  private static let watchesLinks: Body = { harness in
    let env = harness.env
    try await env.writeFile("real/f", "1")
    try await harness.link("link", to: "real/f")
    let log = ChangeLog()
    let watch = try await env.watch([WatchTarget("link")]) { log.add($0) }
    try await env.appendFile("real/f", [65])
    do {
      try await log.wait(for: try env.absolutePath("link"), "changing behind a link")
      await watch.close()
    } catch {
      await watch.close()
      throw error
    }
  }

  private static let writesLinks: Body = { harness in
    let env = harness.env
    try await env.writeFile("d/f", "1")
    try await harness.link("link", to: "d/f")
    try await env.writeFile("link", "2")
    try expect(try await env.fileInfo("link").kind, .symlink, "the kind after writing")
    try expect(try await env.readTextFile("d/f"), "2", "what it leads to")
  }

  private static func paths(
    _ env: any Environment,
    _ path: String = ".",
    _ bounds: ListingBounds = ListingBounds(maxEntries: 1_000)
  ) async throws -> [String] {
    let listing = try await env.listFiles(path, bounds)
    try expect(listing.truncated, false, "whether the list of '\(path)' was cut")
    return listing.entries.map { $0.kind == .directory ? $0.path + "/" : $0.path }
  }

  private static let order: Body = { harness in
    let env = harness.env
    for path in ["b/z", "b/a/x", "b.txt", "a", "B", ".h/f", "é", ".git/config"] {
      try await env.writeFile(path, "x")
    }
    try expect(
      try await paths(env),
      [".h/", ".h/f", "B", "a", "b/", "b/a/", "b/a/x", "b/z", "b.txt", "é"],
      "all entries"
    )
    var bounds = ListingBounds(maxEntries: 1_000)
    bounds.hidden = false
    bounds.exclude = ["a"]
    try expect(
      try await paths(env, ".", bounds),
      ["B", "b/", "b/z", "b.txt", "é"],
      "without hidden ones and those named a"
    )
    try expect(try await paths(env, "b"), ["a/", "a/x", "z"], "below a folder")
  }

  private static let ignores: Body = { harness in
    let env = harness.env
    try await env.writeFile("repo/.gitignore", "*.log\n/build\n!keep.log\nsub/deep/\n# no\n\\#x\n")
    try await env.writeFile("repo/sub/.gitignore", "local\n!*.log\n**/gen/*.c\n")
    for path in [
      "a.log", "keep.log", "build/x", "other/build", "sub/a.log", "sub/local", "sub/deep/f",
      "sub/x/gen/a.c", "sub/x/gen/a.h", "#x", "info",
    ] { try await env.writeFile("repo/\(path)", "x") }
    let all = try await paths(env, "repo")
    try expect(all.contains("a.log"), true, "whether rules count outside a work tree")
    try await env.writeFile("repo/.git/info/exclude", "info\n")
    let listed = try await paths(env, "repo").filter { !$0.hasSuffix("/") }
    try expect(
      listed,
      [
        ".gitignore", "keep.log", "other/build", "sub/.gitignore", "sub/a.log", "sub/x/gen/a.h",
      ],
      "what is not ignored"
    )
    try expect(
      try await paths(env, "repo/sub").filter { !$0.hasSuffix("/") },
      [".gitignore", "a.log", "x/gen/a.h"],
      "what is not ignored below a folder"
    )
    var bounds = ListingBounds(maxEntries: 1_000)
    bounds.gitignore = false
    try expect(
      try await paths(env, "repo", bounds).contains("a.log"),
      true,
      "whether rules can be passed over"
    )
  }

  private static let bounds: Body = { harness in
    let env = harness.env
    for number in 0..<10 { try await env.writeFile("f\(number)", "x") }
    let few = try await env.listFiles(".", ListingBounds(maxEntries: 3))
    try expect(few.entries.map { $0.path }, ["f0", "f1", "f2"], "three entries")
    try expect(few.truncated, true, "whether more are told of")
    let exact = try await env.listFiles(".", ListingBounds(maxEntries: 10, maxBytes: 40))
    try expect(exact.entries.count, 10, "ten entries of four bytes each")
    try expect(exact.truncated, false, "whether more are told of when all fit")
    let short = try await env.listFiles(".", ListingBounds(maxEntries: 10, maxBytes: 39))
    try expect(short.entries.count, 9, "the entries that fit into fewer bytes")
    try expect(short.truncated, true, "whether more are told of when one does not fit")
  }

  private static let unlistable: Body = { harness in
    let env = harness.env
    try await env.writeFile("f", "x")
    try await expectFileError(.notFound, "listing what is missing") {
      _ = try await env.listFiles("missing", ListingBounds(maxEntries: 1))
    }
    try await expectFileError(.notDirectory, "listing a file") {
      _ = try await env.listFiles("f", ListingBounds(maxEntries: 1))
    }
    for bounds in [
      ListingBounds(maxEntries: 0), ListingBounds(maxEntries: 1, maxBytes: 0),
      ListingBounds(maxEntries: 1, timeoutMs: -1),
    ] {
      try await expectFileError(.invalid, "a bound below 1") {
        _ = try await env.listFiles(".", bounds)
      }
    }
    try await expectFileError(.aborted, "listing when cancelled") {
      try await cancelled { _ = try await env.listFiles(".", ListingBounds(maxEntries: 1)) }
    }
  }
}
