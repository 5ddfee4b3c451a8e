package import PerdureModel
import PerdureValue
import Synchronization

extension Scheduler {
  /// A live task that does not go on, and why.
  package struct Obstacle: Sendable {
    package var task: TaskRecord
    /// `missing_task`, `task_too_old`, `migration_failed`, `restart_limit`.
    package var reason: String
  }

  /// The live tasks that are blocked or parked, by id.
  package var obstacles: [Obstacle] {
    let blocked = state.withLock { $0.blocked }
    return blocked.sorted { $0.key < $1.key }.compactMap { id, reason in
      session.liveTask(id).map { Obstacle(task: $0, reason: reason) }
    }
  }

  /// Why live tasks are blocked, as it stands.
  var blocked: [TaskID: String] { state.withLock { $0.blocked } }

  /// Tells `follower`, on the line, of every change of what is blocked.
  func followObstacles(_ follower: @escaping @Sendable (TaskID, String?) -> Void) {
    state.withLock { $0.obstacleFollower = follower }
  }

  /// How many tasks are remembered for whatever reason; none once all have ended.
  package var heldTaskCount: Int {
    state.withLock { state in
      state.candidates.count + state.invocations.count + state.owned.count
        + state.awaitedBy.count + state.sleepers.count + state.blocked.count
    }
  }

  /// Returns when nothing runs, nothing can run now, and nothing sleeps.
  package func waitUntilQuiet() async {
    await withCheckedContinuation { continuation in
      state.withLock { $0.quietWaiters.append(continuation) }
      resolveQuiet()
    }
  }

  func resolveQuiet() {
    let waiters = state.withLock { state -> [CheckedContinuation<Void, Never>] in
      let isQuiet =
        state.invocations.isEmpty && !state.isPassing
        && (!state.isEnabled || state.candidates.isEmpty && state.sleepers.isEmpty)
      guard isQuiet || state.isClosing else { return [] }
      defer { state.quietWaiters = [] }
      return state.quietWaiters
    }
    for waiter in waiters { waiter.resume() }
  }

  /// Ends what runs, because nothing of it can be kept any more.
  func sessionFailed(_ error: PerdureError) {
    let invocations = state.withLock { state in
      state.isClosing = true
      state.refusal = error
      state.timer?.task.cancel()
      state.timer = nil
      return Array(state.invocations.values)
    }
    for invocation in invocations { invocation.signal.cancel(.closing) }
    resolveQuiet()
  }

  /// Signals what runs, waits for it to end, and leaves it pending for the next opening.
  func close() async {
    let invocations = state.withLock { state in
      state.isClosing = true
      state.timer?.task.cancel()
      state.timer = nil
      return Array(state.invocations.values)
    }
    for invocation in invocations { invocation.signal.cancel(.closing) }
    for invocation in invocations { await invocation.join() }
    resolveQuiet()
    // Nothing ran here, so what the store says of the last process stays.
    if refusal != nil { return }
    // A clean stop is no crash: the restart count stays as it is. If this commit fails, the next
    // opening finds the tasks running and counts them, which is what a crash looks like.
    _ = try? await session.stage { tx in
      for record in session.liveTasks.values.sorted(by: { $0.id < $1.id }) {
        guard case .running(let checkpoint) = record.state else { continue }
        var stopped = record
        stopped.state = .pending(checkpoint: checkpoint)
        try await tx.replace(stopped)
      }
    }
  }
}
