package import PerdureModel
import PerdureValue
import Synchronization

/// How commits are made, adopted and told.
extension Session {
  /// Runs `body` on the line and stages what it wrote; returns its result and what was published,
  /// which is nothing if nothing was written.
  ///
  /// The commit is not on disk yet when this returns: it is for the inside of the engine.
  @discardableResult
  package func stage<Result>(
    conversation: ConversationID? = nil,
    task: TaskID? = nil,
    _ body: (Transaction) async throws -> Result
  ) async throws -> (result: Result, publication: Publication?) {
    try admit()
    let staged: (result: Result, publication: Publication?) = try await line.hold {
      if let failure = state.withLock({ $0.failure }) { throw failure }
      let transaction = Transaction(
        session: self,
        conversationId: conversation,
        taskId: task,
        now: clock.now()
      )
      let result = try await body(transaction)
      return (result, try await adopt(transaction))
    }
    if let publication = staged.publication, publication.changesTasks {
      await state.withLock { $0.taskFollower }?()
    }
    return staged
  }

  /// Runs `body` as `stage` does and returns when the commit is on disk.
  ///
  /// Throws `cancelled` if the calling task was cancelled before `body` could begin.
  package func commit<Result>(
    conversation: ConversationID? = nil,
    task: TaskID? = nil,
    _ body: (Transaction) async throws -> Result
  ) async throws -> Result {
    try admitFromOutside()
    let (result, publication) = try await stage(conversation: conversation, task: task) { tx in
      // Asked once; from here on the commit is made.
      if Task.isCancelled { throw PerdureError(.cancelled, "the commit was cancelled") }
      return try await body(tx)
    }
    if let publication {
      try await store.flush(through: publication.sequence)
    } else {
      // Its result may rest on what it read, and that may only be staged.
      try await store.flush()
    }
    return result
  }

  /// Returns when everything staged so far is on disk: before an effect, and before anybody
  /// outside is told.
  package func barrier() async throws { try await store.flush() }

  /// Work is admitted when it is asked for: what then waits for the line still settles.
  func admit() throws {
    let (failure, isClosing) = state.withLock { ($0.failure, $0.isClosing) }
    if let failure { throw failure }
    if isClosing { throw PerdureError(.closed, "the session is closed") }
  }

  private func admitFromOutside() throws {
    try admit()
    if state.withLock({ $0.isSealed }) { throw PerdureError(.closed, "the session is closing") }
  }

  /// Runs `body` on the line with everything that was staged on disk, and with the number of the
  /// last commit: what it reads is what the publications up to that number tell together.
  func observeFlushed<Result>(_ body: (Int64) async throws -> Result) async throws -> Result {
    try admitFromOutside()
    return try await line.hold {
      if let failure = state.withLock({ $0.failure }) { throw failure }
      let sequence = store.lastStaged
      try await store.flush(through: sequence)
      return try await body(sequence)
    }
  }

  private func adopt(_ transaction: Transaction) async throws -> Publication? {
    let documentChanges = try await transaction.seal()
    let tables = try await transaction.tableWrites()
    let removals = transaction.removals
    let writes =
      tables + documentChanges.flatMap { $0.writes } + removals.references.map { .remove($0) }
    guard !writes.isEmpty || !transaction.extras.isEmpty else { return nil }
    let (sequence, _) = try await store.stage(
      writes,
      extras: transaction.extras,
      facts: transaction.facts
    )
    var publication = Publication(sequence: sequence, changes: [], at: transaction.now)
    publication.replaced = transaction.replaced
    for write in tables {
      switch write {
      case .conversation(let record): publication.changes.append(.conversation(record))
      case .entry(let record): publication.changes.append(.entry(record))
      case .task(let record): publication.changes.append(.task(record))
      case .submission(let record): publication.changes.append(.submission(record))
      default: break
      }
    }
    for change in documentChanges {
      publication.changes.append(adopt(change, at: sequence))
    }
    let retired = adopt(removals, at: sequence, into: &publication)
    marks.withLock { $0.merge(transaction.marks) { _, new in new } }
    publish(publication, documentChanges.map { $0.record.address } + retired)
    return publication
  }

