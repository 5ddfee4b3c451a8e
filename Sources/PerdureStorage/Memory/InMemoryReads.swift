package import PerdureModel
package import PerdureValue

/// A storage whose whole state is in memory, however it is kept elsewhere.
package protocol InMemoryReads: Storage {
  /// Returns what `body` makes of the state, or throws why it may not be read any more.
  func read<Value>(_ body: (MemoryState) throws -> sending Value) throws -> sending Value
}

extension InMemoryReads {
  package func conversation(_ id: ConversationID) async throws -> ConversationRecord? {
    try read { $0.conversations[id] }
  }

  package func scanConversations(
    _ query: ConversationQuery,
    _ page: PageRequest
  ) async throws -> Page<ConversationRecord> {
    try read { try $0.scanConversations(query, page) }
  }

  package func entry(_ id: EntryID) async throws -> EntryLookup? {
    try read { $0.entries[id] }
  }

  package func entry(
    _ id: EntryID,
    visibleIn conversationId: ConversationID
  ) async throws -> EntryLookup? {
    try read { try $0.entry(id, visibleIn: conversationId) }
  }

  package func latestHeadMarker(
    _ conversationId: ConversationID,
    atOrBefore: EntryID?
  ) async throws -> EntryRecord? {
    try read { try $0.latestHeadMarker(conversationId, atOrBefore: atOrBefore) }
  }

  package func scanEntries(
    _ query: EntryQuery,
    _ page: PageRequest
  ) async throws -> Page<EntryRecord> {
    try read { try $0.scanEntries(query, page) }
  }

  package func task(_ id: TaskID) async throws -> TaskRecord? {
    try read { $0.tasks[id] }
  }

  package func scanTasks(_ query: TaskQuery, _ page: PageRequest) async throws -> Page<TaskRecord> {
    try read { try $0.scanTasks(query, page) }
  }

  package func submission(_ id: SubmissionID) async throws -> SubmissionRecord? {
    try read { $0.submissions[id] }
  }

  package func submission(
    requestId: JSONString,
    in conversationId: ConversationID
  ) async throws -> SubmissionRecord? {
    try read { $0.submission(requestId: requestId, in: conversationId) }
  }

  package func scanSubmissions(
    _ query: SubmissionQuery,
    _ page: PageRequest
  ) async throws -> Page<SubmissionRecord> {
    try read { try $0.scanSubmissions(query, page) }
  }

  package func findDocument(
    _ address: DocumentAddress,
    at: Int64?
  ) async throws -> DocumentRecord? {
    try read { $0.findDocument(address, at: at) }
  }

  package func document(_ id: DocumentID, at: Int64?) async throws -> StoredDocument? {
    try read { try $0.document(id, at: at) }
  }

  package func scanDocuments(
    _ query: DocumentQuery,
    _ page: PageRequest
  ) async throws -> Page<DocumentRecord> {
    try read { try $0.scanDocuments(query, page) }
  }

  package func extra(scope: String, id: Int64) async throws -> JSON? {
    try read { $0.extras[MemoryState.ExtraKey(scope: scope, id: id)] }
  }

  package func facts(_ needs: BatchNeeds) async throws -> BatchFacts {
    try read { $0.facts(needs) }
  }

  package func counters() async throws -> StoreCounters {
    try read { $0.counters }
  }
}
