public import PerdureModel
public import PerdureValue

/// A storage that hands every call to another one, for those that change only some.
public protocol ForwardingStorage: CompactingStorage {
  /// Where calls go.
  var base: any Storage { get }

  /// Sees every call but `close` before and after it goes on; `writes` tells `apply` and `compact`
  /// from reads.
  func around<Result>(
    writes: Bool,
    _ call: () async throws -> Result
  ) async throws -> Result
}

extension ForwardingStorage {
  public func around<Result>(
    writes: Bool,
    _ call: () async throws -> Result
  ) async throws -> Result { try await call() }

  public func counters() async throws -> StoreCounters {
    try await around(writes: false) { try await base.counters() }
  }

  public func apply(
    _ group: [Batch],
    expecting expected: StoreCounters,
    nextId: Int64
  ) async throws {
    try await around(writes: true) {
      try await base.apply(group, expecting: expected, nextId: nextId)
    }
  }

  public func compact() async throws {
    try await around(writes: true) {
      try await (base as? any CompactingStorage)?.compact()
    }
  }

  public func close() async { await base.close() }

  public func facts(_ needs: BatchNeeds) async throws -> BatchFacts {
    try await around(writes: false) { try await base.facts(needs) }
  }

  public func conversation(_ id: ConversationID) async throws -> ConversationRecord? {
    try await around(writes: false) { try await base.conversation(id) }
  }

  public func scanConversations(
    _ query: ConversationQuery,
    _ page: PageRequest
  ) async throws -> Page<ConversationRecord> {
    try await around(writes: false) { try await base.scanConversations(query, page) }
  }

  public func entry(_ id: EntryID) async throws -> EntryLookup? {
    try await around(writes: false) { try await base.entry(id) }
  }

  public func entry(
    _ id: EntryID,
    visibleIn conversationId: ConversationID
  ) async throws -> EntryLookup? {
    try await around(writes: false) { try await base.entry(id, visibleIn: conversationId) }
  }

  public func latestHeadMarker(
    _ conversationId: ConversationID,
    atOrBefore: EntryID?
  ) async throws -> EntryRecord? {
    try await around(writes: false) {
      try await base.latestHeadMarker(conversationId, atOrBefore: atOrBefore)
    }
  }

  public func scanEntries(
    _ query: EntryQuery,
    _ page: PageRequest
  ) async throws -> Page<EntryRecord> {
    try await around(writes: false) { try await base.scanEntries(query, page) }
  }

  public func task(_ id: TaskID) async throws -> TaskRecord? {
    try await around(writes: false) { try await base.task(id) }
  }

  public func scanTasks(
    _ query: TaskQuery,
    _ page: PageRequest
  ) async throws -> Page<TaskRecord> {
    try await around(writes: false) { try await base.scanTasks(query, page) }
  }

  public func submission(_ id: SubmissionID) async throws -> SubmissionRecord? {
    try await around(writes: false) { try await base.submission(id) }
  }

  public func submission(
    requestId: JSONString,
    in conversationId: ConversationID
  ) async throws -> SubmissionRecord? {
    try await around(writes: false) {
      try await base.submission(requestId: requestId, in: conversationId)
    }
  }

  public func scanSubmissions(
    _ query: SubmissionQuery,
    _ page: PageRequest
  ) async throws -> Page<SubmissionRecord> {
    try await around(writes: false) { try await base.scanSubmissions(query, page) }
  }

  public func findDocument(
    _ address: DocumentAddress,
    at sequence: Int64?
  ) async throws -> DocumentRecord? {
    try await around(writes: false) { try await base.findDocument(address, at: sequence) }
  }

  public func document(_ id: DocumentID, at sequence: Int64?) async throws -> StoredDocument? {
    try await around(writes: false) { try await base.document(id, at: sequence) }
  }

  public func scanDocuments(
    _ query: DocumentQuery,
    _ page: PageRequest
  ) async throws -> Page<DocumentRecord> {
    try await around(writes: false) { try await base.scanDocuments(query, page) }
  }

  public func extra(scope: String, id: Int64) async throws -> JSON? {
    try await around(writes: false) { try await base.extra(scope: scope, id: id) }
  }
}
