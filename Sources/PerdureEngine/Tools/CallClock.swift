package import PerdureModel
import Synchronization

/// The deadline of one call, which counts only the time that the tool itself takes.
package final class CallClock: Sendable {
  private struct State {
    var spent: Int64 = 0
    /// When it last began to count; `nil` while it stands still.
    var countsSince: Int64?
    var pauses = 0
    var isOver = false
    /// Takes back the alarm that is set.
    var silence: (@Sendable () -> Void)?
    /// Tells that alarm from those before it.
    var alarms = 0
  }

  private let clock: any HostClock
  private let budget: Int64
  private let atEnd: @Sendable () async -> Void
  private let state = Mutex(State())

  /// Makes a deadline of `budget` nanoseconds; `atEnd` runs when they are spent.
  package init(_ clock: any HostClock, budget: Int64, atEnd: @escaping @Sendable () async -> Void) {
    self.clock = clock
    self.budget = budget
    self.atEnd = atEnd
  }

  /// Begins to count.
  package func start() { state.withLock { count(&$0) } }

  /// Lets the clock stand still while `body` waits for the host's work and not for the tool's.
  package func standingStill<Result>(_ body: () async throws -> Result) async rethrows -> Result {
    pause()
    defer { resume() }
    return try await body()
  }

  func pause() {
    state.withLock { state in
      state.pauses += 1
      if state.pauses == 1 { halt(&state) }
    }
  }

  func resume() {
    state.withLock { state in
      state.pauses -= 1
      if state.pauses == 0 { count(&state) }
    }
  }

  /// Ends it; `atEnd` does not run any more.
  package func stop() {
    state.withLock { state in
      halt(&state)
      state.isOver = true
    }
  }

  private func halt(_ state: inout State) {
    guard !state.isOver else { return }
    state.silence?()
    state.silence = nil
    if let since = state.countsSince { state.spent += max(0, clock.monotonic() - since) }
    state.countsSince = nil
  }

  private func count(_ state: inout State) {
    guard !state.isOver, state.countsSince == nil else { return }
    state.countsSince = clock.monotonic()
    let rest = max(0, budget - state.spent)
    state.alarms += 1
    state.silence = clock.alarm(nanoseconds: rest) { [self, number = state.alarms] in
      ring(number)
    }
  }

  private func ring(_ alarm: Int) {
    let isOver = state.withLock { state in
      guard !state.isOver, state.countsSince != nil, state.alarms == alarm else { return false }
      state.isOver = true
      state.silence = nil
      return true
    }
    // Owned by nobody: it runs once and ends.
    if isOver { Task.detached { [self] in await atEnd() } }
  }
}
