import PerdureModel
import PerdureValue
import Synchronization

/// How the scheduler comes to rest.
extension Scheduler {
  /// How many tasks are remembered for whatever reason; none once all have ended.
  package var heldTaskCount: Int {
    state.withLock { state in
      state.candidates.count + state.invocations.count + state.forest.size + state.awaited.count
        + state.sleepers.count + state.blocked.count + state.cancelling.count
        + state.failedMigrations.count + state.abandoned.count + state.work.failFast.count
        + state.work.finals.count
    }
  }

  /// Returns when nothing runs, nothing can run now, and nothing sleeps but until a person answers.
  package func waitUntilQuiet() async {
    await withCheckedContinuation { continuation in
      state.withLock { $0.quietWaiters.append(continuation) }
      resolveQuiet()
    }
  }

  func resolveQuiet() {
    let waiters = state.withLock { state -> [CheckedContinuation<Void, Never>] in
      let sleeps = state.sleepers.count > state.questions.count
      let mayStart = state.isEnabled && (!state.candidates.isEmpty || sleeps)
      let mayChange = state.refusal == nil && (state.hasNews || !state.work.isEmpty)
      let isAtRest = state.invocations.isEmpty && state.migrating.isEmpty && !state.isPassing
      let isQuiet = isAtRest && !mayStart && !mayChange
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
    joins.close(error)
    resolveQuiet()
  }

  /// Signals what runs, before anything is refused to it: what it makes of a refusal does not count.
  @discardableResult func announceClosing() -> [Invocation] {
    let invocations = state.withLock { state in
      state.isClosing = true
      state.timer?.task.cancel()
      state.timer = nil
      return Array(state.invocations.values)
    }
    for invocation in invocations { invocation.signal.cancel(.closing) }
    return invocations
  }

  /// Signals what runs, waits for it to end, and leaves it pending for the next opening.
  func close() async {
    let invocations = announceClosing()
    for invocation in invocations { await invocation.join() }
    joins.close(nil)
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
