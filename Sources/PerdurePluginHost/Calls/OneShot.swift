internal import PerdureModel
import Synchronization

/// A value that comes once, from anywhere, to one waiter.
final class OneShot<Value: Sendable>: Sendable {
  private let state = Mutex<(value: Value?, waiter: CheckedContinuation<Value, Never>?)>((nil, nil))

  /// Gives the value; later ones are dropped.
  func fire(_ value: Value) {
    let waiter = state.withLock { state in
      guard state.value == nil else { return nil as CheckedContinuation<Value, Never>? }
      state.value = value
      defer { state.waiter = nil }
      return state.waiter
    }
    waiter?.resume(returning: value)
  }

  /// Waits for the value.
  func value() async -> Value {
    await withCheckedContinuation { continuation in
      let value: Value? = state.withLock { state in
        if state.value == nil { state.waiter = continuation }
        return state.value
      }
      if let value { continuation.resume(returning: value) }
    }
  }

  /// Waits for the value, or takes `fallback` after this time on `clock`.
  func value(
    within nanoseconds: Int64,
    on clock: any HostClock,
    else fallback: Value
  ) async -> Value {
    // Ends with this function: it is cancelled when the value is there.
    let timer = Task {
      await clock.sleep(nanoseconds: nanoseconds)
      if !Task.isCancelled { self.fire(fallback) }
    }
    defer { timer.cancel() }
    return await value()
  }
}
