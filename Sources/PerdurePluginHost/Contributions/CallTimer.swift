import PerdureModel
import Synchronization

/// How long a call may take, in nanoseconds.
struct CallTimes: Sendable {
  /// The plugin's own time.
  var deadline: Int64
  /// All of it, waits for the host included.
  var whole: Int64
  /// How long a cancelled call may take to answer.
  var grace: Int64

  /// Takes the default of a call that no manifest describes.
  init(deadlineMs: Int, _ execution: Manifest.Execution) {
    deadline = Int64(deadlineMs) * 1_000_000
    whole = deadline
    grace = Int64(execution.graceMs) * 1_000_000
  }

  /// Takes what the manifest says, and else the defaults, in milliseconds.
  init(
    _ options: CallOptions,
    _ execution: Manifest.Execution,
    deadlineMs: Int,
    wholeMs: Int
  ) {
    let deadline = options.deadlineMs ?? execution.deadlineMs ?? deadlineMs
    self.deadline = Int64(deadline) * 1_000_000
    whole = Int64(options.wallMs ?? max(wholeMs, deadline)) * 1_000_000
    grace = Int64(options.graceMs ?? execution.graceMs) * 1_000_000
  }
}

/// Watches the time of one call: cancels it at its deadline and gives it up after its grace.
final class CallTimer: Sendable {
  private struct State {
    var spent: Int64 = 0
    /// When it last began to count; `nil` while it stands still.
    var countsSince: Int64?
    var pauses = 0
    var isCancelled = false
    var isOver = false
    var timer: Task<Void, Never>?
    var whole: Task<Void, Never>?
  }

  private let clock: any HostClock
  private let times: CallTimes
  private let atDeadline: @Sendable () -> Void
  private let atGrace: @Sendable () -> Void
  private let state = Mutex(State())

  init(
    _ clock: any HostClock,
    _ times: CallTimes,
    atDeadline: @escaping @Sendable () -> Void,
    atGrace: @escaping @Sendable () -> Void
  ) {
    self.clock = clock
    self.times = times
    self.atDeadline = atDeadline
    self.atGrace = atGrace
  }

  /// Begins to count.
  func start() { state.withLock { count(&$0) } }

  /// Stands still while the plugin waits for the host.
  func pause() {
    state.withLock { state in
      state.pauses += 1
      guard state.pauses == 1, !state.isOver, !state.isCancelled else { return }
      halt(&state)
      watchWhole(&state)
    }
  }

  /// Counts again.
  func resume() {
    state.withLock { state in
      state.pauses -= 1
      if state.pauses == 0, !state.isOver, !state.isCancelled { count(&state) }
    }
  }

  /// Lets the grace begin, because the call was cancelled for another reason.
  func cancelled() {
    state.withLock { state in
      guard !state.isCancelled, !state.isOver else { return }
      beginGrace(&state)
    }
  }

  /// Ends it; nothing happens any more.
  func stop() {
    state.withLock { state in
      state.isOver = true
      state.timer?.cancel()
      state.whole?.cancel()
      state.timer = nil
      state.whole = nil
    }
  }

  private func halt(_ state: inout State) {
    state.timer?.cancel()
    state.timer = nil
    if let since = state.countsSince { state.spent += max(0, clock.monotonic() - since) }
    state.countsSince = nil
  }

  private func count(_ state: inout State) {
    guard !state.isOver, state.countsSince == nil else { return }
    state.countsSince = clock.monotonic()
    let rest = max(0, min(times.deadline, times.whole) - state.spent)
    // Ends with the call, which stops this timer.
    state.timer = Task.detached { [self] in
      await clock.sleep(nanoseconds: rest)
      if !Task.isCancelled { end(counting: true) }
    }
  }

  /// Watches all of the time, which only matters once the call has waited for the host.
  private func watchWhole(_ state: inout State) {
    guard state.whole == nil else { return }
    let rest = max(0, times.whole - state.spent)
    state.whole = Task.detached { [self] in
      await clock.sleep(nanoseconds: rest)
      if !Task.isCancelled { end(counting: false) }
    }
  }

  private func end(counting: Bool) {
    let isEnd = state.withLock { state in
      guard !state.isOver, !state.isCancelled, !counting || state.countsSince != nil else {
        return false
      }
      beginGrace(&state)
      return true
    }
    if isEnd { atDeadline() }
  }

  private var isWatching: Bool { state.withLock { !$0.isOver } }

  private func beginGrace(_ state: inout State) {
    state.isCancelled = true
    state.timer?.cancel()
    state.whole?.cancel()
    state.whole = nil
    state.timer = Task.detached { [self] in
      await clock.sleep(nanoseconds: times.grace)
      if !Task.isCancelled, isWatching { atGrace() }
    }
  }
}
