import PerdureModel
import PerdurePluginKit

/// The environment of a conversation, through the operations `env.*` of one call.
struct PluginEnvironment: Environment {
  let id: String
  let cwd: String
  let runsCommands: Bool
  let call: PerdurePluginKit.ToolCall
  /// The absolute paths of what only the host can read, such as `~`.
  private let known: [String: String]

  /// Looks at the environment; `nil` if the conversation has none.
  init?(_ call: PerdurePluginKit.ToolCall) async throws {
    guard let place = call.call.input["env"] else { return nil }
    self.call = call
    id = place["id"]?.text ?? ""
    cwd = place["cwd"]?.text ?? "/"
    runsCommands = try await call.invoke("env.info")["exec"]?.bool ?? false
    var known: [String: String] = [:]
    for argument in [call.arguments["path"]?.text].compactMap(\.self) {
      let without = argument.hasPrefix("@") ? String(argument.dropFirst()) : argument
      for path in Set([argument, without]) where path.hasPrefix("~") || path.hasPrefix("file:") {
        known[path] = try? await call.invoke("env.path", ["path": .string(path)])["path"]?.text
      }
    }
    self.known = known
  }

  var confinement: Confinement {
    Confinement(tier: id, files: "files are those of the host's environment \(id)")
  }

  // MARK: Paths

  func absolutePath(_ path: String) throws(FileError) -> String {
    if let path = known[path] { return path }
    guard !path.utf8.contains(0) else {
      throw FileError(
        .invalid,
        "the path \(path.quotedForMessage) holds a zero byte",
        path: path,
        hint: "give a path without it"
      )
    }
    let slash = UInt8(ascii: "/")
    var names: [Substring.UTF8View] = []
    let whole = path.utf8.first == slash ? path : "\(cwd)/\(path)"
    for name in whole.utf8.split(separator: slash) {
      switch String(decoding: name, as: UTF8.self) {
      case ".": break
      case "..": names = names.dropLast()
      default: names.append(name)
      }
    }
    return "/" + names.map { String(decoding: $0, as: UTF8.self) }.joined(separator: "/")
  }

  func canonicalPath(_ path: String) async throws(FileError) -> String {
    let answer = try await ask("env.path", path, ["canonical": true])
    return answer["path"]?.text ?? path
  }

  // MARK: Files

  func fileInfo(_ path: String) async throws(FileError) -> FileInfo {
    guard let info = try await ask("env.stat", path)["info"] else {
      throw FileError(.notFound, "\(path.quotedForMessage) does not exist", path: path)
    }
    return FileInfo(border: info)
  }

  func openFile(_ path: String, noFollow: Bool) async throws(FileError) -> any FileReader {
    let answer = try await ask("env.open", path, ["noFollow": .bool(noFollow)])
    return PluginFile(env: self, path: path, handle: answer["file"]?.text ?? "")
  }

  func openFolder(_ path: String) async throws(FileError) -> any FolderReader {
    do {
      return PluginFolder(try await call.stream("env.list", ["path": .string(path)]), path)
    } catch {
      throw FileError(border: error, path)
    }
  }

  func writeFile(
    _ path: String,
    _ bytes: [UInt8],
    expecting: FileVersion?
  ) async throws(FileError) {
    var input: JSONObject = ["mode": "replace"]
    input["expecting"] = expecting.map { .string($0.mark) }
    try await write(path, bytes, input)
  }

  func appendFile(_ path: String, _ bytes: [UInt8]) async throws(FileError) {
    try await write(path, bytes, ["mode": "append"])
  }

  private func write(
    _ path: String,
    _ bytes: [UInt8],
    _ input: JSONObject
  ) async throws(FileError) {
    var input = input
    input["path"] = .string(path)
    input["bytes"] = ["part": 1]
    do {
      _ = try await call.request("env.write", .parts(.object(input), [bytes]))
    } catch {
      throw FileError(border: error, path)
    }
  }

  func truncateFile(_ path: String, to size: Int64) async throws(FileError) {
    try await ask("env.write", path, ["mode": "truncate", "size": .int(size)])
  }

  func flushFile(_ path: String) async throws(FileError) {
    try await ask("env.write", path, ["mode": "flush"])
  }

  func rename(_ path: String, to newPath: String) async throws(FileError) {
    try await ask("env.rename", path, ["from": .string(path), "to": .string(newPath)])
  }

  func createFolder(_ path: String, recursive: Bool) async throws(FileError) {
    try await ask("env.mkdir", path, ["recursive": .bool(recursive)])
  }

