import PerdureModel
import PerdureValue

extension OperationSchema {
  private static let writing: CallClasses = [.tool, .task, .abort]
  private static let reading: CallClasses = [.tool, .task, .abort, .section]
  private static let elsewhere = OperationMember.takes("conversation", .id)

  static let environments: [OperationSchema] = looking + changing + running

  private static func environment(
    _ name: String,
    _ classes: CallClasses,
    isOneWay: Bool = false,
    _ members: [OperationMember],
    _ body: @escaping @Sendable (OperationRun, Arguments) async throws -> RequestResult
  ) -> OperationSchema {
    OperationSchema(
      name: name,
      classes: classes,
      isOneWay: isOneWay,
      members: members + [elsewhere],
      body: .later(body)
    )
  }

  private static let looking: [OperationSchema] = [
    environment("env.info", reading, []) { run, input in
      .object(try await run.environmentInfo(input))
    },
    environment(
      "env.path",
      reading,
      [
        .needs("path", .text), .takes("join", .list(.text, 0...1_024)), .takes("canonical", .bool),
      ]
    ) { run, input in .object(["path": .string(try await run.environmentPath(input))]) },
    environment("env.stat", reading, [.needs("path", .text)]) { run, input in
      .object(try await run.fileInfo(input))
    },
    environment("env.open", reading, [.needs("path", .text), .takes("noFollow", .bool)]) {
      run,
      input in .object(try await run.openFile(input))
    },
    environment("env.close", reading, isOneWay: true, [.needs("file", .handle)]) { run, input in
      guard let file = run.call?.files.remove(input.text("file")) else {
        throw OperationProblem.unknownHandle(input.text("file"))
      }
      await file.close()
      return .object([:])
    },
    environment(
      "env.read",
      reading,
      [.needs("path", .text), .takes("offset", .count), .takes("length", .count)]
    ) { run, input in .bytes(try await run.readFile(input)) },
    environment(
      "env.lines",
      reading,
      [.needs("path", .text), .needs("startLine", .count), .takes("endLine", .count)]
    ) { run, input in .object(try await run.findLines(input)) },
    environment("env.list", reading, [.needs("path", .text)]) { run, input in
      .object(try await run.listFolder(input))
    },
    environment(
      "env.files",
      reading,
      [
        .needs("path", .text), .needs("maxEntries", .integer(1...1_000_000)),
        .takes("maxBytes", .integer(1...8 << 20)), .takes("timeoutMs", .integer(1...600_000)),
        .takes("hidden", .bool), .takes("gitignore", .bool),
        .takes("exclude", .list(.text, 0...1_024)),
      ]
    ) { run, input in .object(try await run.listFiles(input)) },
  ]

  private static let changing: [OperationSchema] = [
    environment(
      "env.write",
      writing,
      [
        .needs("path", .text), .needs("mode", .word(["replace", "append", "truncate", "flush"])),
        .takes("bytes", .object), .takes("text", .text), .takes("size", .count),
        .takes("expecting", .text),
      ]
    ) { run, input in
      try await run.writeFile(input)
      return .object([:])
    },
    environment("env.rename", writing, [.needs("from", .text), .needs("to", .text)]) { run, input in
      let env = try await run.environment(.write, input)
      try await env.rename(input.text("from"), to: input.text("to"))
      return .object([:])
    },
    environment(
      "env.remove",
      writing,
      [.needs("path", .text), .takes("recursive", .bool), .takes("force", .bool)]
    ) { run, input in
      let env = try await run.environment(.write, input)
      try await env.remove(
        input.text("path"),
        recursive: input.flag("recursive") ?? false,
        force: input.flag("force") ?? false
      )
      return .object([:])
    },
    environment("env.mkdir", writing, [.needs("path", .text), .takes("recursive", .bool)]) {
      run,
      input in
      let env = try await run.environment(.write, input)
      try await env.createFolder(
        input.text("path"),
        recursive: input.flag("recursive") ?? true
      )
      return .object([:])
    },
    environment(
      "env.temp",
      writing,
      [
        .needs("kind", .word(["dir", "file"])), .takes("prefix", .short), .takes("suffix", .short),
      ]
    ) { run, input in
      let env = try await run.environment(.write, input)
      let prefix = input["prefix"]?.text
      let path =
        input.text("kind") == "dir"
        ? try await env.createTemporaryFolder(prefix: prefix ?? "tmp-")
        : try await env.createTemporaryFile(prefix: prefix ?? "", suffix: input.text("suffix"))
      return .object(["path": .string(path)])
    },
  ]

  private static let running: [OperationSchema] = [
    environment("env.watch", writing, [.needs("targets", .list(.object, 1...1_024))]) {
      run,
      input in .object(try await run.watchFiles(input))
    },
    environment(
      "env.exec",
      writing,
      [
        .needs("command", .either([.text, .list(.text, 1...4_096)])), .takes("cwd", .text),
        .takes("env", .object), .takes("inheritEnv", .bool), .takes("timeoutMs", .number),
        .takes("spill", .object), .takes("window", .object), .takes("pipe", .bool),
      ]
    ) { run, input in .object(try await run.execute(input)) },
  ]
}
