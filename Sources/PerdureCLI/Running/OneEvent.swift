import Synchronization

/// Something that happens once; the first one who says what it was decides.
final class OneEvent<Value: Sendable>: Sendable {
  private enum State {
    case open([CheckedContinuation<Value, Never>])
    case fired(Value)
  }

  private let state = Mutex(State.open([]))

  /// Says what it was.
  func fire(_ value: Value) {
    let waiters = state.withLock { state -> [CheckedContinuation<Value, Never>] in
      guard case .open(let waiters) = state else { return [] }
      state = .fired(value)
      return waiters
    }
    for waiter in waiters { waiter.resume(returning: value) }
  }

  /// Returns what it was, once it happened.
  var value: Value {
    get async {
      await withCheckedContinuation { continuation in
        let fired = state.withLock { state -> Value? in
          switch state {
          case .open(let waiters):
            state = .open(waiters + [continuation])
            return nil
          case .fired(let value): return value
          }
        }
        if let fired { continuation.resume(returning: fired) }
      }
    }
  }
}

/// Something that is true from some moment on.
final class Flag: Sendable {
  private let value = Mutex(false)

  var isSet: Bool { value.withLock { $0 } }

  /// Makes it true; `false` if it was.
  @discardableResult
  func set() -> Bool {
    value.withLock { value in
      defer { value = true }
      return !value
    }
  }
}
