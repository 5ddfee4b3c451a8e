import CPerdureLinux
import PerdureEngine
import Synchronization

/// All sleeps and alarms of the process, and the one thread that ends them.
///
/// A timer of the Swift runtime costs a task, and wakes the manager of libdispatch when it is set and
/// again when it is cancelled. Here that costs a lock, unless it is the first one that ends; and the
/// thread wakes when the first of them ends, for nothing else.
final class TimerThread: Sendable {
  /// The thread, or `nil` if the system has none to give.
  static let shared: TimerThread? =
    perdure_timers_start { TimerThread.timers.look() } == 0
    ? timers : nil
  private static let timers = TimerThread()

  private struct Alarm {
    var end: Int64
    var ring: @Sendable () -> Void
  }

  private struct State {
    var alarms: [Int64: Alarm] = [:]
    /// The alarms behind their ends, in microseconds.
    var order = OrderedPairs()
    /// Sleeps that were cancelled before they could begin.
    var cancelled: Set<Int64> = []
    var nextId: Int64 = 1
    /// When the thread looks again.
    var nextLook = Int64.max
  }

  private let state = Mutex(State())

  private init() {}

  /// Calls `ring` on this thread when `nanoseconds` are over; the returned closure takes that back.
  func alarm(
    nanoseconds: Int64,
    _ ring: @escaping @Sendable () -> Void
  ) -> @Sendable () -> Void {
    let id = newId()
    set(id, Alarm(end: Self.end(in: nanoseconds), ring: ring))
    return { [self] in _ = take(id) }
  }

  /// Returns when `nanoseconds` are over, or earlier when the calling task is cancelled.
  func sleep(nanoseconds: Int64) async {
    let end = Self.end(in: nanoseconds)
    let id = newId()
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        set(id, Alarm(end: end) { continuation.resume() })
      }
    } onCancel: {
      take(id, orRefuse: true)?.ring()
    }
    state.withLock { _ = $0.cancelled.remove(id) }
  }

  private static func end(in nanoseconds: Int64) -> Int64 {
    let (end, overflow) = perdure_monotonic_ns().addingReportingOverflow(max(0, nanoseconds))
    return overflow ? .max / 1_000 : end / 1_000 + 1
  }

  private func newId() -> Int64 {
    state.withLock { state in
      defer { state.nextId += 1 }
      return state.nextId
    }
  }

  private func set(_ id: Int64, _ alarm: Alarm) {
    let (isRefused, isFirst) = state.withLock { state in
      if state.cancelled.contains(id) { return (true, false) }
      state.alarms[id] = alarm
      state.order.insert(alarm.end, id)
      guard alarm.end < state.nextLook else { return (false, false) }
      state.nextLook = alarm.end
      return (false, true)
    }
    if isRefused { alarm.ring() }
    if isFirst { perdure_timers_wake() }
  }

  /// Takes an alarm back; with `orRefuse` one that is not set yet will not be set.
  private func take(_ id: Int64, orRefuse: Bool = false) -> Alarm? {
    state.withLock { state in
      guard let alarm = state.alarms.removeValue(forKey: id) else {
        if orRefuse { state.cancelled.insert(id) }
        return nil
      }
      state.order.remove(alarm.end, id)
      return alarm
    }
  }

  /// Rings what is due; returns when something is due next, in nanoseconds.
  private func look() -> Int64 {
    let (due, next) = state.withLock { state in
      let now = perdure_monotonic_ns() / 1_000
      var due: [Alarm] = []
      while let first = state.order.first, first.key <= now {
        state.order.remove(first.key, first.value)
        if let alarm = state.alarms.removeValue(forKey: first.value) { due.append(alarm) }
      }
      state.nextLook = state.order.first?.key ?? .max
      return (due, state.nextLook)
    }
    for alarm in due { alarm.ring() }
    let (nanoseconds, overflow) = next.multipliedReportingOverflow(by: 1_000)
    return overflow ? .max : nanoseconds
  }
}
