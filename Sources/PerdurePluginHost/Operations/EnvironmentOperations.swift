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
      let env = try await run.environment(.read, input)
      do {
        let info = try await env.fileInfo(input.text("path"))
        return .object(["info": OperationRun.json(info)])
      } catch let error as FileError {
        guard error.code == .notFound else { throw error }
        return .object([:])
      }
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

/// What plugins ask of the environment of their conversation.
extension OperationRun {
  /// The environment, if the plugin may use it so.
  func environment(
    _ need: ManifestPermissions.Environment,
    _ input: Arguments
  ) async throws -> any Environment {
    let ranks = ManifestPermissions.Environment.allCases
    let rank = core.grants.environment.flatMap { ranks.firstIndex(of: $0) } ?? -1
    guard let needed = ranks.firstIndex(of: need), rank >= needed else {
      throw denied("the environment", "ask for the permission environment: \"\(need.rawValue)\"")
    }
    let engine = try engine()
    if let id: ConversationID = input.id("conversation"), id != engine.conversationId {
      throw OperationProblem(
        .unsupported,
        "\(request.operation.name) serves the conversation of the call alone",
        reason: "fields",
        at: "/conversation"
      )
    }
    // What is done outside is not forgotten by a crash only if what led to it is on disk.
    if need != .read { try await engine.barrier() }
    if let tool = call?.place.tool {
      guard let env = tool.env else { throw Self.noEnvironment }
      return env
    }
    guard let env = try await engine.environment() else { throw Self.noEnvironment }
    return env
  }

  private static let noEnvironment = CallRefusal(
    .notFound,
    "the conversation has no environment"
  )

  static func json(_ info: FileInfo) -> JSON {
    var object: JSONObject = [
      "name": .string(info.name), "path": .string(info.path),
      "kind": .string(info.kind.rawValue), "size": .int(info.size), "mtimeMs": .int(info.mtimeMs),
    ]
    if let target = info.target { object["target"] = .string(target) }
    return .object(object)
  }

  func environmentInfo(_ input: Arguments) async throws -> JSONObject {
    let env = try await environment(.read, input)
    var watches = true
    do {
      let watch = try await env.watch([]) { _ in }
      await watch.close()
    } catch {
      watches = error.code != .notSupported
    }
    return [
      "id": .string(env.id), "cwd": .string(env.cwd), "exec": .bool(env.runsCommands),
      "watch": .bool(watches),
    ]
  }

  func environmentPath(_ input: Arguments) async throws -> String {
    let env = try await environment(.read, input)
    let more = (input["join"]?.array ?? []).compactMap { $0.text }
    let path = try env.joinPath([try env.absolutePath(input.text("path"))] + more)
    return input.flag("canonical") == true ? try await env.canonicalPath(path) : path
  }

  // MARK: Files

  func openFile(_ input: Arguments) async throws -> JSONObject {
    let env = try await environment(.read, input)
    let reader = try await env.openFile(
      input.text("path"),
      noFollow: input.flag("noFollow") ?? false
    )
    do {
      let info = try await reader.info()
      guard let handle = call?.files.open(reader) else {
        throw CallRefusal(.limit, "the call has too many open files")
      }
      return ["file": .string(handle), "info": Self.json(info)]
    } catch {
      await reader.close()
      throw error
    }
  }

  /// Reads from the file that `path` is, as a handle or as a path.
  private func reading<Value>(
    _ input: Arguments,
    _ body: (any FileReader) async throws -> Value
  ) async throws -> Value {
    let env = try await environment(.read, input)
    if let file = call?.files.file(input.text("path")) { return try await body(file) }
    let reader = try await env.openFile(input.text("path"), noFollow: false)
    do {
      let value = try await body(reader)
      await reader.close()
      return value
    } catch {
      await reader.close()
      throw error
    }
  }

  private static let readLimit: Int64 = 16 << 20

  func readFile(_ input: Arguments) async throws -> [UInt8] {
    try await reading(input) { reader in
      let offset = input.integer("offset") ?? 0
      let size = try await reader.info().size
      let length = input.integer("length") ?? max(0, size - offset)
      guard length <= Self.readLimit else {
        throw FileError(
          .invalid,
          "\(length) bytes are more than one answer holds",
          path: input.text("path"),
          reason: .tooLarge,
          hint: "read at most \(Self.readLimit) at a time"
        )
      }
      return try await reader.read(offset: offset, length: Int(length))
    }
  }

