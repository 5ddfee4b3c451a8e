package import PerdureModel
package import PerdureValue
import Synchronization

/// Reads see staged commits. What the overlay cannot answer exactly is flushed first.
extension StagedStore: StorageReads {
  private func overlay<Result: Sendable>(
    _ body: (borrowing Overlay) throws -> Result
  ) async throws -> Result {
    // Nothing of the overlay shows what a removal takes away below it.
    if let removal = try state.withLock({ state in
      try Self.check(state)
      return state.overlay.removal
    }) {
      try await flush(through: removal)
    }
    return try state.withLock { state in
      try Self.check(state)
      return try body(state.overlay)
    }
  }

  /// Runs a read of the storage; an error that is not the request's own fault is final.
  private func read<Result: Sendable>(
    _ body: @escaping @Sendable (any Storage) async throws -> Result
  ) async throws -> Result {
    do {
      return try await counted { try await body(storage) }
    } catch let error as PerdureError where error.code == .invalidRequest {
      throw error
    } catch {
      // A read that the closing of the store cut off says nothing about the store.
      if state.withLock({ $0.isClosed }) {
        throw PerdureError(.closed, "the store is closed", cause: "\(error)")
      }
      // Nor does one that a storage gave up because its caller was cancelled.
      if Task.isCancelled {
        // What is decided on the line is decided all the same, so a task reads again that nobody
        // cancels.
        if CommitLine.isHeldByCaller {
          return try await Task.detached { [self] in try await read(body) }.value
        }
        throw PerdureError(.cancelled, "the read was cancelled", cause: "\(error)")
      }
      throw fail(error)
    }
  }

  package func conversation(_ id: ConversationID) async throws -> ConversationRecord? {
    if let staged = try await overlay({ $0.conversations[id]?.record }) { return staged }
    let (known, removals) = try state.withLock { state in
      try Self.check(state)
      return (state.conversations[id], state.removals)
    }
    if let known { return known }
    guard let found = try await read({ try await $0.conversation(id) }) else { return nil }
    state.withLock { state in if state.removals == removals { state.remember(found) } }
    return found
  }

  package func scanConversations(
    _ query: ConversationQuery,
    _ page: PageRequest
  ) async throws -> Page<ConversationRecord> {
    if try await overlay({ !$0.conversations.isEmpty }) { try await flush() }
    return try await read { try await $0.scanConversations(query, page) }
  }

  package func entry(_ id: EntryID) async throws -> EntryLookup? {
    let staged = try await overlay { overlay in
      overlay.entries[id].map { EntryLookup(entry: $0.record, commitSequence: $0.sequence) }
    }
    if let staged { return staged }
    return try await read { try await $0.entry(id) }
  }

  package func entry(
    _ id: EntryID,
    visibleIn conversationId: ConversationID
  ) async throws -> EntryLookup? {
    let staged = try await overlay { overlay -> EntryLookup? in
      guard let staged = overlay.entries[id], staged.record.conversationId == conversationId else {
        return nil
      }
      return EntryLookup(entry: staged.record, commitSequence: staged.sequence)
    }
    if let staged { return staged }
    if try await overlay({ !$0.entries.isEmpty || $0.conversations[conversationId] != nil }) {
      try await flush()
    }
    return try await read { try await $0.entry(id, visibleIn: conversationId) }
  }

  package func latestHeadMarker(
    _ conversationId: ConversationID,
    atOrBefore: EntryID?
  ) async throws -> EntryRecord? {
    if try await overlay({ overlay in
      overlay.conversations[conversationId] != nil
        || overlay.entries.values.contains { $0.record.head != nil }
    }) {
      try await flush()
    }
    return try await read {
      try await $0.latestHeadMarker(conversationId, atOrBefore: atOrBefore)
    }
  }

  package func scanEntries(
    _ query: EntryQuery,
    _ page: PageRequest
  ) async throws -> Page<EntryRecord> {
    let staged = try await overlay { overlay in
      overlay.entries.values.map { $0.record }
    }
    guard !staged.isEmpty else {
      if try await overlay({ $0.conversations[query.conversationId] != nil }) { try await flush() }
      return try await read { try await $0.scanEntries(query, page) }
    }
    let record = try await conversation(query.conversationId)
    let isStaged = try await overlay { $0.conversations[query.conversationId] != nil }
    // A fork sees what its ancestors hold up to its cap, and a new conversation is not in storage.
    let isInherited = staged.contains { entry in
      entry.conversationId != query.conversationId
        && (record?.parent.map { entry.id <= $0.at } ?? false)
    }
    if record == nil || isInherited || isStaged {
      try await flush()
      return try await read { try await $0.scanEntries(query, page) }
    }
    let (order, after) = try page.start(default: .descending)
    let stored = try await read { try await $0.scanEntries(query, page) }
    let matching = staged.filter { entry in
      entry.conversationId == query.conversationId
        && (query.minEntry.map { $0 <= entry.id } ?? true)
        && (query.maxEntry.map { entry.id <= $0 } ?? true)
        && (after.map { order == .ascending ? entry.id.value > $0 : entry.id.value < $0 } ?? true)
    }
    return Self.merge(stored, matching, order, limit: page.limit) { $0.id.value }
  }