  /// Takes a staged change of a document into the cache and returns what is published of it.
  private func adopt(
    _ change: Transaction.DocumentChange,
    at sequence: Int64
  ) -> Publication.Change {
    var record = change.record
    if change.isNew { record.createdAt = sequence }
    if change.isRetired { record.retiredAt = sequence }
    if case .task(let task) = record.address.scope, task.value >= firstOwnId {
      state.withLock { state in
        state.taskDocuments[task, default: [:]][record.id] = change.isRetired ? nil : record
        if state.taskDocuments[task]?.isEmpty == true { state.taskDocuments[task] = nil }
      }
    }
    let address = record.address
    guard var revision = change.revision, !change.isRetired else {
      documents.retire(address, after: change.base, at: sequence)
      return .document(record, version: nil, value: nil, operations: [])
    }
    revision.record = record
    documents.stage(address, revision, after: change.base, at: sequence)
    if let source = change.source { return .documentCopy(record, source) }
    return .document(
      record,
      version: revision.version,
      value: revision.value,
      operations: change.operations
    )
  }

  /// Takes what is gone out of the cache, and returns the addresses where a document lived.
  private func adopt(
    _ removals: TransactionRemovals,
    at sequence: Int64,
    into publication: inout Publication
  ) -> [DocumentAddress] {
    var addresses: [DocumentAddress] = []
    for var record in removals.documents where record.retiredAt == nil {
      documents.retire(record.address, after: nil, at: sequence)
      record.retiredAt = sequence
      publication.changes.append(.document(record, version: nil, value: nil, operations: []))
      addresses.append(record.address)
    }
    publication.changes += removals.references.map { .removal($0) }
    publication.changes += removals.conversations.map { .deletion($0) }
    return addresses
  }

  /// The living documents of a task that this session created.
  func ownDocuments(of task: TaskID) -> [DocumentRecord] {
    state.withLock { $0.taskDocuments[task].map { Array($0.values) } ?? [] }
      .sorted { $0.id < $1.id }
  }

  private func publish(_ publication: Publication, _ addresses: [DocumentAddress]) {
    let observers = state.withLock { state in
      for case .task(let record) in publication.changes {
        state.tasks.adopt(record)
      }
      if !addresses.isEmpty { state.changedDocuments.append((publication.sequence, addresses)) }
      return state.insideObservers
    }
    reads.see(publication)
    publications.stage(publication)
    for observer in observers { observer(publication) }
    // A flush that somebody else asked for may have taken the commit before it could be told.
    if state.withLock({ $0.flushedThrough >= publication.sequence }) {
      flushed(through: publication.sequence)
    }
    retention.expireIfDue()
    if waits.wants(publication.settledSubmissions) || taskWaits.wants(publication.endedTasks)
      || store.stagedBytes > Self.backlogBytes
    {
      Task.detached { [store] in try? await store.flush() }
    } else if publications.hasSubscribers {
      armFlush()
    }
  }

  private func armFlush() {
    let isFirst = state.withLock { state in
      defer { state.isFlushArmed = true }
      return !state.isFlushArmed
    }
    guard isFirst else { return }
    Task.detached { [self] in
      await clock.sleep(nanoseconds: Self.observerDelayNanoseconds)
      state.withLock { $0.isFlushArmed = false }
      try? await store.flush()
    }
  }

  func flushed(through sequence: Int64) {
    let addresses = state.withLock { state in
      // Noted before anything is taken: whoever publishes later then looks for it here.
      state.flushedThrough = max(state.flushedThrough, sequence)
      let count = state.changedDocuments.prefix { $0.sequence <= sequence }.count
      defer { state.changedDocuments.removeFirst(count) }
      return Set(state.changedDocuments.prefix(count).flatMap { $0.addresses })
    }
    documents.flushed(through: sequence, addresses)
    // What is on disk may be dropped in time.
    if !addresses.isEmpty { retention.arm() }
    publications.release(through: sequence)
  }
}
