package import PerdureModel
import Synchronization

/// Why somebody who observes is told nothing more.
package enum WatchEnd: Sendable {
  /// The reader asked for it.
  case stopped
  /// The task that read was cancelled.
  case cancelled
  /// The document that was observed is gone.
  case retired
  /// The conversation that was observed is deleted.
  case deleted
  case sessionClosed
  case sessionFailed(PerdureError)
  /// The listener threw, or what it was told does not fit what it knows.
  case listenerFailed(PerdureError)

  /// The end that a session's own end brings.
  package init(_ error: PerdureError?) { self = error.map { .sessionFailed($0) } ?? .sessionClosed }

  /// What the reader of a sequence is thrown, or `nil` if the sequence just ends.
  package var error: PerdureError? {
    switch self {
    case .stopped, .cancelled, .retired, .deleted, .sessionClosed: nil
    case .sessionFailed(let error), .listenerFailed(let error): error
    }
  }
}

/// What waits for one reader, who is woken once per element and never makes the sender wait.
///
/// The sender decides what becomes of elements that wait too long: it may join or drop them.
package final class Mailbox<Element: Sendable>: Sendable {
  private struct State {
    var waiting: [Element] = []
    var reader: CheckedContinuation<Element?, Never>?
    var end: WatchEnd?
    var isDiscarded = false
    var endObservers: [CheckedContinuation<WatchEnd, Never>] = []
  }

  private let state = Mutex(State())

  /// Makes an empty mailbox.
  package init() {}

  /// How many elements may wait where the sender keeps to the common rule.
  package static var capacity: Int { 100 }

  /// Lets the sender change what waits; once the mailbox has ended it does nothing.
  package func change(_ body: (inout [Element]) -> Void) {
    let woken = state.withLock { state -> (CheckedContinuation<Element?, Never>, Element)? in
      guard state.end == nil else { return nil }
      body(&state.waiting)
      guard !state.waiting.isEmpty, let reader = state.reader else { return nil }
      state.reader = nil
      return (reader, state.waiting.removeFirst())
    }
    woken?.0.resume(returning: woken?.1)
  }

  /// Ends it; the first reason counts.
  ///
  /// What waits is still read, unless it is discarded.
  package func end(_ end: WatchEnd, discarding: Bool = false) {
    let (reader, observers, reason) = state.withLock { state in
      if discarding {
        state.waiting = []
        state.isDiscarded = true
      }
      let reason = state.end ?? end
      state.end = reason
      defer {
        state.reader = nil
        state.endObservers = []
      }
      return (state.reader, state.endObservers, reason)
    }
    reader?.resume(returning: nil)
    for observer in observers { observer.resume(returning: reason) }
  }

  /// Why it ended, or `nil` as long as it has not.
  package var ending: WatchEnd? { state.withLock { $0.end } }

  /// Whether it ended without a regard for what waited.
  package var isDiscarded: Bool { state.withLock { $0.isDiscarded } }

  /// Returns the reason once it has ended.
  package func waitForEnd() async -> WatchEnd {
    await withCheckedContinuation { continuation in
      let end = state.withLock { state in
        if state.end == nil { state.endObservers.append(continuation) }
        return state.end
      }
      if let end { continuation.resume(returning: end) }
    }
  }

  /// Returns the next element, waiting for it; `nil` after the last.
  ///
  /// Cancelling the calling task ends the mailbox. A second reader at the same time gets `nil`.
  package func next() async -> Element? {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let ready = state.withLock { state -> Element?? in
          if state.reader != nil { return .some(nil) }
          if !state.waiting.isEmpty { return state.waiting.removeFirst() }
          if state.end != nil { return .some(nil) }
          state.reader = continuation
          return nil
        }
        if let ready { continuation.resume(returning: ready) }
      }
    } onCancel: {
      end(.cancelled, discarding: true)
    }
  }
}
