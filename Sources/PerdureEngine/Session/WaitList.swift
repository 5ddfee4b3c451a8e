import PerdureModel
import Synchronization

/// Those who wait for a submission to be settled.
///
/// A waiter is told when the commit that settles it is on disk, and asks for that flush.
final class WaitList: Sendable {
  private struct State {
    var waiters: [SubmissionID: [(id: Int, continuation: CheckedContinuation<Void, any Error>)]] =
      [:]
    var nextId = 1
    var cancelled: Set<Int> = []
    var end: PerdureError?
  }

  private let state = Mutex(State())

  private static func settled(_ publication: Publication) -> [SubmissionID] {
    publication.changes.compactMap { change in
      if case .submission(let record) = change, record.isSettled { record.id } else { nil }
    }
  }

  /// Whether somebody waits for something that this commit settles.
  func wants(_ publication: Publication) -> Bool {
    let settled = Self.settled(publication)
    guard !settled.isEmpty else { return false }
    return state.withLock { state in settled.contains { state.waiters[$0] != nil } }
  }

  /// Wakes those who wait for what this flushed commit settled.
  func release(_ publication: Publication) {
    for target in Self.settled(publication) {
      let waiters = state.withLock { $0.waiters.removeValue(forKey: target) ?? [] }
      for waiter in waiters { waiter.continuation.resume() }
    }
  }

  /// Returns when `target` is settled on disk.
  ///
  /// `isSettled` is asked once after registration, so that a settlement in between is not missed.
  /// Cancelling the calling task ends only this wait.
  func wait(
    for target: SubmissionID,
    isSettled: @escaping @Sendable () async throws -> Bool
  ) async throws {
    let id = state.withLock { state in
      defer { state.nextId += 1 }
      return state.nextId
    }
    // The handler has ended when this scope does, so nothing of a wait is left behind.
    defer { state.withLock { _ = $0.cancelled.remove(id) } }
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
            if try await isSettled() { take(id, target)?.resume() }
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
  }

  private func take(_ id: Int, _ target: SubmissionID) -> CheckedContinuation<Void, any Error>? {
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
      if state.end == nil { state.end = end }
      return state.waiters.values.flatMap { $0 }
    }
    for waiter in waiters { waiter.continuation.resume(throwing: end) }
  }
}
