import PerdureModel
import Synchronization

/// Those who wait until some work has ended.
///
/// Each brings its own question, which is asked again whenever a task has ended.
final class IdleWaits: Sendable {
  /// Asked on staged state; does not wait.
  typealias Question = @Sendable () -> Bool

  private struct State {
    var waiters: [Int: (isOver: Question, continuation: CheckedContinuation<Void, any Error>)] = [:]
    var cancelled: Set<Int> = []
    var nextId = 1
    var end: PerdureError?
  }

  private let state = Mutex(State())

  /// Follows a staged commit.
  func observe(_ publication: Publication) {
    let hasEnded = publication.changes.contains { change in
      if case .task(let record) = change { return !record.isLive }
      return false
    }
    if hasEnded { check() }
  }

  private func check() {
    let waiters = state.withLock { $0.waiters.map { ($0.key, $0.value.isOver) } }
    for (id, isOver) in waiters where isOver() { take(id)?.resume() }
  }

  /// Returns once `isOver` is true of what is staged.
  ///
  /// Cancelling the calling task ends only this wait.
  func wait(until isOver: @escaping Question) async throws {
    let id = state.withLock { state in
      defer { state.nextId += 1 }
      return state.nextId
    }
    defer { state.withLock { _ = $0.cancelled.remove(id) } }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let refusal = state.withLock { state -> PerdureError? in
          if let end = state.end { return end }
          if state.cancelled.remove(id) != nil { return Self.cancelled }
          state.waiters[id] = (isOver, continuation)
          return nil
        }
        if let refusal {
          continuation.resume(throwing: refusal)
        } else if isOver() {
          // Asked after the registration, so that an end in between is not missed.
          take(id)?.resume()
        }
      }
    } onCancel: {
      if let continuation = take(id) {
        continuation.resume(throwing: Self.cancelled)
      } else {
        state.withLock { _ = $0.cancelled.insert(id) }
      }
    }
  }

  private static var cancelled: PerdureError { PerdureError(.cancelled, "the wait was cancelled") }

  private func take(_ id: Int) -> CheckedContinuation<Void, any Error>? {
    state.withLock { $0.waiters.removeValue(forKey: id)?.continuation }
  }

  /// Ends all waits, now and later.
  func close(_ error: PerdureError?) {
    let end = error ?? PerdureError(.closed, "the host is closed")
    let waiters = state.withLock { state in
      if state.end == nil { state.end = end }
      defer { state.waiters = [:] }
      return state.waiters.values.map { $0.continuation }
    }
    for waiter in waiters { waiter.resume(throwing: end) }
  }
}
