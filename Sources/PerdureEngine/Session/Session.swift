package import PerdureModel
import PerdureValue
import Synchronization

/// One open store: the line on which it changes, its documents, and what it publishes.
package final class Session: Sendable {
  /// Sees each commit as soon as it is staged, on the line; only enqueues.
  package typealias InsideObserver = @Sendable (Publication) -> Void
  /// Runs within each creation of a conversation and may add to its commit; a throw fails that.
  package typealias CreationHook = @Sendable (Transaction, ConversationRecord) async throws -> Void

  struct State {
    var tasks = HeldTasks()
    /// The documents that each unflushed commit changed.
    var changedDocuments: [(sequence: Int64, addresses: [DocumentAddress])] = []
    /// The living documents of tasks that this session created; older ones are looked up.
    var taskDocuments: [TaskID: [DocumentID: DocumentRecord]] = [:]
    var insideObservers: [InsideObserver] = []
    var taskFollower: (@Sendable () async -> Void)?
    var isFlushArmed = false
    /// The last commit of which the storage has said that it is on disk.
    var flushedThrough: Int64 = 0
    /// Nothing that is asked for from outside is admitted any more.
    var isSealed = false
    var isClosing = false
    var failure: PerdureError?
  }

  package let line = CommitLine()
  package let store: StagedStore
  package let clock: any HostClock
  package let publications: PublicationQueue
  let documents: DocumentCache
  /// Those who wait for the settlement of a submission.
  let waits = WaitRoom<SubmissionID>()
  /// Those who have read something for a commit that is still to come.
  let reads = ReadTracker()
  /// What is known of conversations as a whole, as staged.
  let marks = Mutex<[ConversationID: ConversationMark]>([:])
  /// Drops what has not been used for long.
  let retention: RetentionTimer
  let onCreation: CreationHook?
  /// The moment at which nothing more is taken from outside.
  let sealing = Ending()
  /// The moment at which it is decided how the session ended.
  let ending = Ending()
  /// The moment after which nothing of this session touches the store.
  let release = Ending()
  /// Those who wait for the end of a task.
  let taskWaits = WaitRoom<TaskID>()
  /// Ids from here on were minted by this session.
  let firstOwnId: Int64
  let state = Mutex(State())
  let shutdown = Mutex<Task<Void, any Error>?>(nil)
  package let report: @Sendable (Report) -> Void

  // How long an observer may have to wait for a commit that nobody needs on disk.
  static let observerDelayNanoseconds: Int64 = 10_000_000
  static let backlogBytes = 1 << 20

  private init(
    store: StagedStore,
    clock: any HostClock,
    documentRetentionMs: @escaping @Sendable () -> Int64?,
    onCreation: CreationHook?,
    report: @escaping @Sendable (Report) -> Void
  ) {
    self.store = store
    self.clock = clock
    self.onCreation = onCreation
    self.report = report
    documents = DocumentCache(
      clock: clock,
      retention: { Retention(milliseconds: documentRetentionMs()) }
    )
    retention = RetentionTimer(clock: clock, line: line)
    retention.add(documents)
    firstOwnId = store.state.withLock { $0.counters.nextId }
    publications = PublicationQueue { [waits, taskWaits] publication in
      for id in publication.settledSubmissions { waits.release(id) }
      for id in publication.endedTasks { taskWaits.release(id) }
    }
  }

  /// Opens a session over an open storage, which it then owns.
  ///
  /// Documents that nobody uses leave the memory after `documentRetentionMs`; `nil` keeps them.
  package static func open(
    _ storage: any Storage,
    clock: any HostClock,
    documentRetentionMs: @escaping @Sendable () -> Int64? = { 600_000 },
    onCreation: CreationHook? = nil,
    report: @escaping @Sendable (Report) -> Void = { _ in }
  ) async throws -> Session {
    let cell = SessionCell()
    let store = try await StagedStore.open(
      storage,
      clock: clock,
      onFlush: { sequence in cell.session?.flushed(through: sequence) },
      onFailure: { error in cell.session?.failed(error) }
    )
    let session = Session(
      store: store,
      clock: clock,
      documentRetentionMs: documentRetentionMs,
      onCreation: onCreation,
      report: report
    )
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
        if isDormant, loaded >= HeldTasks.greatestDormantCount {
          if cursor != nil { state.withLock { $0.tasks.isComplete = false } }
          break
        }
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
    ending.observe(body)
  }

  /// Runs `body` as `onEnd` does, once nothing of this session touches the store any more.
  @discardableResult
  package func onRelease(
    _ body: @escaping @Sendable (PerdureError?) -> Void
  ) -> @Sendable () -> Void { release.observe(body) }

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
  func onSeal(_ body: @escaping @Sendable (PerdureError?) -> Void) { sealing.observe(body) }

  /// The tasks that are not terminal, as staged, as far as they are in memory: all but those that
  /// have been waiting or sleeping for long beside many others.
  package var liveTasks: [TaskID: TaskRecord] { state.withLock { $0.tasks.records } }

  /// Returns a task that is not terminal, as staged, if it is one of those in memory.
  package func liveTask(_ id: TaskID) -> TaskRecord? { state.withLock { $0.tasks.records[id] } }

  /// Visits all tasks that are not terminal, as staged, also those that are not in memory.
  func forEachLiveTask(_ body: (TaskRecord) throws -> Void) async throws {
    let held = state.withLock { $0.tasks }
    if held.isComplete { return try held.records.values.forEach(body) }
    for status in TaskState.Status.allCases where status != .terminal {
      var cursor: Cursor?
      repeat {
        let page = try await store.scanTasks(
          TaskQuery(status: status),
          PageRequest(limit: 256, cursor: cursor)
        )
        try page.items.forEach(body)
        cursor = page.next
      } while cursor != nil
    }
  }

  /// Returns a task as staged, or `nil`.
  package func task(_ id: TaskID) async throws -> TaskRecord? {
    if let live = liveTask(id) { return live }
    return try await store.task(id)
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
