import PerdureStorage

/// A store that is open, and that no engine has touched yet.
///
/// Whoever must know what it holds before deciding how to go on opens it first, reads, and then
/// hands it to `Harness.open` as `.opened`; nothing was written until then.
public struct OpenStore: Sendable {
  let storage: any Storage

  /// Opens a store; one that does not exist is created, empty.
  ///
  /// Throws `storeInUse` if another process owns the store, `storeUnreadable` if the file is no
  /// store of a known version, and `storeUnwritable` if it cannot be written.
  public static func open(_ location: StoreLocation) async throws -> OpenStore {
    OpenStore(storage: try await location.open())
  }

  /// What it holds.
  public var reader: StoreReader { StoreReader(storage: storage) }

  /// Releases it; not to be called once a harness owns it.
  public func close() async { await storage.close() }
}

extension StoreLocation {
  func open() async throws -> any Storage {
    switch self {
    case .sqlite(let path): try await SQLiteStorage.open(path: path)
    case .sqliteFile(let path, let durability):
      try await SQLiteStorage.open(
        path: path,
        durability: durability == .full ? .full : .normal
      )
    case .sqliteConnection(let connection, let prefix):
      try await SQLiteStorage.open(on: connection, prefix: prefix)
    case .jsonl(let path): try await JSONLStorage.open(path: path)
    case .jsonlFolder(let path, let durability):
      try await JSONLStorage.open(
        path: path,
        durability: durability == .full ? .full : .normal
      )
    case .memory: MemoryStorage()
    case .opened(let store): store.storage
    case .custom(let storage): storage
    }
  }
}
