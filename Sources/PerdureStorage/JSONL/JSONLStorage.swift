package import PerdureModel
import PerdureValue
import Synchronization

/// A store in a folder of JSON lines, in the shape of pi-durable's.
///
/// A commit is made by one line of `main.jsonl`. A group is written with all that its commits add
/// to other files first; a crash may keep the first commits of it and lose the rest. Everything is
/// held in memory while the store is open.
package final class JSONLStorage: InMemoryReads, CompactingStorage {
  private let state: JSONLState
  /// Absent if the store was opened for reading.
  private let thread: StoreThread<JSONLJournal>?
  private let path: String
  private let isClosed = Mutex(false)
  /// What could not be read, and is absent from every answer.
  package let damages: [PerdureError]

  private init(
    _ state: JSONLState,
    _ thread: StoreThread<JSONLJournal>?,
    path: String,
    damages: [PerdureError] = []
  ) {
    self.state = state
    self.thread = thread
    self.path = path
    self.damages = damages
  }

  deinit { thread?.abandon() }

  /// Opens the store in the folder at `path`; a missing one is created unless `readOnly`.
  ///
  /// The store is locked until `close`. One that is opened for reading takes no lock, may belong
  /// to another process and shows what it holds at this moment; no file of it is changed. With
  /// full durability every group waits for the disk, otherwise none does, and a loss of power may
  /// also damage the store. `wrapping` puts something in front of the files. A store that is opened
  /// for reading with `passesOverDamage` shows all that can be read; `damages` says what cannot.
  package static func open(
    path: String,
    durability: Durability = .full,
    readOnly: Bool = false,
    passesOverDamage: Bool = false,
    wrapping: (@Sendable (any StoreFiles) -> any StoreFiles)? = nil
  ) async throws -> JSONLStorage {
    let path = StorePath.resolved(path)
    let errors = JSONLErrors(path: path)
    try StorePath.checkFolder(path, mayBeAbsent: !readOnly)
    let thread = try StoreThread<JSONLJournal>()
    do {
      let state = Mutex<JSONLState?>(nil)
      if readOnly {
        let (found, damages) = try await thread.perform {
          let passedOver = passesOverDamage ? PassedOver() : nil
          let state = JSONLState(try reading(path, errors, passedOver, wrapping))
          return (state, passedOver?.errors ?? [])
        }
        await thread.stop()
        return JSONLStorage(found, nil, path: path, damages: damages)
      }
      try await thread.adopt {
        let files = try folder(path, errors, creates: true)
        try requireStore(files, errors, mayBeEmpty: true)
        let lock = try StoreLock(store: path, file: path + "/" + JSONLNames.lock)
        let journal = try JSONLJournal(
          wrapping?(files) ?? files,
          errors,
          flushes: durability == .full,
          lock: lock
        )
        state.withLock { $0 = journal.state }
        return journal
      }
      guard let opened = state.withLock({ $0 }) else {
        throw PerdureError(.closed, "the store is closed")
      }
      return JSONLStorage(opened, thread, path: path)
    } catch {
      await thread.stop()
      throw error
    }
  }

  /// Returns who has the store at `path` open for writing; `nil` if nobody does.
  package static func owner(ofStore path: String) -> StoreLock.Owner? {
    StoreLock.owner(ofFile: path + "/" + JSONLNames.lock)
  }

  static func folder(
    _ path: String,
    _ errors: JSONLErrors,
    creates: Bool
  ) throws -> FolderFiles {
    do {
      return try FolderFiles(at: path, creates: creates)
    } catch {
      throw errors.opening(error)
    }
  }

  /// Throws unless the folder holds a store or, if `mayBeEmpty`, nothing.
  static func requireStore(
    _ files: any StoreFiles,
    _ errors: JSONLErrors,
    mayBeEmpty: Bool
  ) throws {
    let names: [String]
    do {
      names = try files.names()
    } catch {
      throw errors.opening(error)
    }
    if names.contains(JSONLNames.main) { return }
    guard names.allSatisfy({ JSONLNames.isOurs($0) }) else { throw errors.noStore }
    if names.isEmpty, !mayBeEmpty { throw errors.missing }
  }

  /// The state of a store that another process may be writing.
  private static func reading(
    _ path: String,
    _ errors: JSONLErrors,
    _ passedOver: PassedOver?,
    _ wrapping: (@Sendable (any StoreFiles) -> any StoreFiles)?
  ) throws -> MemoryState {
    let folder = try folder(path, errors, creates: false)
    try requireStore(folder, errors, mayBeEmpty: false)
    let files = wrapping?(folder) ?? folder
    files.share()
    defer { files.release() }
    // An owner that does not know of sharing may remove what a commit made unnecessary that was not
    // read yet; then main has grown, and reading again finds that commit.
    for _ in 0..<20 {
      let before = try? files.mark(JSONLNames.main)
      do {
        var recovery = JSONLRecovery(files, errors, repairs: false)
        return try recovery.run().state
      } catch {
        if before == (try? files.mark(JSONLNames.main)) {
          if passedOver == nil { throw error }
          break
        }
      }
    }
    var recovery = JSONLRecovery(files, errors, repairs: false, passedOver: passedOver)
    return try recovery.run().state
  }

  package func read<Value>(_ body: (MemoryState) throws -> sending Value) throws -> sending Value {
    if isClosed.withLock({ $0 }) { throw PerdureError(.closed, "the store is closed") }
    try state.check()
    return try state.memory.withLock { try body($0) }
  }

  package func apply(
    _ group: [Batch],
    expecting expected: StoreCounters,
    nextId: Int64
  ) async throws {
    guard let thread else {
      throw PerdureError(.storeUnwritable, "the store \(path) was opened for reading only")
    }
    try await thread.call { try $0.apply(group, expecting: expected, nextId: nextId) }
  }

  package func compact() async throws {
    guard let thread else {
      throw PerdureError(.storeUnwritable, "the store \(path) was opened for reading only")
    }
    try await thread.call { try $0.compact() }
  }

  package func close() async {
    isClosed.withLock { $0 = true }
    await thread?.stop()
  }
}

extension JSONLErrors {
  fileprivate var noStore: PerdureError {
    PerdureError(
      .storeUnreadable,
      "the folder \(path) holds other files and no store",
      hint: "give the path of a new or empty folder"
    )
  }

  fileprivate var missing: PerdureError {
    PerdureError(
      .notFound,
      "there is no store at \(path)",
      hint: "check the path given with --store"
    )
  }
}
