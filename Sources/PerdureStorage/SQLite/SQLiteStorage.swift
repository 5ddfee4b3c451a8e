package import PerdureModel
package import PerdureValue

/// A store in one SQLite file, in the shape of pi-durable's.
package final class SQLiteStorage: CompactingStorage {
  private let thread: StoreThread<SQLiteStore>
  private let isReadOnly: Bool
  private let path: String

  private init(thread: StoreThread<SQLiteStore>, isReadOnly: Bool, path: String) {
    self.thread = thread
    self.isReadOnly = isReadOnly
    self.path = path
  }

  deinit { thread.abandon() }

  /// Opens the store at `path`; a missing one is created unless `readOnly`.
  ///
  /// The store is locked until `close`. A read-only store takes no lock, may belong to another
  /// process, and no file of it is changed or created. `vfs` is for tests of a disk that fails.
  package static func open(
    path: String,
    durability: Durability = .full,
    readOnly: Bool = false,
    busyMilliseconds: Int32 = 5_000,
    vfs: String? = nil
  ) async throws -> SQLiteStorage {
    let path = StorePath.resolved(path)
    try StorePath.check(path, mayBeAbsent: !readOnly)
    let thread = try StoreThread<SQLiteStore>()
    do {
      try await thread.adopt {
        if readOnly { return try openReading(path) }
        let lock = try StoreLock(store: path)
        try StorePath.create(path)
        try StorePath.checkIsOnlyName(path)
        return try SQLiteStore(
          path: path,
          durability: durability,
          busyMilliseconds: busyMilliseconds,
          vfs: vfs,
          lock: lock
        )
      }
    } catch {
      await thread.stop()
      throw error
    }
    return SQLiteStorage(thread: thread, isReadOnly: readOnly, path: path)
  }

  /// Opens the store in an application's database, in tables whose names begin with `prefix`.
  ///
  /// `close` closes the connection; an opening that fails leaves it open.
  package static func open(
    on connection: any SQLConnection,
    prefix: String = ""
  ) async throws -> SQLiteStorage {
    let thread = try StoreThread<SQLiteStore>()
    do {
      try await thread.adopt { try SQLiteStore(on: connection, prefix: prefix) }
      let path = try await thread.call { $0.connection.path }
      return SQLiteStorage(thread: thread, isReadOnly: false, path: path)
    } catch {
      await thread.stop()
      throw error
    }
  }

  private static func openReading(_ path: String) throws -> SQLiteStore {
    let hasLog = StorePath.exists(path + "-wal")
    guard hasLog, !StorePath.exists(path + "-shm") else {
      // Without a log nobody writes now, so the file alone is the store.
      return try SQLiteStore(reading: path, hasLog: hasLog)
    }
    throw PerdureError(
      .storeUnreadable,
      "the store \(path) was not closed and lacks its file \(path)-shm",
      hint: "open it once for writing, for example with 'perdure resume'"
    )
  }

  package func apply(
    _ group: [Batch],
    expecting expected: StoreCounters,
    nextId: Int64
  ) async throws {
    guard !isReadOnly else {
      throw PerdureError(.storeUnwritable, "the store \(path) was opened for reading only")
    }
    try await thread.call { try $0.apply(group, expecting: expected, nextId: nextId) }
  }

  package func compact() async throws {
    guard !isReadOnly else {
      throw PerdureError(.storeUnwritable, "the store \(path) was opened for reading only")
    }
    try await thread.call { try $0.compact() }
  }

  package func close() async { await thread.stop() }

  /// Returns what `body` finds out about the database; for diagnosis and tests.
  package func inspect<Value: Sendable>(
    _ body: @escaping @Sendable (Connection) throws -> Value
  ) async throws -> Value {
    try await thread.call { try body(try $0.connection.own) }
  }
}

extension SQLiteStorage {
  package func conversation(_ id: ConversationID) async throws -> ConversationRecord? {
    try await thread.call { try $0.conversation(id) }
  }

  package func scanConversations(
    _ query: ConversationQuery,
    _ page: PageRequest
  ) async throws -> Page<ConversationRecord> {
    try await thread.call { try $0.scanConversations(query, page) }
  }

  package func entry(_ id: EntryID) async throws -> EntryLookup? {
    try await thread.call { try $0.entry(id) }
  }

  package func entry(
    _ id: EntryID,
    visibleIn conversationId: ConversationID
  ) async throws -> EntryLookup? {
    try await thread.call { try $0.entry(id, visibleIn: conversationId) }
  }

  package func latestHeadMarker(
    _ conversationId: ConversationID,
    atOrBefore: EntryID?
  ) async throws -> EntryRecord? {
    try await thread.call { try $0.latestHeadMarker(conversationId, atOrBefore: atOrBefore) }
  }

  package func scanEntries(
    _ query: EntryQuery,
    _ page: PageRequest
  ) async throws -> Page<EntryRecord> {
    try await thread.call { try $0.scanEntries(query, page) }
  }

  package func task(_ id: TaskID) async throws -> TaskRecord? {
    try await thread.call { try $0.task(id) }
  }

  package func scanTasks(_ query: TaskQuery, _ page: PageRequest) async throws -> Page<TaskRecord> {
    try await thread.call { try $0.scanTasks(query, page) }
  }

  package func submission(_ id: SubmissionID) async throws -> SubmissionRecord? {
    try await thread.call { try $0.submission(id) }
  }

  package func submission(
    requestId: JSONString,
    in conversationId: ConversationID
  ) async throws -> SubmissionRecord? {
    try await thread.call { try $0.submission(requestId: requestId, in: conversationId) }
  }

  package func scanSubmissions(
    _ query: SubmissionQuery,
    _ page: PageRequest
  ) async throws -> Page<SubmissionRecord> {
    try await thread.call { try $0.scanSubmissions(query, page) }
  }

  package func findDocument(
    _ address: DocumentAddress,
    at: Int64?
  ) async throws -> DocumentRecord? {
    try await thread.call { try $0.findDocument(address, at: at) }
  }

  package func document(_ id: DocumentID, at: Int64?) async throws -> StoredDocument? {
    try await thread.call { try $0.document(id, at: at) }
  }

  package func scanDocuments(
    _ query: DocumentQuery,
    _ page: PageRequest
  ) async throws -> Page<DocumentRecord> {
    try await thread.call { try $0.scanDocuments(query, page) }
  }

  package func extra(scope: String, id: Int64) async throws -> JSON? {
    try await thread.call { try $0.extra(scope: scope, id: id) }
  }

  package func facts(_ needs: BatchNeeds) async throws -> BatchFacts {
    try await thread.call { try $0.facts(needs) }
  }

  package func counters() async throws -> StoreCounters {
    try await thread.call { try $0.counters() }
  }
}
