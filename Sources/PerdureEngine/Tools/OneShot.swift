import Synchronization

/// A value that is given once; later ones are refused.
final class OneShot<Value: Sendable>: Sendable {
  private enum State {
    case empty
    case awaited(CheckedContinuation<Value, Never>)
    case filled(Value)
    case taken
  }

  private let state = Mutex(State.empty)

  /// Gives the value; returns whether it was the first.
  @discardableResult
  func fill(_ value: Value) -> Bool {
    let (isFirst, waiting) = state.withLock { state -> (Bool, CheckedContinuation<Value, Never>?) in
      switch state {
      case .empty:
        state = .filled(value)
        return (true, nil)
      case .awaited(let continuation):
        state = .taken
        return (true, continuation)
      case .filled, .taken: return (false, nil)
      }
    }
    waiting?.resume(returning: value)
    return isFirst
  }

  /// Returns the value; called once.
  func value() async -> Value {
    await withCheckedContinuation { continuation in
      let given = state.withLock { state -> Value? in
        if case .filled(let value) = state {
          state = .taken
          return value
        }
        state = .awaited(continuation)
        return nil
      }
      if let given { continuation.resume(returning: given) }
    }
  }
}
