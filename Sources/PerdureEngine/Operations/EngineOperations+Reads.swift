package import PerdureModel
package import PerdureValue

/// What calls may look at.
extension EngineOperations {
  /// Reads on the line; what was read is on disk when this returns.
  func read<Value>(_ body: (Session) async throws -> Value) async throws -> Value {
    try scope.check()
    let value = try await session.line.hold { try await body(session) }
    // Nobody outside sees what a crash could still take back.
    try await session.barrier()
    try scope.check()
    return value
  }

  /// Reads a page of what a scan does not find by itself.
  private func filtered<Item>(
    _ page: PageRequest,
    default order: ScanOrder,
    id: (Item) -> Int64,
    fits: (Item) -> Bool,
    _ read: (PageRequest) async throws -> Page<Item>
  ) async throws -> Page<Item> {
    let (order, _) = try page.start(default: order)
    var items: [Item] = []
    var next = page
    while true {
      let part = try await read(next)
      for item in part.items where fits(item) {
        items.append(item)
        if items.count == page.limit {
          let isLast = part.next == nil && part.items.last.map(id) == id(item)
          return Page(items: items, next: isLast ? nil : Cursor(after: id(item), order: order))
        }
      }
      guard let cursor = part.next else { return Page(items: items) }
      next.cursor = cursor
    }
  }

  package func owns(_ conversation: ConversationID) async throws -> Bool {
    if conversation == conversationId { return true }
    guard let taskId else { return false }
    return try await read { session in
      var next = try await session.store.conversation(conversation)?.owner
      while let owner = next {
        var task: TaskID? = owner.taskId
        while let id = task {
          if id == taskId { return true }
          task = try await session.task(id)?.owner
        }
        next = try await session.store.conversation(owner.conversationId)?.owner
      }
      return false
    }
  }

  package func conversation(
    _ id: ConversationID,
    _ tracking: (any ReadTracking)?
  ) async throws -> ConversationRecord? {
    try await read { session in
      (tracking as? TrackedReads)?.note(.conversation(id))
      return try await session.store.conversation(id)
    }
  }

  package func conversations(
    _ query: ConversationQuery,
    _ page: PageRequest,
    _ tracking: (any ReadTracking)?
  ) async throws -> Page<ConversationRecord> {
    try await read { session in
      (tracking as? TrackedReads)?.note(query)
      return try await session.store.scanConversations(query, page)
    }
  }

  package func entry(
    _ id: EntryID,
    in conversation: ConversationID,
    _ tracking: (any ReadTracking)?
  ) async throws -> EntryRecord? {
    try await read { session in
      (tracking as? TrackedReads)?.note(.entry(id))
      try await session.requireConversation(conversation)
      return try await session.store.entry(id, visibleIn: conversation)?.entry
    }
  }

  package func entries(
    _ query: EntryQuery,
    heads: Bool,
    _ page: PageRequest,
    _ tracking: (any ReadTracking)?
  ) async throws -> Page<EntryRecord> {
    try await read { session in
      (tracking as? TrackedReads)?.note(.transcript(query.conversationId))
      try await session.requireConversation(query.conversationId)
      return try await filtered(
        page,
        default: .descending,
        id: { $0.id.value },
        fits: { !heads || $0.head != nil }
      ) { try await session.store.scanEntries(query, $0) }
    }
  }

  package func context(
    of conversation: ConversationID,
    at entry: EntryID?
  ) async throws -> CallContext {
    let view = try await engine().context(of: conversation, at: entry)
    return CallContext(head: view.head, entries: view.entries, messages: view.messages)
  }

  package func task(_ id: TaskID, _ tracking: (any ReadTracking)?) async throws -> TaskRecord? {
    try await read { session in
      (tracking as? TrackedReads)?.note(.task(id))
      return try await session.task(id)
    }
  }

