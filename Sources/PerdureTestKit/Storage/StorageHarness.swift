public import PerdureModel
public import PerdureValue

/// A store as the conformance suite uses it: a backend, or a layer in front of one.
public protocol ConformanceStore: Sendable {
  /// Commits one batch and returns its sequence number.
  func commit(_ writes: [StorageWrite], extras: [ExtraWrite]) async throws -> Int64
  /// Returns an id that no record has.
  func mintId() async throws -> Int64
  /// Reads that see every commit.
  var reads: any StorageReads { get }
  /// Releases the store; later calls throw `closed`.
  func close() async
}

/// The simplest use of a backend: one batch a group, ids counted in memory.
public actor DirectStore: ConformanceStore {
  /// The backend.
  public nonisolated let storage: any Storage
  private var counters: StoreCounters
  private var nextId: Int64
  private var isClosed = false

  /// Reads the counters of `storage`, which this store owns from now on.
  public init(_ storage: any Storage) async throws {
    self.storage = storage
    counters = try await storage.counters()
    nextId = counters.nextId
  }

  public nonisolated var reads: any StorageReads { storage }

  public func commit(_ writes: [StorageWrite], extras: [ExtraWrite]) async throws -> Int64 {
    let sequence = counters.nextSequence
    let next = writes.reduce(nextId) { max($0, ($1.createdId ?? 0) + 1) }
    let batch = Batch(sequence: sequence, writes: writes, extras: extras, at: 0)
    try await storage.apply([batch], expecting: counters, nextId: next)
    counters = StoreCounters(nextSequence: sequence + 1, nextId: next)
    nextId = next
    return sequence
  }

  public func mintId() async throws -> Int64 {
    if isClosed { throw PerdureError(.closed, "the store is closed") }
    guard nextId <= EntryID.greatest else {
      throw PerdureError(.storageFailed, "the ID space is exhausted")
    }
    nextId += 1
    return nextId - 1
  }

  public func close() async {
    isClosed = true
    await storage.close()
  }
}

/// The store of one run of one case, which it can close and open again.
public actor StorageHarness {
  private let reopensAfterCommits: Bool
  private let opening: @Sendable () async throws -> any ConformanceStore
  private var store: any ConformanceStore

  /// Opens a store that must be empty; `open` is called again to open the same store anew.
  public init(
    reopensAfterCommits: Bool = false,
    open: @escaping @Sendable () async throws -> any ConformanceStore
  ) async throws {
    self.reopensAfterCommits = reopensAfterCommits
    opening = open
    store = try await open()
  }

  /// Reads of the store as it is open now.
  public var reads: any StorageReads { store.reads }

  /// The backend; throws if the store is not a bare one.
  public func backend() throws -> any Storage {
    guard let direct = store as? DirectStore else {
      throw ConformanceFailure("this case needs a bare backend")
    }
    return direct.storage
  }

  /// Commits and, if the harness is made so, opens the store again.
  @discardableResult
  public func commit(_ writes: StorageWrite..., extras: [ExtraWrite] = []) async throws -> Int64 {
    try await commit(writes, extras: extras)
  }

  /// Commits and, if the harness is made so, opens the store again.
  @discardableResult
  public func commit(_ writes: [StorageWrite], extras: [ExtraWrite] = []) async throws -> Int64 {
    let sequence = try await store.commit(writes, extras: extras)
    if reopensAfterCommits { try await reopen() }
    return sequence
  }

  /// Mints an id of the wanted kind.
  public func mint<Record>() async throws -> Identifier<Record> {
    let value = try await store.mintId()
    guard let id = Identifier<Record>(value) else {
      throw ConformanceFailure("minted \(value), which is no id")
    }
    return id
  }

  /// Closes the store and opens it again.
  public func reopen() async throws {
    await store.close()
    store = try await opening()
  }

  /// Closes the store.
  public func close() async { await store.close() }
}

extension StorageWrite {
  /// The id of the record that the write creates or replaces.
  var createdId: Int64? {
    switch self {
    case .conversation(let record): record.id.value
    case .entry(let record): record.id.value
    case .task(let record): record.id.value
    case .submission(let record): record.id.value
    case .createDocument(let record, _, _), .copyDocument(let record, _, _): record.id.value
    case .changeDocument, .retireDocument, .remove: nil
    }
  }
}