  /// Joins a page of storage with staged records; a record that is in both is taken once.
  static func merge<Record: Sendable>(
    _ stored: Page<Record>,
    _ staged: [Record],
    _ order: ScanOrder,
    limit: Int,
    id: (Record) -> Int64
  ) -> Page<Record> {
    let stagedIds = Set(staged.map(id))
    var items = stored.items.filter { !stagedIds.contains(id($0)) } + staged
    items.sort { order == .ascending ? id($0) < id($1) : id($0) > id($1) }
    // Storage did not say what lies behind its page, so nothing behind its end may be shown yet.
    if stored.next != nil, let last = stored.items.last.map(id) {
      items.removeAll { order == .ascending ? id($0) > last : id($0) < last }
    }
    let hasMore = stored.next != nil || items.count > limit
    items = Array(items.prefix(limit))
    let next = hasMore ? items.last.map { Cursor(after: id($0), order: order) } : nil
    return Page(items: items, next: next)
  }

  package func task(_ id: TaskID) async throws -> TaskRecord? {
    if let staged = try await overlay({ $0.tasks[id]?.record }) { return staged }
    return try await read { try await $0.task(id) }
  }

  package func scanTasks(_ query: TaskQuery, _ page: PageRequest) async throws -> Page<TaskRecord> {
    if try await overlay({ !$0.tasks.isEmpty }) { try await flush() }
    return try await read { try await $0.scanTasks(query, page) }
  }

  package func submission(_ id: SubmissionID) async throws -> SubmissionRecord? {
    if let staged = try await overlay({ $0.submissions[id]?.record }) { return staged }
    if let known = state.withLock({ $0.unsettled[id] }) { return known }
    return try await read { try await $0.submission(id) }
  }

  /// Returns the submission as it is on disk, without what is only staged, or `nil`.
  package func flushedSubmission(_ id: SubmissionID) async throws -> SubmissionRecord? {
    try state.withLock { try Self.check($0) }
    return try await read { try await $0.submission(id) }
  }

  package func submission(
    requestId: JSONString,
    in conversationId: ConversationID
  ) async throws -> SubmissionRecord? {
    let staged = try await overlay { overlay in
      overlay.submissions.values.first {
        $0.record.requestId == requestId && $0.record.conversationId == conversationId
      }?.record
    }
    if let staged { return staged }
    return try await read { try await $0.submission(requestId: requestId, in: conversationId) }
  }

  package func scanSubmissions(
    _ query: SubmissionQuery,
    _ page: PageRequest
  ) async throws -> Page<SubmissionRecord> {
    if try await overlay({ !$0.submissions.isEmpty }) { try await flush() }
    return try await read { try await $0.scanSubmissions(query, page) }
  }

  package func findDocument(
    _ address: DocumentAddress,
    at sequence: Int64?
  ) async throws -> DocumentRecord? {
    if try await overlay({ overlay in
      overlay.documents.values.contains { $0.record.address == address }
    }
    ) {
      try await flush()
    }
    return try await read { try await $0.findDocument(address, at: sequence) }
  }

  package func document(_ id: DocumentID, at sequence: Int64?) async throws -> StoredDocument? {
    if try await overlay({ $0.documents[id] != nil }) { try await flush() }
    return try await read { try await $0.document(id, at: sequence) }
  }

  package func scanDocuments(
    _ query: DocumentQuery,
    _ page: PageRequest
  ) async throws -> Page<DocumentRecord> {
    if try await overlay({ !$0.documents.isEmpty }) { try await flush() }
    return try await read { try await $0.scanDocuments(query, page) }
  }

  package func extra(scope: String, id: Int64) async throws -> JSON? {
    try await flush()
    return try await read { try await $0.extra(scope: scope, id: id) }
  }

  /// Returns the fact as it is on disk, without what is only staged, or `nil`.
  func flushedExtra(scope: String, id: Int64) async throws -> JSON? {
    try state.withLock { try Self.check($0) }
    return try await read { try await $0.extra(scope: scope, id: id) }
  }

  /// Finds out what must be known to judge a batch whose author does not know it.
  package func facts(_ needs: BatchNeeds) async throws -> BatchFacts {
    _ = try await overlay { _ in }
    var rest = needs
    var facts = try state.withLock { state in
      try Self.check(state)
      let facts = state.overlay.facts(needs)
      // What this session minted and did not stage is nothing yet; storage cannot know of it.
      rest.ids = needs.ids.filter { facts.types[$0] == nil && $0 < state.durable.nextId }
      rest.documents = needs.documents.filter { facts.documents[$0] == nil }
      return facts
    }
    // Values and addresses depend on revisions that only storage replays.
    if !rest.sources.isEmpty || !rest.addresses.isEmpty || !facts.documents.isEmpty {
      if try await overlay({ !$0.documents.isEmpty }) {
        try await flush()
        rest.documents = needs.documents
      }
    }
    guard !rest.isEmpty else { return facts }
    let stored = try await read { [rest] in try await $0.facts(rest) }
    facts.types.merge(stored.types) { staged, _ in staged }
    facts.documents.merge(stored.documents) { _, stored in stored }
    facts.current = stored.current
    facts.sources = stored.sources
    return facts
  }
}

extension StagedStore.Overlay {
  /// What the staged records say of these needs.
  func facts(_ needs: BatchNeeds) -> BatchFacts {
    var facts = BatchFacts()
    for id in needs.ids { facts.types[id] = type(of: id) }
    for id in needs.documents {
      // The version of the newest revision is read from storage after a flush.
      if let staged = documents[id] {
        facts.documents[id] = DocumentHead(record: staged.record, version: nil)
      }
    }
    return facts
  }

  private func type(of id: Int64) -> RecordType? {
    if let id = ConversationID(id), conversations[id] != nil { return .conversation }
    if let id = EntryID(id), entries[id] != nil { return .entry }
    if let id = TaskID(id), tasks[id] != nil { return .task }
    if let id = SubmissionID(id), submissions[id] != nil { return .submission }
    if let id = DocumentID(id), documents[id] != nil { return .document }
    return nil
  }
}
