import PerdureModel
import Synchronization

/// Those who wait for something with a name: the settlement of a submission, the end of a task,
/// the idleness of a conversation.
final class WaitRoom<Key: Hashable & Sendable>: Sendable {
  private struct State {
    var waiters: [Key: [(id: Int, continuation: CheckedContinuation<Void, any Error>)]] = [:]
    var nextId = 1
    var cancelled: Set<Int> = []
    var end: PerdureError?
  }

  private let state = Mutex(State())

  /// What is waited for.
  var keys: [Key] { state.withLock { Array($0.waiters.keys) } }

  /// Whether somebody waits for one of these.
  func wants(_ keys: [Key]) -> Bool {
    !keys.isEmpty && state.withLock { state in keys.contains { state.waiters[$0] != nil } }
  }

  /// Lets those go on who wait for `key`.
  func release(_ key: Key) {
    let waiters = state.withLock { $0.waiters.removeValue(forKey: key) ?? [] }
    for waiter in waiters { waiter.continuation.resume() }
  }

  /// Returns when `key` is released.
  ///
  /// `isOver` is asked once after registration, so that a release in between is not missed.
  /// Cancelling the calling task ends only this wait.
  func wait(
    for key: Key,
    isOver: @escaping @Sendable () async throws -> Bool
  ) async throws {
    let id = state.withLock { state in
      defer { state.nextId += 1 }
      return state.nextId
    }
    defer { state.withLock { _ = $0.cancelled.remove(id) } }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        if let refusal = register(id, key, continuation) {
          continuation.resume(throwing: refusal)
          return
        }
        // Asked by a task of its own, because a continuation cannot be awaited here.
        Task.detached { [self] in
          do {
            if try await isOver() { take(id, key)?.resume() }
          } catch {
            take(id, key)?.resume(throwing: error)
          }
        }
      }
    } onCancel: {
      if let continuation = take(id, key) {
        continuation.resume(throwing: Self.cancelled)
      } else {
        state.withLock { _ = $0.cancelled.insert(id) }
      }
    }
  }

  private static var cancelled: PerdureError {
    PerdureError(.cancelled, "the wait was cancelled")
  }

  private func register(
    _ id: Int,
    _ key: Key,
    _ continuation: CheckedContinuation<Void, any Error>
  ) -> PerdureError? {
    state.withLock { state in
      if let end = state.end { return end }
      if state.cancelled.remove(id) != nil { return Self.cancelled }
      state.waiters[key, default: []].append((id, continuation))
      return nil
    }
  }

  private func take(_ id: Int, _ key: Key) -> CheckedContinuation<Void, any Error>? {
    state.withLock { state in
      guard let position = state.waiters[key]?.firstIndex(where: { $0.id == id }) else {
        return nil
      }
      let waiter = state.waiters[key]?.remove(at: position)
      if state.waiters[key]?.isEmpty == true { state.waiters[key] = nil }
      return waiter?.continuation
    }
  }

  /// Ends all waits and every later one.
  func close(_ error: PerdureError?) {
    let end = error ?? PerdureError(.closed, "the session is closed")
    let waiters = state.withLock { state in
      defer { state.waiters = [:] }
      if state.end == nil { state.end = end }
      return state.waiters.values.flatMap { $0 }
    }
    for waiter in waiters { waiter.continuation.resume(throwing: end) }
  }
}
