import PerdureModel
import Synchronization

/// How long something that nobody uses stays in memory.
struct Retention: Sendable {
  /// In nanoseconds; `nil` for ever.
  var span: Int64?

  init(milliseconds: Int64?) {
    span = milliseconds.map { value in
      let (nanoseconds, overflow) = value.multipliedReportingOverflow(by: 1_000_000)
      return overflow ? (value > 0 ? .max : 0) : max(0, nanoseconds)
    }
  }

  /// When what was used at `lastUse` is dropped, or `nil` for never.
  func end(of lastUse: Int64) -> Int64? { span.map { lastUse.addingSaturated($0) } }

  /// Drops are put off this long, so that one wake-up serves many of them.
  var grain: Int64 { min(1_000_000_000, (span ?? 0) / 10) }
}

/// Something that drops what has not been used for long.
protocol Retaining: Sendable {
  /// Drops what is over at `now`, of a clock that never goes back.
  func expire(at now: Int64)
  /// When the next drop is due, or `nil` if nothing will be dropped.
  var nextExpiry: Int64? { get }
}

/// The one background timer of a session, which wakes it only when there is something to drop.
final class RetentionTimer: Sendable {
  private struct State {
    var parts: [any Retaining] = []
    var task: Task<Void, Never>?
    /// When the next drop is due.
    var due: Int64?
    var isClosed = false
  }

  private let clock: any HostClock
  private let line: CommitLine
  private let state = Mutex(State())

  init(clock: any HostClock, line: CommitLine) {
    self.clock = clock
    self.line = line
  }

  deinit { state.withLock { $0.task }?.cancel() }

  func add(_ part: any Retaining) { state.withLock { $0.parts.append(part) } }

  /// Drops what is due; called on the line after each commit.
  func expireIfDue() {
    let (due, parts) = state.withLock { ($0.due, $0.parts) }
    if let due, due <= clock.monotonic() {
      for part in parts { part.expire(at: clock.monotonic()) }
      state.withLock { $0.due = nil }
    }
    arm()
  }

  /// Sets the timer for the next drop, unless it is set; called when there may be a first one.
  func arm() {
    let parts = state.withLock { $0.due == nil && !$0.isClosed ? $0.parts : [] }
    guard let due = parts.compactMap({ $0.nextExpiry }).min() else { return }
    let rest = max(0, due.addingSaturated(-clock.monotonic()))
    state.withLock { state in
      guard state.due == nil, !state.isClosed else { return }
      state.due = due
      // One that runs looks again when it fires; one that the host declined never does, and then
      // only commits drop something.
      guard state.task == nil else { return }
      // It holds the timer only while it works, so that a session that is dropped goes away.
      state.task = Task.detached { [weak self, clock] in
        guard await clock.sleepInBackground(nanoseconds: rest), !Task.isCancelled else { return }
        await self?.fire()
      }
    }
  }

  private func fire() async {
    try? await line.hold {
      let parts = state.withLock { state in
        state.task = nil
        state.due = nil
        return state.parts
      }
      for part in parts { part.expire(at: clock.monotonic()) }
      arm()
    }
  }

  func close() {
    let task = state.withLock { state in
      state.isClosed = true
      state.parts = []
      defer { state.task = nil }
      return state.task
    }
    task?.cancel()
  }
}
