import Perdure
import PerdureModel

/// Which store the command works on.
enum StoreAddress: Sendable {
  case memory
  case file(String)

  /// Reads `--store`; without it that is the user's own store.
  ///
  /// A folder means JSONL, which this version does not have.
  init(_ arguments: ParsedArguments) throws {
    let path = try arguments.value("store") ?? Self.userStore()
    if path == ":memory:" {
      self = .memory
      return
    }
    guard !path.isEmpty else {
      throw UsageError.make("--store names nothing", "give the path of a file")
    }
    if path.hasSuffix("/") || HostText.kind(ofPath: path) == .folder {
      throw PerdureError(
        .invalidConfiguration,
        "the store \(path) is a folder, and this version keeps no stores in folders",
        hint:
          "give the path of a file, such as \(path.hasSuffix("/") ? path : path + "/")store.sqlite"
      )
    }
    self = .file(HostText.fullPath(path) ?? HostText.absolutePath(path))
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
    case .file(let path): path
    }
  }

  /// What continues the work of this store.
  var resumeCommand: String { "perdure resume --store \(ShellWord.quoted(text))" }

  /// Opens it for writing; the folder of the user's own store is created.
  func open(durability: Durability, isOwn: Bool) async throws -> OpenStore {
    guard case .file(let path) = self else { return try await OpenStore.open(.memory) }
    if isOwn, let slash = path.lastIndex(of: "/") {
      try HostText.makeFolders(String(path[..<slash]))
    }
    return try await OpenStore.open(.sqliteFile(at: path, durability: durability))
  }

  /// Makes the error of a store that does not exist.
  func missing(isNamed: Bool) -> PerdureError {
    PerdureError(
      .notFound,
      "there is no store at \(text)",
      hint: isNamed ? "check the path given with --store" : "run something first, or give --store"
    )
  }

  /// Whether there is something to read.
  var exists: Bool {
    guard case .file(let path) = self else { return false }
    return HostText.kind(ofPath: path) != .nothing
  }
}
