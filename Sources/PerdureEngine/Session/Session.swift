package import PerdureModel
import PerdureValue
import Synchronization

/// One open store: the line on which it changes, its documents, and what it publishes.
package final class Session: Sendable {
  /// Sees each commit as soon as it is staged, on the line; only enqueues.
  package typealias InsideObserver = @Sendable (Publication) -> Void

  private struct State {
    var tasks = HeldTasks()
    /// The documents that each unflushed commit changed.
    var changedDocuments: [(sequence: Int64, addresses: [DocumentAddress])] = []
    /// The living documents of tasks that this session created; older ones are looked up.
    var taskDocuments: [TaskID: [DocumentID: DocumentRecord]] = [:]
    var insideObservers: [InsideObserver] = []
    var taskFollower: (@Sendable () async -> Void)?
    var isFlushArmed = false
    /// Nothing that is asked for from outside is admitted any more.
    var isSealed = false
    var isClosing = false
    var failure: PerdureError?
    var sealers: [@Sendable (PerdureError?) -> Void] = []
    var closers: [(id: Int, call: @Sendable (PerdureError?) -> Void)] = []
    var nextCloser = 1
    /// How it ended: with `nil` when it was closed.
    var end: PerdureError??
  }

  package let line = CommitLine()
  package let store: StagedStore
  package let clock: any HostClock
  package let publications: PublicationQueue
  let documents = DocumentCache()
  let waits = WaitList()
  /// Those who wait for the end of a task.
  let taskWaits = WaitRoom<TaskID>()
  /// Ids from here on were minted by this session.
  let firstOwnId: Int64
  private let state = Mutex(State())
  private let shutdown = Mutex<Task<Void, any Error>?>(nil)
  private let report: @Sendable (Report) -> Void

  // How long an observer may have to wait for a commit that nobody needs on disk.
  static let observerDelayNanoseconds: Int64 = 10_000_000
  static let backlogBytes = 1 << 20

  private init(
    store: StagedStore,
    clock: any HostClock,
    report: @escaping @Sendable (Report) -> Void
  ) {
    self.store = store
    self.clock = clock
    self.report = report
    firstOwnId = store.state.withLock { $0.counters.nextId }
    publications = PublicationQueue { [waits, taskWaits] publication in
      waits.release(publication)
      for id in publication.endedTasks { taskWaits.release(id) }
    }
  }

  /// Opens a session over an open storage, which it then owns.
  package static func open(
    _ storage: any Storage,
    clock: any HostClock,
    report: @escaping @Sendable (Report) -> Void = { _ in }
  ) async throws -> Session {
    let cell = SessionCell()
    let store = try await StagedStore.open(
      storage,
      clock: clock,
      onFlush: { sequence in cell.session?.flushed(through: sequence) },
      onFailure: { error in cell.session?.failed(error) }
    )
    let session = Session(store: store, clock: clock, report: report)
    cell.session = session
    try await session.loadLiveTasks()
    return session
  }

  private func loadLiveTasks() async throws {
    for status in TaskState.Status.allCases where status != .terminal {
      var cursor: Cursor?
      var loaded = 0
      repeat {
        let page = try await store.scanTasks(
          TaskQuery(status: status),
          PageRequest(limit: 256, cursor: cursor)
        )
        state.withLock { state in
          for record in page.items { state.tasks.adopt(record) }
        }
        loaded += page.items.count
        cursor = page.next
        let isDormant = status == .waiting || status == .sleeping
        if isDormant, loaded >= HeldTasks.greatestDormantCount { break }
      } while cursor != nil
    }
  }

  /// Adds an observer of staged commits.
  package func observe(_ observer: @escaping InsideObserver) {
    state.withLock { $0.insideObservers.append(observer) }
  }

  /// Runs `follower` after each commit that changed tasks, as a part of the task that committed.
  func followTasks(_ follower: @escaping @Sendable () async -> Void) {
    state.withLock { $0.taskFollower = follower }
  }

  /// Runs `body` at the end of the session: with `nil` when it is closed, with the error when it
  /// failed, at once if it has ended.
  ///
  /// The returned closure takes `body` back and may be called more than once.
  @discardableResult
  package func onEnd(_ body: @escaping @Sendable (PerdureError?) -> Void) -> @Sendable () -> Void {
    let (id, end) = state.withLock { state in
      defer { state.nextCloser += 1 }
      if state.end == nil { state.closers.append((state.nextCloser, body)) }
      return (state.nextCloser, state.end)
    }
    if let end { body(end) }
    return { [weak self] in self?.state.withLock { $0.closers.removeAll { $0.id == id } } }
  }

  /// Calls `listener` with each flushed commit; one that throws is reported and fails nothing.
  package func subscribe(
    _ listener: @escaping @Sendable (Publication) throws -> Void
  ) -> @Sendable () -> Void {
    publications.subscribe { [report] publication in
      do {
        try listener(publication)
      } catch {
        report(.listenerFailed(error))
      }
    }
  }

  /// Runs `body` once when the session takes nothing more from outside: because it is being
  /// closed, with `nil`, or because it failed.
  func onSeal(_ body: @escaping @Sendable (PerdureError?) -> Void) {
    state.withLock { $0.sealers.append(body) }
  }

  /// The tasks that are not terminal, as staged, as far as they are in memory: all but those that
  /// have been waiting or sleeping for long beside many others.
  package var liveTasks: [TaskID: TaskRecord] { state.withLock { $0.tasks.records } }

  /// Returns a task that is not terminal, as staged, if it is one of those in memory.
  package func liveTask(_ id: TaskID) -> TaskRecord? { state.withLock { $0.tasks.records[id] } }

  /// Returns a task as staged, or `nil`.
  package func task(_ id: TaskID) async throws -> TaskRecord? {
    if let live = liveTask(id) { return live }
    return try await store.task(id)
  }

  // MARK: Commits

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
  package func commit<Result>(
    conversation: ConversationID? = nil,
    task: TaskID? = nil,
    _ body: (Transaction) async throws -> Result
  ) async throws -> Result {
    try admitFromOutside()
    let (result, publication) = try await stage(conversation: conversation, task: task, body)
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
  private func admit() throws {
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
    let writes = tables + documentChanges.flatMap { $0.writes }
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
    publish(publication, documentChanges.map { $0.record.address })
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
    publications.stage(publication)
    for observer in observers { observer(publication) }
    if waits.wants(publication) || taskWaits.wants(publication.endedTasks)
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

  private func flushed(through sequence: Int64) {
    let addresses = state.withLock { state in
      let count = state.changedDocuments.prefix { $0.sequence <= sequence }.count
      defer { state.changedDocuments.removeFirst(count) }
      return Set(state.changedDocuments.prefix(count).flatMap { $0.addresses })
    }
    documents.flushed(through: sequence, addresses)
    publications.release(through: sequence)
  }

  // MARK: End

  /// Ends the session with an error that leaves it unclear how to go on.
  ///
  /// Everything later throws `sessionFailed`; what was staged and not flushed is lost.
  func fail(_ error: any Error) { store.fail(error) }

  private func failed(_ error: PerdureError) {
    let failure = StagedStore.failed(error)
    state.withLock { $0.failure = failure }
    report(Report(type: "session_failed", message: error.description, error: failure))
    end(failure)
  }

  private func end(_ error: PerdureError?) {
    seal(error)
    let closers = state.withLock { state in
      defer { state.closers = [] }
      state.isClosing = true
      if state.end == nil { state.end = .some(error) }
      return state.closers
    }
    publications.close()
    waits.close(error)
    taskWaits.close(error)
    for closer in closers { closer.call(error) }
  }

  private func seal(_ error: PerdureError?) {
    let sealers = state.withLock { state in
      defer { state.sealers = [] }
      state.isSealed = true
      return state.sealers
    }
    for sealer in sealers { sealer(error) }
  }

  /// Refuses from now on what is asked for from outside; what runs inside may still commit.
  ///
  /// Throws `nestedCommit` inside a commit.
  func seal() throws {
    try line.requireOutside()
    seal(nil)
  }

  /// Refuses new work at once, lets admitted commits settle, flushes and releases the store.
  ///
  /// All calls share one shutdown, which goes on when a caller is cancelled. Throws
  /// `sessionFailed`, with the store released, if something staged could not be written.
  package func close() async throws {
    try seal()
    let task = shutdown.withLock { task in
      if let task { return task }
      state.withLock { $0.isClosing = true }
      // Awaited by every caller.
      let started = Task.detached { [self] in try await shutDown() }
      task = started
      return started
    }
    try await task.value
  }

  private func shutDown() async throws {
    // Whatever is staged may still be published; then nobody is told any more.
    defer { end(nil) }
    try await line.hold {}
    try await store.close()
  }
}

/// Lets the staging layer, which exists before its session, call the session.
///
/// It does not own the session, which owns the layer.
private final class SessionCell: Sendable {
  private struct State {
    weak var session: Session?
  }

  private let state = Mutex(State())

  var session: Session? {
    get { state.withLock { $0.session } }
    set { state.withLock { $0.session = newValue } }
  }
}
