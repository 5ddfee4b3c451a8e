import PerdureModel
import Synchronization

/// The one timer of a scheduler: set for the task that sleeps the shortest.
struct WakeTimer {
  var due: Int64
  var task: Task<Void, Never>
}

extension Scheduler {
  // Long sleeps are taken in steps, and the wall clock decides, so that a machine that was
  // suspended wakes its tasks in time.
  private static let longestStepMs: Int64 = 60_000

  /// Makes sure that the timer fires when the first sleeper is due.
  func armTimer() {
    state.withLock { state in
      guard state.isEnabled, !state.isClosing, let due = state.sleepers.values.min() else { return }
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
    let now = clock.now()
    state.withLock { state in
      if state.timer?.due == due { state.timer = nil }
      // One that cannot run although it is due would wake this timer again at once.
      for (id, until) in state.sleepers where until <= now {
        state.sleepers[id] = nil
        state.candidates.insert(id)
      }
    }
    schedulePass()
    armTimer()
  }
}