  func findLines(_ input: Arguments) async throws -> JSONObject {
    let start = Int(clamping: input.integer("startLine") ?? 0)
    let end = input.integer("endLine").map { Int(clamping: $0) }
    let scan = try await reading(input) { try await $0.scanLines(from: start, to: end) }
    return [
      "newlines": .int(Int64(scan.newlines)), "start": .int(scan.start), "end": .int(scan.end),
      "firstLineEnd": .int(scan.firstLineEnd), "lastLineStart": .int(scan.lastLineStart),
      "selectedBytes": .int(scan.selectedBytes), "firstLineBytes": .int(scan.firstLineBytes),
    ]
  }

  func writeFile(_ input: Arguments) async throws {
    let env = try await environment(.write, input)
    let path = input.text("path")
    switch input.text("mode") {
    case "replace": try await env.writeFile(path, try content(input), expecting: nil)
    case "append": try await env.appendFile(path, try content(input))
    case "truncate":
      guard let size = input.integer("size") else { throw wrong("no size", "/size") }
      try await env.truncateFile(path, to: size)
    default: try await env.flushFile(path)
    }
  }

  private func wrong(_ what: String, _ pointer: String) -> OperationProblem {
    OperationProblem(
      .invalid,
      "\(request.operation.name) was given \(what)",
      reason: "shape",
      at: pointer
    )
  }

  /// What is written: text, or the bytes of a part of the message.
  private func content(_ input: Arguments) throws -> [UInt8] {
    if let bytes = input["bytes"] {
      guard let data = bytes["data"]?.text, let decoded = Base64.decode(data) else {
        throw wrong("bytes that are no part of the message", "/bytes")
      }
      return decoded
    }
    guard let text = input["text"]?.text else { throw wrong("neither bytes nor text", "/bytes") }
    return Array(text.utf8)
  }

  // MARK: Lists

  func listFolder(_ input: Arguments) async throws -> JSONObject {
    let env = try await environment(.read, input)
    let reader = try await env.openFolder(input.text("path"))
    return try stream(pauses: false) { stream in
      do {
        while true {
          let page = try await reader.next(256)
          for entry in page.entries {
            guard await stream.send(Self.json(entry)) else { return [:] }
          }
          if page.isLast { break }
        }
        await reader.close()
        return [:]
      } catch {
        await reader.close()
        throw error
      }
    }
  }

  func listFiles(_ input: Arguments) async throws -> JSONObject {
    let env = try await environment(.read, input)
    var bounds = ListingBounds(maxEntries: Int(input.integer("maxEntries") ?? 1))
    if let bytes = input.integer("maxBytes") { bounds.maxBytes = Int(bytes) }
    if let time = input.integer("timeoutMs") { bounds.timeoutMs = Int(time) }
    bounds.hidden = input.flag("hidden") ?? true
    bounds.gitignore = input.flag("gitignore") ?? true
    bounds.exclude = (input["exclude"]?.array ?? []).compactMap { $0.text }
    let listing = try await env.listFiles(input.text("path"), bounds)
    return [
      "entries": .array(
        listing.entries.map {
          ["path": .string($0.path), "kind": .string($0.kind.rawValue)]
        }
      ),
      "truncated": .bool(listing.truncated),
    ]
  }

  /// Gives the call a stream that a task fills and ends.
  private func stream(
    pauses: Bool,
    _ fill: @escaping @Sendable (BufferedStream) async throws -> JSON
  ) throws -> JSONObject {
    let stream = BufferedStream(pauses: pauses)
    guard let handle = call?.streams.open(stream) else {
      throw CallRefusal(.limit, "the call has too many streams")
    }
    // Ends with the stream, which the end of the call closes.
    let work = Task {
      do {
        stream.finish(try await fill(stream))
      } catch {
        stream.finish(["error": Self.failure(of: error).json])
      }
    }
    stream.onClose { work.cancel() }
    return ["stream": .string(JSONString(handle))]
  }

