import PerdureModel
import PerdureValue

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
    if let version = info.version { object["version"] = .string(version.mark) }
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

  /// What is known of what `path` is, a handle or a path; absent if nothing is there.
  func fileInfo(_ input: Arguments) async throws -> JSONObject {
    let env = try await environment(.read, input)
    let path = input.text("path")
    if let file = call?.files.file(path) { return ["info": Self.json(try await file.info())] }
    do {
      return ["info": Self.json(try await env.fileInfo(path))]
    } catch {
      guard error.code == .notFound else { throw error }
      return [:]
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
    case "replace":
      let version = input["expecting"]?.text.map { FileVersion($0) }
      try await env.writeFile(path, try content(input), expecting: version)
    case "append": try await env.appendFile(path, try content(input))
    case "truncate":
      guard let size = input.integer("size") else { throw wrong("no size", "/size") }
      try await env.truncateFile(path, to: size)
    default: try await env.flushFile(path)
    }
  }

  func wrong(_ what: String, _ pointer: String) -> OperationProblem {
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
  func stream(
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
}
