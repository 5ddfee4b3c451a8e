import PerdureModel
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
    var timer: Task<Void, Never>?
    var blocked: [TaskID: String] = [:]
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
    for record in session.liveTasks.values { adopt(record) }
    try await session.stage { tx in
      for record in session.liveTasks.values.sorted(by: { $0.id < $1.id }) {
        guard case .running(let checkpoint) = record.state else { continue }
        var recovered = record
        recovered.state = .pending(checkpoint: checkpoint)
        // Whatever stands in the store, the count only rises and ends at the limit.
        recovered.restarts = min(max(record.restarts ?? 0, 0), .max - 1) + 1
        try await tx.replace(recovered)
      }
    }
  }

  /// Lets tasks run; idempotent.
  package func enable() throws {
    try state.withLock { state in
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
    let signalled = state.withLock { state -> InvocationSignal? in
      state.sleepers[record.id] = nil
      state.blocked[record.id] = nil
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

  private func armTimer() {
    let next = state.withLock { state -> Int64? in
      guard state.isEnabled, state.timer == nil else { return nil }
      return state.sleepers.values.min()
    }
    guard let next else { return }
    let timer = Task.detached { [self] in
      // Long sleeps are taken in steps, and the wall clock decides, so that a machine that was
      // suspended wakes its tasks in time.
      let now = surroundings.clock.now()
      let wait = min(max(next, now) - now, 60_000)
      await surroundings.clock.sleep(nanoseconds: wait * 1_000_000)
      wakeSleepers()
    }
    state.withLock { $0.timer = timer }
  }

  private func wakeSleepers() {
    let now = surroundings.clock.now()
    state.withLock { state in
      state.timer = nil
      for (id, until) in state.sleepers where until <= now { state.candidates.insert(id) }
    }
    schedulePass()
    armTimer()
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
    if beginPass() { await passUntilDone() } else { resolveQuiet() }
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

  private func passUntilDone() async {
    repeat {
      state.withLock { $0.isReconsidering = false }
      do {
        try await pass()
      } catch {
        // A pass that cannot be committed has failed the session, or the session is closing.
        state.withLock { $0.isPassing = false }
        resolveQuiet()
        return
      }
    } while state.withLock({ state in
      if state.isReconsidering, !state.isClosing { return true }
      state.isPassing = false
      return false
    })
    resolveQuiet()
  }

  private func pass() async throws {
    let (starts, _) = try await session.stage { tx in
      var starts: [Invocation] = []
      for id in state.withLock({ $0.candidates.sorted() }) {
        if let start = try await consider(id, tx) { starts.append(start) }
      }
      return starts
    }
    for invocation in starts {
      invocation.start()
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
      if until > tx.now { return nil }
    case .terminal: return nil
    default: drop(id)
    }
    if record.abortRequested, hasLiveOwned { return nil }
    return try await reserve(record, tx)
  }

  private func drop(_ id: TaskID) { state.withLock { _ = $0.candidates.remove(id) } }

  private func block(_ id: TaskID, _ reason: String) {
    state.withLock { $0.blocked[id] = reason }
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
    block(record.id, "restart_limit")
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
      block(record.id, reason)
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