  package func tasks(
    _ filter: TaskFilter,
    _ page: PageRequest,
    _ tracking: (any ReadTracking)?
  ) async throws -> Page<TaskRecord> {
    try await read { session in
      (tracking as? TrackedReads)?.note(filter)
      return try await filtered(
        page,
        default: .ascending,
        id: { $0.id.value },
        fits: filter.fits
      ) { try await session.store.scanTasks(filter.query, $0) }
    }
  }

  package func outcomes(_ ids: [TaskID]) async throws -> [TaskOutcome] {
    try await read { session in
      var outcomes: [TaskOutcome] = []
      for id in ids {
        guard let record = try await session.task(id) else { throw Scheduler.missing(id) }
        guard case .terminal(let outcome) = record.state else {
          throw CallRefusal(.shape, "task \(id) has not ended")
        }
        outcomes.append(outcome)
      }
      return outcomes
    }
  }

  package func submission(
    _ id: SubmissionID,
    _ tracking: (any ReadTracking)?
  ) async throws -> SubmissionRecord? {
    try await read { session in
      (tracking as? TrackedReads)?.note(.submission(id))
      return try await session.store.submission(id)
    }
  }

  package func submission(
    requestId: JSONString,
    in conversation: ConversationID,
    _ tracking: (any ReadTracking)?
  ) async throws -> SubmissionRecord? {
    try await read { session in
      (tracking as? TrackedReads)?.note(.request(conversation, requestId))
      return try await session.store.submission(requestId: requestId, in: conversation)
    }
  }

  // MARK: Documents

  package func document(
    _ address: DocumentAddress,
    asOf entry: EntryID?,
    _ tracking: (any ReadTracking)?
  ) async throws -> StoredDocument? {
    try await read { session in
      guard let entry else {
        (tracking as? TrackedReads)?.note(.document(address))
        return try await session.revision(at: address).map {
          StoredDocument(
            record: $0.record,
            version: $0.version,
            value: $0.value,
            deltasSinceBase: $0.deltasSinceBase
          )
        }
      }
      guard case .conversation(let conversation) = address.scope else {
        throw CallRefusal(.shape, "only documents of conversations have a history")
      }
      let lookup = try await session.visibleEntry(entry, in: conversation)
      try await session.store.flush(through: lookup.commitSequence)
      var past = address
      past.scope = .conversation(lookup.entry.conversationId)
      guard let record = try await session.store.findDocument(past, at: lookup.commitSequence)
      else { return nil }
      guard !record.isCurrentOnly else {
        throw CallRefusal(.shape, "document '\(address.kind.string)' keeps no history")
      }
      return try await session.store.document(record.id, at: lookup.commitSequence)
    }
  }

  package func watch(_ address: DocumentAddress) async throws -> (any DocumentWatching)? {
    guard let stored = try await document(address, asOf: nil, nil) else { return nil }
    let definition = DocumentDefinition(viewing: stored)
    guard let watch = try await engine().views.watch(definition, at: address) else { return nil }
    return DocumentWatcher(
      watch: watch,
      forget: try scope.add { [weak watch] in watch?.end(.stopped) }
    )
  }
}

/// Somebody outside who follows a document.
private struct DocumentWatcher: DocumentWatching {
  let watch: Watch<DocumentFold>
  let forget: @Sendable () -> Void

  var first: JSON { watch.initial.json }

  func next() async -> DocumentNews {
    if let frame = await watch.next(), watch.ending == nil || !frame.value.isNull {
      return .changed(frame.value, frame.operations)
    }
    forget()
    return .ended(Self.reason(watch.ending))
  }

  func cancel() {
    watch.end(.stopped)
    forget()
  }

  private static func reason(_ ending: WatchEnd?) -> String {
    switch ending {
    case .retired?: "retired"
    case .deleted?: "deleted"
    case .sessionClosed?: "session_closed"
    case .sessionFailed?: "session_failed"
    case .listenerFailed?: "failed"
    case .stopped?, .cancelled?, nil: "stopped"
    }
  }
}
