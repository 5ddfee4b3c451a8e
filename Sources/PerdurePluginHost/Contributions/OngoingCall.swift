import PerdureModel
import Synchronization

/// One call on its way through waits and attempts, so that it can be cancelled wherever it is.
final class OngoingCall: Sendable {
  private struct State {
    var call: PluginCall?
    var ticket: SlotTicket?
    var reason: CancelReason?
    var sleeper: Task<Void, Never>?
  }

  private let core: PluginCore
  private let state = Mutex(State())
  let timer: CallTimer

  init(_ core: PluginCore, _ clock: any HostClock, _ times: CallTimes) {
    self.core = core
    let link = Link()
    timer = CallTimer(
      clock,
      times,
      atDeadline: { link.call?.cancel(.deadline) },
      atGrace: { link.call?.abandon() }
    )
    link.call = self
  }

  /// Leads from the timer to the call that owns it.
  private final class Link: Sendable {
    private struct State {
      weak var call: OngoingCall?
    }

    private let state = Mutex(State())

    var call: OngoingCall? {
      get { state.withLock { $0.call } }
      set { state.withLock { $0.call = newValue } }
    }
  }

  /// Why it is cancelled, or `nil`.
  var reason: CancelReason? { state.withLock { $0.reason } }

  /// Notes what it waits for.
  func waits(for ticket: SlotTicket) {
    let isCancelled = state.withLock { state in
      state.ticket = ticket
      return state.reason != nil
    }
    if isCancelled { ticket.cancel() }
  }

  /// Notes an attempt; returns why it must not be made.
  func begin(_ call: PluginCall) -> CancelReason? {
    state.withLock { state in
      if state.reason == nil { state.call = call }
      return state.reason
    }
  }

  /// Cancels whatever it is doing; the first reason counts.
  func cancel(_ reason: CancelReason) {
    let (call, ticket, sleeper) = state.withLock { state in
      if state.reason == nil { state.reason = reason }
      return (state.call, state.ticket, state.sleeper)
    }
    ticket?.cancel()
    sleeper?.cancel()
    if let call { core.cancel(call, reason) }
  }

  /// Stops waiting for the plugin.
  func abandon() {
    if let call = state.withLock({ $0.call }) { core.abandon(call) }
  }

  /// Waits before the next attempt, no longer than until it is cancelled.
  func sleep(nanoseconds: Int64) async {
    let clock = core.environment.clock
    // Ends with this function.
    let sleeper = Task { await clock.sleep(nanoseconds: nanoseconds) }
    let isCancelled = state.withLock { state in
      state.sleeper = sleeper
      return state.reason != nil
    }
    if isCancelled { sleeper.cancel() }
    await sleeper.value
  }
}
