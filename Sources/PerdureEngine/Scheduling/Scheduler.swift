package import PerdureModel
import PerdureValue
import Synchronization

/// Decides which tasks run, starts them, and ends those that cannot.
///
/// It follows staged commits and keeps only what is live. All its decisions are made in commits,
/// so that a crash between two of them loses nothing.
package final class Scheduler: Sendable {
  struct State {
    var isEnabled = false
    var isClosing = false
    /// Why no task of this store may run here: a lacking feature, or a failed session.
    var refusal: PerdureError?
    var isPassing = false
    var isReconsidering = false
    /// Live tasks that may be able to go on.
    var candidates: Set<TaskID> = []
    var invocations: [TaskID: Invocation] = [:]
    /// Live tasks by the task that owns them.
    var owned: [TaskID: Set<TaskID>] = [:]
    /// Waiting tasks by the live tasks for which they wait.
    var awaitedBy: [TaskID: Set<TaskID>] = [:]
    var sleepers: [TaskID: Int64] = [:]
    var timer: WakeTimer?
    var blocked: [TaskID: String] = [:]
    /// Told on the line of every change of `blocked`.
    var obstacleFollower: (@Sendable (TaskID, String?) -> Void)?
    var quietWaiters: [CheckedContinuation<Void, Never>] = []
  }

  let session: Session
  let definitions: [JSONString: TaskDefinition]
  let surroundings: TaskSurroundings
  let state = Mutex(State())

  init(session: Session, definitions: [TaskDefinition], surroundings: TaskSurroundings) {
    self.session = session
    self.surroundings = surroundings
    self.definitions = Dictionary(
      definitions.map { ($0.name, $0) },
      uniquingKeysWith: { first, _ in first }
    )
  }

  var isClosing: Bool { state.withLock { $0.isClosing } }

  /// Takes over the live tasks of the session: what ran when the process died is pending again.
  ///
  /// One commit; nothing runs before `enable`.
  func recover() async throws {
    session.observe { [weak self] publication in self?.observe(publication) }
    session.followTasks { [weak self] in await self?.passHere() }
    session.onEnd { [weak self] error in if let error { self?.sessionFailed(error) } }
    for record in session.liveTasks.values { adopt(record) }
    try await session.stage { tx in
      for record in session.liveTasks.values.sorted(by: { $0.id < $1.id }) {
        guard case .running(let checkpoint) = record.state else { continue }
        var recovered = record
        recovered.state = .pending(checkpoint: checkpoint)
        recovered.restarts = max(record.restarts ?? 0, 0).addingSaturated(1)
        try await tx.replace(recovered)
      }
    }
  }

  /// Why no task of the store may run here, or `nil`.
  package var refusal: PerdureError? { state.withLock { $0.refusal } }

  /// Makes every attempt to let tasks run fail with `error`.
  func refuse(_ error: PerdureError) { state.withLock { $0.refusal = error } }

  /// Lets tasks run; idempotent.
  package func enable() throws {
    try state.withLock { state in
      if let refusal = state.refusal { throw refusal }
      if state.isClosing { throw PerdureError(.closed, "the host is closed") }
      state.isEnabled = true
    }
    armTimer()
    schedulePass()
  }

  // MARK: Following commits

  private func observe(_ publication: Publication) {
    for case .task(let record) in publication.changes { adopt(record) }
  }

  /// Brings what is derived from a task up to date with its staged record.
  private func adopt(_ record: TaskRecord) {
    setBlocked(record.id, nil)
    let signalled = state.withLock { state -> InvocationSignal? in
      state.sleepers[record.id] = nil
      guard record.isLive else {
        Self.forget(record, &state)
        return nil
      }
      if let owner = record.owner { state.owned[owner, default: []].insert(record.id) }
      switch record.state {
      case .waiting(_, let on, _):
        let live = on.filter { session.liveTask($0) != nil }
        for id in live { state.awaitedBy[id, default: []].insert(record.id) }
        if live.isEmpty || record.abortRequested { state.candidates.insert(record.id) }
      case .sleeping(_, let until):
        state.sleepers[record.id] = until
        if record.abortRequested { state.candidates.insert(record.id) }
      case .pending, .completing: state.candidates.insert(record.id)
      case .running:
        if record.abortRequested, let invocation = state.invocations[record.id],
          invocation.mode == .run
        {
          return invocation.signal
        }
      case .terminal: break
      }
      return nil
    }
    signalled?.cancel(.abort)
    armTimer()
  }

  private static func forget(_ record: TaskRecord, _ state: inout State) {
    state.candidates.remove(record.id)
    state.owned[record.id] = nil
    for id in state.awaitedBy.removeValue(forKey: record.id) ?? [] { state.candidates.insert(id) }
    if let owner = record.owner {
      state.owned[owner]?.remove(record.id)
      if state.owned[owner]?.isEmpty == true { state.owned[owner] = nil }
      // An owner that is held, or that aborts, may have waited for this one.
      state.candidates.insert(owner)
    }
  }

  // MARK: Passes

  /// Starts a pass over the candidates, unless one is under way that will see them.
  func schedulePass() {
    if beginPass() {
      Task.detached { [self] in await passUntilDone() }
    } else {
      resolveQuiet()
    }
  }

  /// Passes over the candidates as a part of the calling task, unless a pass is under way that will
  /// see them.
  ///
  /// Whoever commits also decides what runs next: a task of its own would have to wait for the line
  /// and to be woken, which costs more than the pass.
  func passHere() async {
    guard beginPass() else { return resolveQuiet() }
    // Only once: others may commit without a pause, and the caller has its own work to go on with.
    if await passOnce() { Task.detached { [self] in await passUntilDone() } }
  }

  private func beginPass() -> Bool {
    state.withLock { state in
      guard state.isEnabled, !state.isClosing, !state.candidates.isEmpty else { return false }
      if state.isPassing {
        state.isReconsidering = true
        return false
      }
      state.isPassing = true
      return true
    }
  }

  private func passUntilDone() async { while await passOnce() {} }

  /// Passes over the candidates and returns whether there are more by now.
  private func passOnce() async -> Bool {
    state.withLock { $0.isReconsidering = false }
    var error: (any Error)?
    do {
      try await pass()
    } catch let failure {
      error = failure
    }
    let hasMore = state.withLock { state in
      state.isPassing = error == nil && state.isReconsidering && !state.isClosing
      return state.isPassing
    }
    if let error { commitFailed(error) }
    if !hasMore { resolveQuiet() }
    return hasMore
  }

  private func pass() async throws {
    let starts = Mutex<[Invocation]>([])
    do {
      try await session.stage { tx in
        // A stop has begun; what would start now would only be stopped again.
        if isClosing { return }
        for id in state.withLock({ $0.candidates.sorted() }) {
          guard let start = try await consider(id, tx) else { continue }
          starts.withLock { $0.append(start) }
        }
      }
    } catch {
      // None of them starts; whoever joins them must not wait.
      for invocation in starts.withLock({ $0 }) { await invocation.abandon() }
      throw error
    }
    for invocation in starts.withLock({ $0 }) { invocation.start() }
  }

  /// A decision of the scheduler that cannot be committed would be taken again for ever.
  func commitFailed(_ error: any Error) {
    switch (error as? PerdureError)?.code {
    case .closed?, .sessionFailed?: break
    default: session.fail(error)
    }
  }

  /// Decides about one candidate; what it writes lands with the pass.
  private func consider(_ id: TaskID, _ tx: Transaction) async throws -> Invocation? {
    let isInvoked = state.withLock { $0.invocations[id] != nil }
    guard let record = session.liveTask(id), !isInvoked else {
      if session.liveTask(id) == nil { drop(id) }
      return nil
    }
    let hasLiveOwned = state.withLock { $0.owned[id] != nil }
    switch record.state {
    case .completing(let outcome):
      drop(id)
      if !hasLiveOwned { try await finish(record, outcome, tx) }
      return nil
    case .waiting(_, let on, _) where !record.abortRequested:
      drop(id)
      if on.contains(where: { session.liveTask($0) != nil }) { return nil }
    case .sleeping(_, let until) where !record.abortRequested:
      drop(id)
      if until > tx.now {
        state.withLock { $0.sleepers[id] = until }
        armTimer()
        return nil
      }
    case .terminal: return nil
    default: drop(id)
    }
    if record.abortRequested, hasLiveOwned { return nil }
    return try await reserve(record, tx)
  }

  private func drop(_ id: TaskID) { state.withLock { _ = $0.candidates.remove(id) } }

  /// Notes why a task cannot go on, or that it can, and returns whether that is news.
  @discardableResult
  private func setBlocked(_ id: TaskID, _ reason: String?) -> Bool {
    let (isNew, follower) = state.withLock { state in
      defer { state.blocked[id] = reason }
      return (state.blocked[id] != reason, state.obstacleFollower)
    }
    if isNew { follower?(id, reason) }
    return isNew
  }

  /// Sets a task running, or says why it cannot run.
  private func reserve(_ record: TaskRecord, _ tx: Transaction) async throws -> Invocation? {
    guard let definition = definitions[record.kind] else {
      return try await obstruct(record, "missing_task", tx)
    }
    var record = record
    if record.version > definition.version {
      return try await obstruct(record, "task_too_old", tx)
    }
    let limit = max(1, surroundings.settings().restartLimit)
    if (record.restarts ?? 0) >= limit {
      if record.abortRequested {
        let outcome = TaskOutcome.faulted(
          message: "the abort handler was cut off too often",
          detail: ["reason": "restart_limit"]
        )
        try await end(record, outcome, tx)
      } else {
        park(record)
      }
      return nil
    }
    if record.version < definition.version {
      guard let migrate = definition.migrate, let migrated = try? migrate(record) else {
        return try await obstruct(record, "migration_failed", tx)
      }
      record.version = definition.version
      record.input = migrated.input
      record.state = .pending(checkpoint: migrated.checkpoint)
    }
    guard let checkpoint = record.state.checkpoint else { return nil }
    record.state = .running(checkpoint: checkpoint)
    try await tx.replace(record)
    let invocation = Invocation(
      record: record,
      definition: definition,
      mode: record.abortRequested ? .abort : .run,
      scheduler: self
    )
    state.withLock { $0.invocations[record.id] = invocation }
    return invocation
  }

  private func park(_ record: TaskRecord) {
    guard setBlocked(record.id, "restart_limit") else { return }
    surroundings.report(
      Report(
        type: "task_parked",
        message:
          "task \(record.id) was cut off \(record.restarts ?? 0) times in a row and is parked",
        task: record.id
      )
    )
  }

  /// A task whose code is missing stays as it is; one that is to be aborted ends without code.
  private func obstruct(
    _ record: TaskRecord,
    _ reason: String,
    _ tx: Transaction
  ) async throws -> Invocation? {
    if record.abortRequested, record.abortReason == nil {
      try await end(record, .orphaned(reason: reason), tx)
    } else {
      setBlocked(record.id, reason)
    }
    return nil
  }

  // MARK: Ends

  /// Returns the record with its next state: a terminal one is held while owned work is live.
  func advance(_ record: TaskRecord, to state: TaskState, _ tx: Transaction) -> TaskRecord {
    var next = record
    next.state = state
    if state != record.state { next.restarts = nil }
    if case .terminal(let outcome) = state, hasLiveOwned(record.id, tx) {
      next.state = .completing(outcome)
    }
    return next
  }

  private func hasLiveOwned(_ id: TaskID, _ tx: Transaction) -> Bool {
    if tx.tasks.values.contains(where: { $0.owner == id && $0.isLive }) { return true }
    let owned = state.withLock { $0.owned[id] ?? [] }
    return owned.contains { tx.tasks[$0]?.isLive ?? true }
  }

  /// Ends a task by the scheduler's own decision.
  func end(_ record: TaskRecord, _ outcome: TaskOutcome, _ tx: Transaction) async throws {
    let next = advance(record, to: .terminal(outcome), tx)
    if case .terminal = next.state {
      try await finish(record, outcome, tx)
    } else {
      try await tx.replace(next)
    }
  }

  /// Makes a decided outcome final.
  private func finish(
    _ record: TaskRecord,
    _ outcome: TaskOutcome,
    _ tx: Transaction
  ) async throws {
    switch outcome {
    case .faulted, .orphaned:
      try await definitions[record.kind]?.settle(tx, record, outcome)
    case .completed, .failed, .aborted: break
    }
    var next = record
    next.state = .terminal(outcome)
    try await tx.replace(next)
  }

  func invocationEnded(_ id: TaskID) async {
    state.withLock { state in
      state.invocations[id] = nil
      if session.liveTask(id) != nil { state.candidates.insert(id) }
    }
    await passHere()
  }
}
