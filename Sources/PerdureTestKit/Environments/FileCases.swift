import PerdureModel
import PerdureValue

extension EnvironmentConformance {
  static let fileCases = each(
    .files,
    [
      ("what is written is read", writes),
      ("a path is relative to the working folder and may hold dots", paths),
      ("appending, truncating and flushing change a file in its place", changes),
      ("renaming replaces a file", renames),
      ("what is removed is gone, and a folder that holds something stays", removes),
      ("creating a folder that exists is an error only without recursion", folders),
      ("temporary files and folders have names of their own", temporaries),
      ("a file that changed meanwhile is not overwritten by one who expects another", conflicts),
      ("a cancelled task changes nothing", aborts),
      ("lines are read with their ends", lines),
    ]
  )

  private static let writes: Body = { harness in
    let env = harness.env
    try await env.writeFile("a/b/text.txt", "häl\u{1F600}lo\r\nworld")
    try expect(
      try await env.readTextFile("a/b/text.txt"),
      "häl\u{1F600}lo\r\nworld",
      "the text of a new file"
    )
    let bytes: [UInt8] = [0, 0xFF, 0xC3, 0x28, 10]
    try await env.writeFile("a/b/text.txt", bytes)
    try expect(
      try await env.readBinaryFile("a/b/text.txt"),
      bytes,
      "the bytes after a second write"
    )
    try expect(
      try await env.readTextFile("a/b/text.txt"),
      "\0\u{FFFD}\u{FFFD}(\n",
      "bytes that are no text"
    )
    let info = try await env.fileInfo("a/b/text.txt")
    try expect(info.kind, .file, "its kind")
    try expect(info.size, 5, "its size")
    try expect(info.name, "text.txt", "its name")
    try expect(info.path, try env.absolutePath("a/b/text.txt"), "its path")
    try expect(try await env.fileInfo("a").kind, .directory, "the kind of a folder above it")
    try expect(try await env.exists("a/b/text.txt"), true, "whether it exists")
    try expect(try await env.exists("a/c"), false, "whether something else exists")
    try await expectFileError(.isDirectory, "writing a folder") {
      try await env.writeFile("a", "x")
    }
    try await expectFileError(.notDirectory, "writing below a file") {
      try await env.writeFile("a/b/text.txt/c", "x")
    }
    try await expectFileError(.notFound, "information on what is missing") {
      _ = try await env.fileInfo("missing")
    }
    try await expectFileError(.invalid, "a zero in a path") { _ = try await env.fileInfo("a\0b") }
  }

  private static let paths: Body = { harness in
    let env = harness.env
    let base = env.cwd == "/" ? "" : env.cwd
    try expect(try env.absolutePath("a"), "\(base)/a", "a relative path")
    try expect(try env.absolutePath("./a//b/../c/."), "\(base)/a/c", "a path with dots")
    try expect(try env.absolutePath("/x/./y"), "/x/y", "an absolute path")
    try expect(try env.absolutePath("/../../x"), "/x", "a path above the root")
    try expect(try env.joinPath(["a", "b"]), "\(base)/a/b", "joined parts")
    try expect(try env.joinPath(["a", "/b"]), "/b", "joined parts, one absolute")
    try await env.writeFile("d/file", "x")
    try expect(
      try await env.canonicalPath("d/../d/file"),
      try env.absolutePath("d/file"),
      "a canonical path"
    )
    try await expectFileError(.notFound, "the canonical path of what is missing") {
      _ = try await env.canonicalPath("d/missing")
    }
  }

  private static let changes: Body = { harness in
    let env = harness.env
    try await env.appendFile("log/a", Array("one".utf8))
    try await env.appendFile("log/a", Array("two".utf8))
    try expect(try await env.readTextFile("log/a"), "onetwo", "a file that was appended to")
    try await env.truncateFile("log/a", to: 4)
    try expect(try await env.readTextFile("log/a"), "onet", "a file that was cut")
    try await env.truncateFile("log/a", to: 6)
    try expect(try await env.readTextFile("log/a"), "onet\0\0", "a file that was filled")
    try await env.flushFile("log/a")
    try await expectFileError(.notFound, "cutting what is missing") {
      try await env.truncateFile("log/b", to: 0)
    }
    try await expectFileError(.invalid, "a negative size") {
      try await env.truncateFile("log/a", to: -1)
    }
    try await expectFileError(.notFound, "flushing what is missing") {
      try await env.flushFile("log/b")
    }
  }

  private static let renames: Body = { harness in
    let env = harness.env
    try await env.writeFile("a", "new")
    try await env.writeFile("b", "old")
    try await env.rename("a", to: "b")
    try expect(try await env.readTextFile("b"), "new", "the file that was renamed")
    try expect(try await env.exists("a"), false, "whether the old name exists")
    try await env.createFolder("d/e")
    try await env.rename("d", to: "f")
    try expect(try await env.exists("f/e"), true, "what a renamed folder holds")
    try await expectFileError(.notFound, "renaming what is missing") {
      try await env.rename("a", to: "c")
    }
  }

