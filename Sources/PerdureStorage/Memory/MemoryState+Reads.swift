import PerdureModel
import PerdureValue

extension MemoryState {
  func scanConversations(
    _ query: ConversationQuery,
    _ page: PageRequest
  ) throws -> Page<ConversationRecord> {
    let (order, after) = try page.start(default: .ascending)
    let ids: SortedIds
    if let task = query.ownerTaskId {
      ids = conversationsByTask[task] ?? SortedIds()
    } else if let conversation = query.ownerConversationId {
      ids = conversationsByOwner[conversation] ?? SortedIds()
    } else {
      ids = conversationIds
    }
    let items = ids.scan(order, after: after, limit: page.wanted) { id -> ConversationRecord? in
      guard let record = ConversationID(id).flatMap({ conversations[$0] }), query.matches(record)
      else { return nil }
      return record
    }
    return Page(items, limit: page.limit, order: order) { $0.id.value }
  }

  func entry(_ id: EntryID, visibleIn conversationId: ConversationID) throws -> EntryLookup? {
    let segments = try Ancestry.segments(of: conversationId) { conversations[$0] }
    guard let found = entries[id] else { return nil }
    let isVisible = segments.contains {
      $0.conversationId == found.entry.conversationId && id.value <= $0.upper
    }
    return isVisible ? found : nil
  }

  func latestHeadMarker(
    _ conversationId: ConversationID,
    atOrBefore: EntryID?
  ) throws -> EntryRecord? {
    let segments = try Ancestry.segments(
      of: conversationId,
      upper: atOrBefore?.value ?? EntryID.greatest
    ) { conversations[$0] }
    for segment in segments {
      let head = headIds[segment.conversationId]?.last(atMost: segment.upper)
      if let id = head.flatMap({ EntryID($0) }) { return entries[id]?.entry }
    }
    return nil
  }

  func scanEntries(_ query: EntryQuery, _ page: PageRequest) throws -> Page<EntryRecord> {
    try Ancestry.page(
      query,
      page,
      lookup: { conversations[$0] },
      visit: { conversation, bounds, order, limit in
        (entryIds[conversation] ?? SortedIds()).scan(bounds, order, limit) {
          EntryID($0).flatMap { entries[$0]?.entry }
        }
      }
    )
  }

  func scanTasks(_ query: TaskQuery, _ page: PageRequest) throws -> Page<TaskRecord> {
    let (order, after) = try page.start(default: .ascending)
    let ids = query.status == nil || query.status == .terminal ? taskIds : liveTaskIds
    let items = ids.scan(order, after: after, limit: page.wanted) { id -> TaskRecord? in
      guard let record = TaskID(id).flatMap({ tasks[$0] }), query.matches(record) else {
        return nil
      }
      return record
    }
    return Page(items, limit: page.limit, order: order) { $0.id.value }
  }

  func submission(
    requestId: JSONString,
    in conversationId: ConversationID
  ) -> SubmissionRecord? {
    let key = RequestKey(conversationId: conversationId, requestId: requestId)
    return requests[key].flatMap { submissions[$0] }
  }

  func scanSubmissions(
    _ query: SubmissionQuery,
    _ page: PageRequest
  ) throws -> Page<SubmissionRecord> {
    let (order, after) = try page.start(default: .ascending)
    let isOpen = query.status == .queued || query.status == .placed
    let ids = isOpen ? openSubmissionIds : submissionIds
    let items = ids.scan(order, after: after, limit: page.wanted) { id -> SubmissionRecord? in
      guard let record = SubmissionID(id).flatMap({ submissions[$0] }), query.matches(record)
      else { return nil }
      return record
    }
    return Page(items, limit: page.limit, order: order) { $0.id.value }
  }

  func findDocument(_ address: DocumentAddress, at sequence: Int64?) -> DocumentRecord? {
    guard sequence != nil else {
      return current[address].flatMap { documents[$0]?.record }
    }
    let alive = incarnations[address]?.scan(.descending, after: nil, limit: 1) { id in
      DocumentID(id).flatMap { documents[$0]?.record }
        .flatMap { $0.isAlive(at: sequence) ? $0 : nil }
    }
    return alive?.first
  }

  func document(_ id: DocumentID, at sequence: Int64?) throws -> StoredDocument? {
    guard let document = documents[id] else { return nil }
    try document.record.requireHistory(at: sequence)
    guard document.record.isAlive(at: sequence) else { return nil }
    guard let sequence else {
      return try StoredDocument(record: document.record, replaying: document.revisions)
    }
    let visible = document.revisions.prefix { $0.sequence <= sequence }
    return try StoredDocument(record: document.record, replaying: visible)
  }

  func scanDocuments(_ query: DocumentQuery, _ page: PageRequest) throws -> Page<DocumentRecord> {
    let (order, after) = try page.start(default: .ascending)
    let ids = documentIds[query.scope] ?? SortedIds()
    let items = ids.scan(order, after: after, limit: page.wanted) { id -> DocumentRecord? in
      guard let record = DocumentID(id).flatMap({ documents[$0]?.record }), query.matches(record)
      else { return nil }
      return record
    }
    return Page(items, limit: page.limit, order: order) { $0.id.value }
  }
}

extension PageRequest {
  /// One more than the limit, which tells whether a scan goes on.
  var wanted: Int { limit == Int.max ? limit : limit + 1 }
}
