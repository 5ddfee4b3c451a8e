import PerdureModel
import PerdureValue
import Synchronization

/// The one timer of a scheduler: set for the task that sleeps the shortest.
struct WakeTimer {
  var due: Int64
  var task: Task<Void, Never>
}

/// When a store next needs a process.
package struct Wake: Sendable, Equatable {
  /// Whether something runs, or could run now.
  package var isActive: Bool
  /// When the first sleeping task is due that is not due yet, in milliseconds since 1970.
  package var at: Int64?

  package init(isActive: Bool, at: Int64?) {
    self.isActive = isActive
    self.at = at
  }
}

extension Scheduler {
  // Long sleeps are taken in steps, and the wall clock decides, so that a machine that was
  // suspended wakes its tasks in time.
  private static let longestStepMs: Int64 = 60_000

  /// Makes sure that the timer fires when the first sleeper is due, or tells the host that it has
  /// to.
  func armTimer() {
    if onWake != nil { return tellWake() }
    state.withLock { state in
      guard state.isEnabled, !state.isClosing, let due = state.sleepers.first?.key else { return }
      if let timer = state.timer {
        if timer.due <= due { return }
        timer.task.cancel()
      }
      state.timer = WakeTimer(due: due, task: Task.detached { [self] in await wake(at: due) })
    }
  }

  private func wake(at due: Int64) async {
    let clock = surroundings.clock
    while !Task.isCancelled {
      let now = clock.now()
      if due <= now { break }
      let (rest, overflow) = due.subtractingReportingOverflow(now)
      await clock.sleep(milliseconds: min(overflow ? .max : rest, Self.longestStepMs))
    }
    // A timer that was replaced leaves everything to its successor.
    if Task.isCancelled { return }
    state.withLock { if $0.timer?.due == due { $0.timer = nil } }
    schedulePass()
  }

  // MARK: Hosts with a timer of their own

  private func tellWake() {
    // Owned by nobody: it asks once and ends.
    Task.detached { [self] in
      guard let onWake, let wake = try? await wake() else { return }
      let isNews = state.withLock { state in
        if state.isClosing || state.lastWake == wake { return false }
        state.lastWake = wake
        return true
      }
      if isNews { onWake(wake) }
    }
  }

  /// Says whether something can run now, and when the first sleep ends that has not ended.
  package func wake() async throws -> Wake {
    try await session.line.hold {
      try await catchUp()
      let now = surroundings.clock.now()
      var wake = Wake(isActive: false, at: nextSleep(after: now))
      let (isBusy, candidates) = state.withLock { state in
        let due = state.sleepers.values(through: now).compactMap { TaskID($0) }
        return (
          !state.invocations.isEmpty || !state.work.isEmpty,
          state.candidates.union(due).subtracting(state.blocked.keys)
        )
      }
      wake.isActive = isBusy
      for id in candidates where !wake.isActive {
        guard let record = try await session.task(id), record.isLive else { continue }
        switch try await readiness(of: record) {
        case .ready: wake.isActive = true
        // Without code it ends as orphaned.
        case .blocked: wake.isActive = record.abortRequested && record.abortReason == nil
        case .running, .completing, .waiting, .sleeping: break
        }
      }
      return wake
    }
  }

  private func nextSleep(after now: Int64) -> Int64? {
    state.withLock { $0.sleepers.firstKey(after: now) }
  }
}
