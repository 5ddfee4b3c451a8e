import PerdureModel
import Synchronization

/// The one place at a time from which a Session is changed: a first-in, first-out lock.
///
/// It is no actor, because an actor lets other work in at every `await`, and a commit must keep
/// the line from its closure to the end of its adoption.
package final class CommitLine: Sendable {
  // Tasks started while the line is held inherit the marker, so the marker itself says whether
  // its holder still holds the line.
  private final class Holder: Sendable {
    let line: ObjectIdentifier
    /// The holder of another line around this one.
    let outer: Holder?
    let isActive = Atomic(true)

    init(line: ObjectIdentifier, outer: Holder?) {
      self.line = line
      self.outer = outer
    }

    func holds(_ line: ObjectIdentifier) -> Bool {
      if self.line == line, isActive.load(ordering: .acquiring) { return true }
      return outer?.holds(line) ?? false
    }

    var holdsAny: Bool { isActive.load(ordering: .acquiring) || outer?.holdsAny ?? false }
  }

  private struct State {
    var isHeld = false
    var waiting: [CheckedContinuation<Void, Never>] = []
    var firstWaiting = 0
  }

  @TaskLocal private static var innermost: Holder?

  private let state = Mutex(State())

  package init() {}

  /// Whether the calling task holds a line.
  static var isHeldByCaller: Bool { innermost?.holdsAny ?? false }

  /// How many wait for the line.
  package var waitingCount: Int { state.withLock { $0.waiting.count - $0.firstWaiting } }

  /// Runs `body` while nobody else holds the line and returns what it returns.
  ///
  /// Throws `nestedCommit` if the calling task holds the line already: waiting would never end.
  package func hold<Result>(_ body: () async throws -> Result) async throws -> Result {
    try requireOutside()
    let outer = Self.innermost
    if !take() { await waitInLine() }
    let holder = Holder(line: ObjectIdentifier(self), outer: outer)
    defer {
      holder.isActive.store(false, ordering: .releasing)
      release()
    }
    return try await Self.$innermost.withValue(holder) { try await body() }
  }

  /// Throws `nestedCommit` if the calling task holds the line.
  package func requireOutside() throws {
    if let innermost = Self.innermost, innermost.holds(ObjectIdentifier(self)) {
      throw PerdureError(
        .nestedCommit,
        "a commit was begun inside another commit of the same session",
        hint: "use the transaction that the closure was given"
      )
    }
  }

  /// Takes the line if it is free.
  private func take() -> Bool {
    state.withLock { state in
      defer { state.isHeld = true }
      return !state.isHeld
    }
  }

  private func waitInLine() async {
    await withCheckedContinuation { continuation in
      let mayGo = state.withLock { state in
        if state.isHeld {
          state.waiting.append(continuation)
          return false
        }
        state.isHeld = true
        return true
      }
      if mayGo { continuation.resume() }
    }
  }

  private func release() {
    let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
      guard state.firstWaiting < state.waiting.count else {
        state.isHeld = false
        state.waiting.removeAll(keepingCapacity: true)
        state.firstWaiting = 0
        return nil
      }
      let next = state.waiting[state.firstWaiting]
      state.firstWaiting += 1
      // The consumed front is dropped now and then, so that the queue stays as long as the wait.
      if state.firstWaiting > 64, state.firstWaiting * 2 > state.waiting.count {
        state.waiting.removeFirst(state.firstWaiting)
        state.firstWaiting = 0
      }
      return next
    }
    next?.resume()
  }
}
