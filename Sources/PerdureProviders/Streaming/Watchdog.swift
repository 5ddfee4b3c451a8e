import PerdureModel
import Synchronization

/// Ends a request whose provider keeps its reader waiting for too long.
///
/// Time counts only while somebody waits for the next event, so a reader that is busy with a
/// commit never makes a provider look stalled.
final class Watchdog: Sendable {
  /// What is being waited for.
  enum Phase: Sendable { case header, events }

  private struct State {
    var phase = Phase.header
    var waitingSince: Int64?
    var failure: ProviderFailure?
    var task: Task<Void, Never>?
    var isStopped = false
  }

  private let state = Mutex(State())
  private let clock: any HostClock
  private let limits: ProviderLimits
  private let started: Int64
  private let onExpiry: @Sendable () -> Void

  init(
    clock: any HostClock,
    limits: ProviderLimits,
    onExpiry: @escaping @Sendable () -> Void
  ) {
    self.clock = clock
    self.limits = limits
    self.onExpiry = onExpiry
    started = clock.monotonic()
  }

  /// Why the request was ended, if it was.
  var failure: ProviderFailure? { state.withLock { $0.failure } }

  /// Starts to watch this phase.
  func enter(_ phase: Phase) {
    let sleeper = state.withLock { state -> Task<Void, Never>? in
      guard !state.isStopped else { return nil }
      state.phase = phase
      if state.waitingSince != nil { state.waitingSince = clock.monotonic() }
      defer {
        // Owned by this object, which cancels it in `stop`; it holds the object no longer than one
        // step, so that dropping the request also ends the watch.
        state.task = Task { [weak self, clock] in
          while let nanoseconds = self?.step(), !Task.isCancelled {
            await clock.sleep(nanoseconds: nanoseconds)
          }
        }
      }
      return state.task
    }
    sleeper?.cancel()
  }

  /// Says that the reader waits from now on.
  func beginWait() {
    let now = clock.monotonic()
    state.withLock { $0.waitingSince = now }
  }

  /// Says that the reader got events.
  func endWait() {
    state.withLock { $0.waitingSince = nil }
  }

  /// Stops for good.
  func stop() {
    let task = state.withLock { state in
      state.isStopped = true
      defer { state.task = nil }
      return state.task
    }
    task?.cancel()
  }

  deinit { stop() }

  /// Returns how long to sleep before the next look, or `nil` if there is nothing to watch.
  private func step() -> Int64? {
    let now = clock.monotonic()
    let (delay, expired) = state.withLock { state -> (Int64?, Bool) in
      guard !state.isStopped else { return (nil, false) }
      let total = ProviderLimits.nanoseconds(limits.totalMs)
      let left = total - (now - started)
      let limitMs = state.phase == .header ? limits.firstByteMs : limits.betweenEventsMs
      let limit = ProviderLimits.nanoseconds(limitMs)
      let quiet = limit - (state.waitingSince.map { now - $0 } ?? 0)
      if quiet <= 0 || left <= 0 {
        state.failure = failure(isTotal: quiet > 0, phase: state.phase, limitMs: limitMs)
        state.isStopped = true
        return (nil, true)
      }
      return (min(quiet, left), false)
    }
    if expired { onExpiry() }
    return delay
  }

  private func failure(isTotal: Bool, phase: Phase, limitMs: Int64) -> ProviderFailure {
    if isTotal {
      let seconds = ProviderLimits.seconds(limits.totalMs)
      return ProviderFailure(.stop, "the answer was not complete after \(seconds)")
    }
    let seconds = ProviderLimits.seconds(limitMs)
    return ProviderFailure(
      .retry,
      phase == .header ? "no answer for \(seconds)" : "no event for \(seconds)"
    )
  }
}
