import Perdure
import PerdureModel

/// Which store the command works on.
enum StoreAddress: Sendable {
  case memory
  case file(String)
  /// JSON lines.
  case folder(String)

  /// Reads `--store`; without it that is the user's own store.
  ///
  /// A folder, or a path with a slash at its end, means JSON lines.
  init(_ arguments: ParsedArguments) throws {
    let path = try arguments.value("store") ?? Self.userStore()
    if path == ":memory:" {
      self = .memory
      return
    }
    guard !path.isEmpty else {
      throw UsageError.make("--store names nothing", "give the path of a file or folder")
    }
    if path.hasSuffix("/") || HostText.kind(ofPath: path) == .folder {
      self = .folder(HostText.fullPath(path) ?? Self.withoutSlashes(HostText.absolutePath(path)))
      return
    }
    self = .file(HostText.fullPath(path) ?? HostText.absolutePath(path))
  }

  private static func withoutSlashes(_ path: String) -> String {
    var path = path
    while path.count > 1, path.hasSuffix("/") { path.removeLast() }
    return path
  }

  private static func userStore() throws -> String {
    if let data = HostText.folderVariable("XDG_DATA_HOME") {
      return data + "/perdure/perdure.sqlite"
    }
    if let home = HostText.folderVariable("HOME") {
      return home + "/.local/share/perdure/perdure.sqlite"
    }
    throw PerdureError(
      .invalidConfiguration,
      "there is no folder for your store",
      hint: "give --store PATH, or set HOME or XDG_DATA_HOME to an absolute path"
    )
  }

  /// For people and programs.
  var text: String {
    switch self {
    case .memory: ":memory:"
    case .file(let path), .folder(let path): path
    }
  }

  /// What continues the work of this store.
  var resumeCommand: String { command("resume") }

  /// A verb as it is written for this store.
  func command(_ verb: String) -> String { "perdure \(verb) --store \(ShellWord.quoted(text))" }

  /// Opens it for writing; the folder of the user's own store is created.
  func open(durability: Durability, isOwn: Bool) async throws -> OpenStore {
    switch self {
    case .memory: return try await OpenStore.open(.memory)
    case .folder(let path):
      return try await OpenStore.open(.jsonlFolder(at: path, durability: durability))
    case .file(let path):
      if isOwn, let slash = path.lastIndex(of: "/") {
        try HostText.makeFolders(String(path[..<slash]))
      }
      return try await OpenStore.open(.sqliteFile(at: path, durability: durability))
    }
  }

  /// Opens the store that must be there for writing.
  ///
  /// What is no store is refused before anything is written, so that not even a lock file is left.
  func openExisting(isNamed: Bool, durability: Durability = .full) async throws -> OpenStore {
    switch self {
    case .memory: throw Self.gone
    case .folder(let path):
      // Whoever makes a store makes this file first.
      if HostText.kind(ofPath: path + "/main.jsonl") == .nothing {
        throw missing(isNamed: isNamed)
      }
    case .file(let path):
      guard exists else { throw missing(isNamed: isNamed) }
      // With a log it was opened as a store before, and may need repair to be read.
      if HostText.kind(ofPath: path + "-wal") == .nothing {
        await (try StoreReader.open(sqliteAt: path)).close()
      }
    }
    return try await open(durability: durability, isOwn: false)
  }

  /// The error of a verb that needs a store on disk.
  static var gone: PerdureError {
    UsageError.make("a store in memory is gone already", "give the path of a file or folder")
  }

  /// Opens it for reading, also while another process owns it.
  func openReader(isNamed: Bool) async throws -> StoreReader {
    switch self {
    case .memory: throw Self.gone
    case _ where !exists: throw missing(isNamed: isNamed)
    case .folder(let path): return try await StoreReader.open(jsonlAt: path)
    case .file(let path): return try await StoreReader.open(sqliteAt: path)
    }
  }

  /// The id of the process that owns it, if one does.
  var owner: Int64? {
    switch self {
    case .memory: nil
    case .folder(let path): StoreReader.owner(ofJSONLAt: path)
    case .file(let path): StoreReader.owner(ofSQLiteAt: path)
    }
  }

  /// Makes the error of a store that does not exist.
  func missing(isNamed: Bool) -> PerdureError {
    PerdureError(
      .notFound,
      "there is no store at \(text)",
      hint: isNamed ? "check the path given with --store" : "run something first, or give --store"
    )
  }

  /// Makes the error of a conversation that does not exist.
  func missing(_ id: ConversationID, _ reader: StoreReader) async throws -> PerdureError {
    let page = try await reader.reads.scanConversations(.init(), PageRequest(limit: 20))
    let known = page.items.map { "\($0.id)" }
    return PerdureError(
      .notFound,
      "the store \(text) has no conversation \(id)",
      hint: known.isEmpty ? "it has none at all yet" : "it has \(known.joined(separator: ", "))"
    )
  }

  /// Whether there is something to read.
  var exists: Bool {
    switch self {
    case .memory: false
    case .file(let path), .folder(let path): HostText.kind(ofPath: path) != .nothing
    }
  }
}
