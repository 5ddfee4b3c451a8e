import PerdureModel
import Synchronization

/// Those who wait for a submission or a task to end.
///
/// A waiter is told when the commit that ends it is on disk, and asks for that flush.
final class WaitList: Sendable {
  /// What is waited for.
  enum Target: Hashable {
    case submission(SubmissionID)
    case task(TaskID)
  }

  private struct State {
    var waiters: [Target: [(id: Int, continuation: CheckedContinuation<Void, any Error>)]] = [:]
    var nextId = 1
    var cancelled: Set<Int> = []
    var end: PerdureError?
  }

  private let state = Mutex(State())

  private static func ended(_ publication: Publication) -> [Target] {
    publication.changes.compactMap { change in
      switch change {
      case .submission(let record) where record.isSettled: .submission(record.id)
      case .task(let record) where !record.isLive: .task(record.id)
      default: nil
      }
    }
  }

  /// Whether somebody waits for something that this commit ends.
  func wants(_ publication: Publication) -> Bool {
    let ended = Self.ended(publication)
    guard !ended.isEmpty else { return false }
    return state.withLock { state in ended.contains { state.waiters[$0] != nil } }
  }

  /// Wakes those who wait for what this flushed commit ended.
  func release(_ publication: Publication) {
    for target in Self.ended(publication) {
      let waiters = state.withLock { $0.waiters.removeValue(forKey: target) ?? [] }
      for waiter in waiters { waiter.continuation.resume() }
    }
  }

  /// Returns when `target` has ended on disk; `hasEnded` is asked once after registration, so that
  /// an end in between is not missed.
  ///
  /// Cancelling the calling task ends only this wait.
  func wait(
    for target: Target,
    hasEnded: @escaping @Sendable () async throws -> Bool
  ) async throws {
    let id = state.withLock { state in
      defer { state.nextId += 1 }
      return state.nextId
    }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let refusal = state.withLock { state -> PerdureError? in
          if let end = state.end { return end }
          if state.cancelled.remove(id) != nil {
            return PerdureError(.cancelled, "the wait was cancelled")
          }
          state.waiters[target, default: []].append((id, continuation))
          return nil
        }
        if let refusal {
          continuation.resume(throwing: refusal)
          return
        }
        // Asked by a task of its own, because a continuation cannot be awaited here.
        Task.detached { [self] in
          do {
            if try await hasEnded() { take(id, target)?.resume() }
          } catch {
            take(id, target)?.resume(throwing: error)
          }
        }
      }
    } onCancel: {
      if let continuation = take(id, target) {
        continuation.resume(throwing: PerdureError(.cancelled, "the wait was cancelled"))
      } else {
        state.withLock { _ = $0.cancelled.insert(id) }
      }
    }
    state.withLock { _ = $0.cancelled.remove(id) }
  }

  private func take(_ id: Int, _ target: Target) -> CheckedContinuation<Void, any Error>? {
    state.withLock { state in
      guard let position = state.waiters[target]?.firstIndex(where: { $0.id == id }) else {
        return nil
      }
      let waiter = state.waiters[target]?.remove(at: position)
      if state.waiters[target]?.isEmpty == true { state.waiters[target] = nil }
      return waiter?.continuation
    }
  }

  func close(_ error: PerdureError?) {
    let end = error ?? PerdureError(.closed, "the session is closed")
    let waiters = state.withLock { state in
      defer { state.waiters = [:] }
      state.end = end
      return state.waiters.values.flatMap { $0 }
    }
    for waiter in waiters { waiter.continuation.resume(throwing: end) }
  }
}
