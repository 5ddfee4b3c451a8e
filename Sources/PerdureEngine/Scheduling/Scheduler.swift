package import PerdureModel
import PerdureValue
import Synchronization

/// Decides which tasks run, starts them, and ends those that cannot.
///
/// It follows staged commits and keeps only what is live. All its decisions are made in commits,
/// so that a crash between two of them loses nothing.
package final class Scheduler: Sendable {
  /// A task as a commit left it, and as it was before.
  struct Change {
    var record: TaskRecord
    var previous: TaskRecord?

    /// Whether nothing can follow for any task, because the one that runs only went on.
    var isProgress: Bool { record.state.status == .running && !record.abortRequested }
  }

  struct State {
    var isEnabled = false
    var isClosing = false
    /// Why no task of this store may run here: a lacking feature, or a failed session.
    var refusal: PerdureError?
    var isPassing = false
    var isReconsidering = false
    /// What was committed and is not yet part of what follows here.
    var changes: [Change] = []
    /// Live tasks that may be able to go on.
    var candidates: Set<TaskID> = []
    var invocations: [TaskID: Invocation] = [:]
    var forest = TaskForest()
    /// Waiting tasks behind the tasks for which they wait.
    var awaited = OrderedPairs()
    /// Sleeping tasks behind their times.
    var sleepers = OrderedPairs()
    /// Those of them that wait for the answer of a person.
    var questions: Set<TaskID> = []
    /// Live tasks below which everything is to end.
    var cancelling: Set<TaskID> = []
    var work = ReconcilingWork()
    /// Tasks that the last process left and that do not survive a restart.
    var abandoned: Set<TaskID> = []
    var timer: WakeTimer?
    var blocked: [TaskID: Obstacle] = [:]
    /// The limit that parked the parked tasks.
    var parkingLimit: Int64 = .max
    /// The definitions that could not migrate a task.
    var failedMigrations: [TaskID: FailedMigration] = [:]
    /// What code that lives outside made of tasks of older versions.
    var preparedMigrations: [TaskID: PreparedMigration] = [:]
    /// The tasks about which such code is being asked.
    var migrating: Set<TaskID> = []
    /// Told on the line of every change of `blocked`.
    var obstacleFollower: (@Sendable (TaskID, String?) -> Void)?
    var quietWaiters: [CheckedContinuation<Void, Never>] = []
    var lastWake: Wake?

    // So many changes are taken in at once at the latest, so that they take no room.
    private static let longestBacklog = 64

    /// Whether something was committed from which something may follow.
    var hasNews: Bool {
      changes.count >= Self.longestBacklog
        || changes.contains { !$0.isProgress || blocked[$0.record.id] != nil }
    }
  }

  let session: Session
  let definitions: [JSONString: TaskDefinition]
  let surroundings: TaskSurroundings
  let onWake: (@Sendable (Wake) -> Void)?
  let state = Mutex(State())
  /// Those who wait until nothing ordinary is live, in a conversation or anywhere.
  let idleWaits = WaitRoom<ConversationID?>()
  /// Which tasks' code waits for which tasks.
  let callWaits = CallWaits()
  /// Those who wait until the code of a task has ended.
  let joins = WaitRoom<TaskID>()

  init(
    session: Session,
    definitions: [TaskDefinition],
    surroundings: TaskSurroundings,
    onWake: (@Sendable (Wake) -> Void)? = nil
  ) {
    self.session = session
    self.surroundings = surroundings
    self.onWake = onWake
    self.definitions = Dictionary(
      definitions.map { ($0.name, $0) },
      uniquingKeysWith: { first, _ in first }
    )
  }

  var isClosing: Bool { state.withLock { $0.isClosing } }

  /// The code for tasks of this kind as it is installed now, and the extension that brought it.
  func definition(_ kind: JSONString) -> (definition: TaskDefinition, extensionName: String?)? {
    if let builtIn = definitions[kind] { return (builtIn, nil) }
    return surroundings.registry.task(kind).map { ($0.definition, $0.extensionName) }
  }

  /// Why no task of the store may run here, or `nil`.
  package var refusal: PerdureError? { state.withLock { $0.refusal } }

  /// Makes every attempt to let tasks run fail with `error`.
  func refuse(_ error: PerdureError) { state.withLock { $0.refusal = error } }

  /// Lets tasks run, and wakes those that have slept long enough; idempotent.
  package func enable() throws {
    try state.withLock { state in
      if let refusal = state.refusal { throw refusal }
      if state.isClosing { throw PerdureError(.closed, "the host is closed") }
      state.isEnabled = true
    }
    schedulePass()
  }

  // MARK: Passes

  /// Starts a pass, unless there is nothing to decide or one is under way that will see it.
  func schedulePass() {
    if beginPass() {
      Task.detached { [self] in await passUntilDone() }
    } else {
      settled()
    }
  }

  /// Passes as a part of the calling task, unless a pass is under way that will see everything.
  ///
  /// Whoever commits also decides what runs next: a task of its own would have to wait for the line
  /// and to be woken, which costs more than the pass.
  func passHere() async {
    guard beginPass() else { return settled() }
    // Only once: others may commit without a pause, and the caller has its own work to go on with.
    if await passOnce() { Task.detached { [self] in await passUntilDone() } }
  }

  private func beginPass() -> Bool {
    let now = surroundings.clock.now()
    return state.withLock { state in
      guard !state.isClosing, state.refusal == nil else { return false }
      let mayReserve =
        !state.candidates.isEmpty || (state.sleepers.first.map { $0.key <= now } ?? false)
        || !state.abandoned.isEmpty
      guard state.hasNews || !state.work.isEmpty || state.isEnabled && mayReserve else {
        return false
      }
      if state.isPassing {
        state.isReconsidering = true
        return false
      }
      state.isPassing = true
      return true
    }
  }

  private func passUntilDone() async { while await passOnce() {} }

  /// Passes once and returns whether there is more to decide by now.
  private func passOnce() async -> Bool {
    state.withLock { $0.isReconsidering = false }
    var error: (any Error)?
    do {
      // What is new is taken in where tasks are reserved, unless none are.
      let (isEnabled, hasWork) = state.withLock { ($0.isEnabled, !$0.work.isEmpty) }
      if hasWork || !isEnabled { try await reconcile() }
      if isEnabled { try await reserve() }
    } catch let failure {
      error = failure
    }
    let hasMore = state.withLock { state in
      let isUnfinished = state.isReconsidering || !state.work.isEmpty
      state.isPassing = error == nil && isUnfinished && !state.isClosing
      return state.isPassing
    }
    if let error { commitFailed(error) }
    if !hasMore { settled() }
    return hasMore
  }

  /// Tells those who wait for it that nothing is left to decide for now.
  private func settled() {
    armTimer()
    resolveQuiet()
    resolveIdle()
  }

  private func reserve() async throws {
    let round = Reservations()
    do {
      try await session.stage { tx in
        // A stop has begun; what would start now would only be stopped again.
        if isClosing { return }
        try await catchUp()
        if try await abandon(tx) { return }
        wakeDue(tx.now)
        unpark()
        for id in state.withLock({ $0.candidates.sorted() }) {
          if let start = try await consider(id, tx, round) { round.add(start) }
        }
      }
    } catch {
      // None of them starts; whoever joins them must not wait.
      for invocation in round.starts { await invocation.abandon() }
      throw error
    }
    for invocation in round.starts { invocation.start() }
    for (record, found) in round.migrations
    where state.withLock({ $0.migrating.insert(record.id).inserted }) {
      // Ends with the code that it asks, which has a deadline.
      Task.detached { [self] in await migrate(record, found) }
    }
    guard !round.reports.isEmpty else { return }
    // Told only after it is durable, so that nobody hears of a fault that a crash takes back.
    try await session.barrier()
    for report in round.reports { surroundings.report(report) }
  }

  /// A decision of the scheduler that cannot be committed would be taken again for ever.
  func commitFailed(_ error: any Error) {
    switch (error as? PerdureError)?.code {
    case .closed?, .sessionFailed?: break
    default: session.fail(error)
    }
  }

  func invocationEnded(_ id: TaskID) async {
    state.withLock { state in
      state.invocations[id] = nil
      if state.forest.isLive(id) { state.candidates.insert(id) }
    }
    joins.release(id)
    await passHere()
  }
}

/// What a pass starts and reports once its commit is staged.
final class Reservations: Sendable {
  private struct State {
    var starts: [Invocation] = []
    var reports: [Report] = []
    var migrations: [Migration] = []
  }

  typealias Migration = (
    record: TaskRecord, found: (definition: TaskDefinition, extensionName: String?)
  )

  private let state = Mutex(State())

  var starts: [Invocation] { state.withLock { $0.starts } }
  var reports: [Report] { state.withLock { $0.reports } }

  func add(_ invocation: Invocation) { state.withLock { $0.starts.append(invocation) } }
  var migrations: [Migration] { state.withLock { $0.migrations } }

  func add(_ record: TaskRecord, _ found: (definition: TaskDefinition, extensionName: String?)) {
    state.withLock { $0.migrations.append((record, found)) }
  }

  func add(_ report: Report) { state.withLock { $0.reports.append(report) } }
}