  func remove(_ path: String, recursive: Bool, force: Bool) async throws(FileError) {
    let input: JSONObject = ["recursive": .bool(recursive), "force": .bool(force)]
    try await ask("env.remove", path, input)
  }

  func createTemporaryFolder(prefix: String) async throws(FileError) -> String {
    let answer = try await ask("env.temp", "", ["kind": "dir", "prefix": .string(prefix)])
    return answer["path"]?.text ?? ""
  }

  func createTemporaryFile(prefix: String, suffix: String) async throws(FileError) -> String {
    let input: JSONObject = [
      "kind": "file", "prefix": .string(prefix), "suffix": .string(suffix),
    ]
    return try await ask("env.temp", "", input)["path"]?.text ?? ""
  }

  func listFiles(_ path: String, _ bounds: ListingBounds) async throws(FileError) -> FileListing {
    let answer = try await ask(
      "env.files",
      path,
      [
        "maxEntries": .int(Int64(bounds.maxEntries)), "maxBytes": .int(Int64(bounds.maxBytes)),
        "timeoutMs": .int(Int64(bounds.timeoutMs)), "hidden": .bool(bounds.hidden),
        "gitignore": .bool(bounds.gitignore),
        "exclude": .array(bounds.exclude.map { .string($0) }),
      ]
    )
    let entries = (answer["entries"]?.array ?? []).map { entry in
      FileListing.Entry(
        path: entry["path"]?.text ?? "",
        kind: entry["kind"]?.text.flatMap(FileInfo.Kind.init(rawValue:)) ?? .file
      )
    }
    return FileListing(entries: entries, truncated: answer["truncated"]?.bool ?? false)
  }

  @discardableResult func ask(
    _ operation: String,
    _ path: String,
    _ input: JSONObject = [:]
  ) async throws(FileError) -> JSON {
    var input = input
    if input["path"] == nil { input["path"] = .string(path) }
    do { return try await call.invoke(operation, .object(input)) } catch {
      throw FileError(border: error, path)
    }
  }

  // MARK: Commands

  /// Runs a command whose output goes to the host's end of the call, without a way through here.
  func run(
    _ command: EnvironmentCommand,
    _ options: ExecutionOptions
  ) async throws -> ExecutionResult {
    try await execute(command, options, pipes: true) { _ in }
  }

  func execute(
    _ command: EnvironmentCommand,
    _ options: ExecutionOptions,
    _ onOutput: (@Sendable (OutputChunk) async throws -> Void)?
  ) async throws(ExecutionError) -> ExecutionResult {
    try await execute(command, options, pipes: false) { item in
      try await onOutput?(OutputChunk(border: item))
    }
  }

  private func execute(
    _ command: EnvironmentCommand,
    _ options: ExecutionOptions,
    pipes: Bool,
    _ take: (JSON) async throws -> Void
  ) async throws(ExecutionError) -> ExecutionResult {
    do {
      let stream = try await call.stream("env.exec", Self.input(command, options, pipes: pipes))
      for try await item in stream { try await take(item) }
      let end = stream.end
      return ExecutionResult(
        exitCode: Int32(clamping: end?["exitCode"]?.int ?? -1),
        spillPath: end?["spillPath"]?.text,
        spillTruncated: end?["spillTruncated"]?.bool ?? false,
        confinement: end?["confinement"].map { Confinement(border: $0) }
      )
    } catch {
      throw ExecutionError(border: error)
    }
  }

  private static func input(
    _ command: EnvironmentCommand,
    _ options: ExecutionOptions,
    pipes: Bool
  ) -> JSON {
    var input: JSONObject = [
      "inheritEnv": .bool(options.inheritsVariables), "pipe": .bool(pipes),
    ]
    switch command {
    case .shell(let line): input["command"] = .string(line)
    case .arguments(let words): input["command"] = .array(words.map { .string($0) })
    }
    input["cwd"] = options.cwd.map { .string($0) }
    if !options.variables.isEmpty {
      var variables = JSONObject()
      for (name, value) in options.variables { variables[JSONString(name)] = .string(value) }
      input["env"] = .object(variables)
    }
    input["timeoutMs"] = options.timeout.map { .double($0 * 1_000) }
    input["spill"] = options.spill.map {
      ["afterBytes": .int(Int64($0.afterBytes)), "afterLines": .int(Int64($0.afterLines))]
    }
    input["window"] = options.window.map {
      [
        "maxBytes": .int(Int64($0.maxBytes)), "maxLines": .int(Int64($0.maxLines)),
        "minIntervalMs": .int(Int64($0.minIntervalMs)),
        "bytesPerSecond": .int(Int64($0.bytesPerSecond)),
      ]
    }
    return .object(input)
  }
}