  // MARK: Watches and commands

  func watchFiles(_ input: Arguments) async throws -> JSONObject {
    let env = try await environment(.read, input)
    let targets = try (input["targets"]?.array ?? []).enumerated().map { index, json in
      guard let path = json["path"]?.text else {
        throw wrong("a target without a path", "/targets/\(index)/path")
      }
      return WatchTarget(
        path,
        recursive: json["recursive"] == true,
        exclude: WatchTarget.Exclusions(
          hidden: json["exclude"]?["hidden"] == true,
          names: Set((json["exclude"]?["names"]?.array ?? []).compactMap { $0.text })
        )
      )
    }
    let stream = BufferedStream(pauses: true)
    let watch = try await env.watch(targets) { change in
      switch change {
      case .paths(let paths): stream.offer(["paths": .array(paths.map { .string($0) })])
      case .overflow: stream.offer(["overflow": true])
      case .failed(let error): stream.finish(["error": Self.failure(of: error).json])
      }
    }
    guard let handle = call?.streams.open(stream) else {
      await watch.close()
      throw CallRefusal(.limit, "the call has too many streams")
    }
    stream.onClose { Task { await watch.close() } }
    return ["stream": .string(JSONString(handle))]
  }

  func execute(_ input: Arguments) async throws -> JSONObject {
    let env = try await environment(.exec, input)
    let command: EnvironmentCommand =
      if let words = input["command"]?.array {
        .arguments(words.compactMap { $0.text })
      } else {
        .shell(input.text("command"))
      }
    let options = try executionOptions(input)
    let host = input.flag("pipe") == true ? call?.place.tool?.host : nil
    guard input.flag("pipe") != true || host != nil else {
      throw OperationProblem(
        .invalid,
        "env.exec has no output of a tool to put its own into",
        reason: "not_here",
        at: "/pipe"
      )
    }
    return try stream(pauses: true) { stream in
      let result = try await env.execute(command, options) { chunk in
        if let host {
          try host.output(JSONString(chunk.text), skipped: chunk.skipped)
        } else if await !stream.send(Self.json(chunk)) {
          throw CancellationError()
        }
      }
      var end: JSONObject = ["exitCode": .int(Int64(result.exitCode))]
      if let path = result.spillPath { end["spillPath"] = .string(path) }
      return .object(end)
    }
  }

  private static func json(_ chunk: OutputChunk) -> JSON {
    var object: JSONObject = [
      "stream": .string(chunk.stream.rawValue), "text": .string(chunk.text),
    ]
    if let skipped = chunk.skipped {
      object["skipped"] = [
        "bytes": .int(Int64(skipped.bytes)), "newlines": .int(Int64(skipped.newlines)),
        "endsWithNewline": .bool(skipped.endsWithNewline),
      ]
    }
    return .object(object)
  }

  private func executionOptions(_ input: Arguments) throws -> ExecutionOptions {
    var options = ExecutionOptions(cwd: input["cwd"]?.text)
    for (name, value) in input["env"]?.object ?? [:] {
      guard let text = value.text else {
        throw wrong("a variable that is no string", "/env/\(name.string)")
      }
      options.variables[name.string] = text
    }
    options.inheritsVariables = input.flag("inheritEnv") ?? true
    options.timeout = input["timeoutMs"]?.double.map { $0 / 1_000 }
    func number(_ member: String, _ name: JSONString) throws -> Int {
      guard let value = input[member]?[name]?.int, value >= 0 else {
        throw wrong("no number", "/\(member)/\(name.string)")
      }
      return Int(clamping: value)
    }
    if input["spill"] != nil {
      options.spill = ExecutionOptions.Spill(
        afterBytes: try number("spill", "afterBytes"),
        afterLines: try number("spill", "afterLines")
      )
    }
    if input["window"] != nil {
      options.window = OutputWindowHint(
        maxBytes: try number("window", "maxBytes"),
        maxLines: try number("window", "maxLines"),
        minIntervalMs: try number("window", "minIntervalMs"),
        bytesPerSecond: try number("window", "bytesPerSecond")
      )
    }
    return options
  }
}