  private static let removes: Body = { harness in
    let env = harness.env
    try await env.writeFile("d/e/f", "x")
    try await expectFileError(.invalid, "removing a folder that holds something") {
      try await env.remove("d")
    }
    try expect(try await env.exists("d/e/f"), true, "whether it is still there")
    try await env.remove("d", recursive: true, force: false)
    try expect(try await env.exists("d"), false, "whether it is there after a recursive removal")
    try await expectFileError(.notFound, "removing what is missing") { try await env.remove("d") }
    try await env.remove("d", recursive: false, force: true)
    try await env.createFolder("empty")
    try await env.remove("empty")
    try await expectFileError(.permissionDenied, "removing the root") {
      try await env.remove("/", recursive: true, force: true)
    }
  }

  private static let folders: Body = { harness in
    let env = harness.env
    try await env.createFolder("a/b/c")
    try await env.createFolder("a/b/c")
    try await expectFileError(.invalid, "creating a folder again, without recursion") {
      try await env.createFolder("a/b/c", recursive: false)
    }
    try await expectFileError(.notFound, "creating a folder in a missing one") {
      try await env.createFolder("x/y", recursive: false)
    }
    try await env.writeFile("file", "x")
    try await expectFileError(.notDirectory, "creating a folder below a file") {
      try await env.createFolder("file/d")
    }
  }

  private static let temporaries: Body = { harness in
    let env = harness.env
    let first = try await env.createTemporaryFolder(prefix: "tmp-")
    let second = try await env.createTemporaryFolder(prefix: "tmp-")
    try expect(first == second, false, "whether two folders have one name")
    try expect(try await env.fileInfo(first).kind, .directory, "the kind of a temporary folder")
    let file = try await env.createTemporaryFile(prefix: "tmp-", suffix: ".txt")
    let info = try await env.fileInfo(file)
    try expect(info.kind, .file, "the kind of a temporary file")
    try expect(info.size, 0, "the size of a temporary file")
    try expect(
      info.name.hasPrefix("tmp-") && info.name.hasSuffix(".txt"),
      true,
      "whether '\(info.name)' begins and ends as asked for"
    )
    for path in [first, second, file] {
      try await env.remove(path, recursive: true, force: false)
    }
  }

  private static let conflicts: Body = { harness in
    let env = harness.env
    try await env.writeFile("a", "one")
    guard let version = try await env.fileInfo("a").version else { return }
    try await env.writeFile("a", "two", expecting: version)
    try await expectFileError(.invalid, "writing over a later state") {
      try await env.writeFile("a", "three", expecting: version)
    }
    try expect(try await env.readTextFile("a"), "two", "the file after the conflict")
    try await env.remove("a")
    try await expectFileError(.invalid, "writing what was removed meanwhile") {
      try await env.writeFile("a", "four", expecting: version)
    }
  }

  private static let aborts: Body = { harness in
    let env = harness.env
    try await env.writeFile("kept", "x")
    let attempts: [(String, @Sendable () async throws -> Void)] = [
      ("writing", { try await env.writeFile("new", "x") }),
      ("appending", { try await env.appendFile("kept", [1]) }),
      ("removing", { try await env.remove("kept") }),
      ("renaming", { try await env.rename("kept", to: "new") }),
      ("creating", { try await env.createFolder("new") }),
      ("looking", { _ = try await env.fileInfo("kept") }),
      ("opening", { _ = try await env.openFile("kept") }),
    ]
    for (what, attempt) in attempts {
      try await expectFileError(.aborted, "\(what) when cancelled") { try await cancelled(attempt) }
    }
    try expect(try await env.exists("new"), false, "whether something was created")
    try expect(try await env.readTextFile("kept"), "x", "what was there")
  }

  private static let lines: Body = { harness in
    let env = harness.env
    try await env.writeFile("a", "\u{FEFF}one\r\n\ntwo\u{FEFF}")
    let reader = try await env.openTextLineReader("a")
    var found: [TextLineReader.Line] = []
    while let line = try await reader.readLine() { found.append(line) }
    try expect(found.map { $0.text }, ["one\r", "", "two\u{FEFF}"], "the lines")
    try expect(found.map { $0.terminated }, [true, true, false], "which of them ended")
    await reader.close()
    try expect(try await env.readTextLines("a", maxLines: 2), ["one\r", ""], "the first two")
    try expect(try await env.readTextLines("a", maxLines: 0), [], "the first none")
  }
}

extension Environment {
  fileprivate func writeFile(
    _ path: String,
    _ text: String,
    expecting version: FileVersion
  ) async throws(FileError) {
    try await writeFile(path, Array(text.utf8), expecting: version)
  }
}
