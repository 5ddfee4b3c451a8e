import PerdureModel
import Synchronization

/// How long a call waits for one that was given up, which may never return.
final class LanePatience: Sendable {
  private struct State {
    var hasBegun = false
    var isOver = false
    var waiting: Task<Void, Never>?
  }

  private let state = Mutex(State())
  private let timers = CallTimers()

  deinit { timers.stop() }

  /// Whether it has waited long enough.
  var isOver: Bool { state.withLock { $0.isOver } }

  /// Begins to count; does nothing the second time.
  func begin(_ clock: any HostClock, _ limit: Duration) {
    let isFirst = state.withLock { state in
      defer { state.hasBegun = true }
      return !state.hasBegun
    }
    guard isFirst else { return }
    timers.start { [weak self] in
      await clock.sleep(nanoseconds: limit.nanoseconds)
      if !Task.isCancelled { self?.end() }
    }
  }

  private func end() {
    let waiting = state.withLock { state in
      state.isOver = true
      return state.waiting
    }
    waiting?.cancel()
  }

  /// Waits until `body` returns; cancels it when it has waited long enough, or is cancelled.
  func wait(_ body: @escaping @Sendable () async -> Void) async {
    let work = Task { await body() }
    let isOver = state.withLock { state in
      state.waiting = work
      return state.isOver
    }
    if isOver { work.cancel() }
    await withTaskCancellationHandler {
      await work.value
    } onCancel: {
      work.cancel()
    }
  }
}
