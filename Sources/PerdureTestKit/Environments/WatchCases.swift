import PerdureModel

extension EnvironmentConformance {
  static let watchCases = each(
    .watch,
    [
      ("a missing file is seen to come, change, be replaced and go", missingFile),
      ("folders above a file may be missing, too", missingFolders),
      ("all below a recursive target is seen, however deep and new", recursive),
      ("a folder above that is renamed and made anew is seen", renamedParent),
      ("what is excluded is not reported, but what comes out of it is", excluded),
      ("a plain target takes nothing from a recursive one of the same path", bothKinds),
      ("a folder that another one replaces is covered again", replacedFolder),
      ("nothing is reported after the end", closedWatch),
    ]
  )

  private static func watching(
    _ harness: EnvironmentHarness,
    _ targets: [WatchTarget],
    _ body: (any Environment, ChangeLog) async throws -> Void
  ) async throws {
    let log = ChangeLog()
    let watch = try await harness.env.watch(targets) { log.add($0) }
    do {
      try await body(harness.env, log)
      await watch.close()
    } catch {
      await watch.close()
      throw error
    }
  }

  /// Makes one change and waits until it is reported for a path.
  private static func step(
    _ env: any Environment,
    _ log: ChangeLog,
    _ path: String,
    _ what: String,
    _ change: () async throws -> Void
  ) async throws {
    log.clear()
    try await change()
    try await log.wait(for: try env.absolutePath(path), what)
  }

  private static let missingFile: Body = { harness in
    try await watching(harness, [WatchTarget("f")]) { env, log in
      try await step(env, log, "f", "creating") { try await env.writeFile("f", "1") }
      try await step(env, log, "f", "appending") { try await env.appendFile("f", [65]) }
      try await step(env, log, "f", "replacing") {
        try await env.writeFile("other", "22")
        try await env.rename("other", to: "f")
      }
      try await step(env, log, "f", "changing after that") { try await env.appendFile("f", [65]) }
      try await step(env, log, "f", "removing") { try await env.remove("f") }
    }
  }

  private static let missingFolders: Body = { harness in
    try await watching(harness, [WatchTarget("a/b/f")]) { env, log in
      try await step(env, log, "a/b/f", "creating with its folders") {
        try await env.writeFile("a/b/f", "1")
      }
      try await step(env, log, "a/b/f", "changing") { try await env.appendFile("a/b/f", [65]) }
    }
  }

  private static let recursive: Body = { harness in
    try await harness.env.createFolder("d")
    try await watching(harness, [WatchTarget("d", recursive: true)]) { env, log in
      try await step(env, log, "d/a/b/f", "creating folders together with a file") {
        try await env.writeFile("d/a/b/f", "1")
      }
      try await step(env, log, "d/a/b/f", "changing it") {
        try await env.appendFile("d/a/b/f", [65])
      }
      try await step(env, log, "d/a/b/c/e/g", "creating deeper ones") {
        try await env.writeFile("d/a/b/c/e/g", "1")
      }
      try await step(env, log, "d/a/b/c/e/g", "changing the deeper one") {
        try await env.appendFile("d/a/b/c/e/g", [65])
      }
    }
  }

  private static let renamedParent: Body = { harness in
    try await harness.env.writeFile("p/q/f", "1")
    try await watching(harness, [WatchTarget("p/q/f")]) { env, log in
      try await step(env, log, "p/q/f", "renaming a folder above") {
        try await env.rename("p", to: "away")
      }
      try await step(env, log, "p/q/f", "making it anew") {
        try await env.writeFile("p/q/f", "22")
      }
      try await step(env, log, "p/q/f", "changing the new one") {
        try await env.appendFile("p/q/f", [65])
      }
    }
  }

  private static let excluded: Body = { harness in
    try await harness.env.writeFile("d/node_modules/kept", "1")
    let target = WatchTarget(
      "d",
      recursive: true,
      exclude: WatchTarget.Exclusions(hidden: true, names: ["node_modules"])
    )
    try await watching(harness, [target]) { env, log in
      try await env.writeFile("d/.hidden/f", "1")
      try await env.writeFile("d/node_modules/deep/f", "1")
      try await env.appendFile("d/node_modules/kept", [65])
      try await env.writeFile("d/seen", "1")
      try await log.wait(for: try env.absolutePath("d/seen"), "creating what is not excluded")
      try await step(env, log, "d/out", "renaming out of an excluded folder") {
        try await env.rename("d/node_modules/kept", to: "d/out")
      }
      let wrong = log.paths.filter { $0.contains("node_modules") || $0.contains(".hidden") }
      try expect(wrong, [], "the reports of what is excluded")
    }
  }

  private static let bothKinds: Body = { harness in
    try await harness.env.createFolder("d/e")
    let targets = [WatchTarget("d"), WatchTarget("d", recursive: true), WatchTarget("d")]
    try await watching(harness, targets) { env, log in
      try await step(env, log, "d/e/f", "creating below") { try await env.writeFile("d/e/f", "1") }
      try await step(env, log, "d/e/f", "changing below") {
        try await env.appendFile("d/e/f", [65])
      }
    }
  }

  private static let replacedFolder: Body = { harness in
    try await harness.env.writeFile("d/f", "1")
    try await harness.env.writeFile("new/f", "22")
    try await watching(harness, [WatchTarget("d", recursive: true)]) { env, log in
      try await step(env, log, "d/f", "replacing the folder") {
        try await env.rename("d", to: "old")
        try await env.rename("new", to: "d")
      }
      try await step(env, log, "d/f", "changing in the new one") {
        try await env.appendFile("d/f", [65])
      }
    }
  }

  private static let closedWatch: Body = { harness in
    let env = harness.env
    let log = ChangeLog()
    let watch = try await env.watch([WatchTarget("f")]) { log.add($0) }
    try expect([.native, .polling].contains(watch.mode), true, "whether it has a mode")
    await watch.close()
    await watch.close()
    log.clear()
    // Another watch shows when the change would have been reported.
    try await watching(harness, [WatchTarget("f")]) { env, other in
      try await step(env, other, "f", "creating") { try await env.writeFile("f", "1") }
    }
    try expect(log.paths, [], "what was reported after the end")
  }
}
