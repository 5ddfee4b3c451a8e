import PerdureModel
import Synchronization

/// How a session ends.
extension Session {
  /// Ends the session with an error that leaves it unclear how to go on.
  ///
  /// Everything later throws `sessionFailed`; what was staged and not flushed is lost.
  func fail(_ error: any Error) { store.fail(error) }

  /// Reports the failure, tells everybody, and begins to release the store; called once.
  func failed(_ error: PerdureError) {
    let failure = StagedStore.failed(error)
    state.withLock { $0.failure = failure }
    report(Report(type: "session_failed", message: error.description, error: failure))
    end(failure)
    // Nobody has to close it: the next opening waits for the lock of the store.
    _ = sharedShutdown()
  }

  private func end(_ error: PerdureError?) {
    seal(error)
    state.withLock { $0.isClosing = true }
    publications.close()
    waits.close(error)
    taskWaits.close(error)
    ending.happen(error)
  }

  private func seal(_ error: PerdureError?) {
    state.withLock { $0.isSealed = true }
    sealing.happen(error)
  }

  /// Throws `nestedCommit` inside a commit.
  func requireOutside() throws { try line.requireOutside() }

  /// Refuses from now on what is asked for from outside; what runs inside may still commit.
  func seal() { seal(nil) }

  /// Refuses new work at once, lets admitted commits settle, flushes and releases the store.
  ///
  /// All calls share one shutdown, which goes on when a caller is cancelled; that caller is thrown
  /// `cancelled`. Throws `sessionFailed`, with the store released, if something staged could not be
  /// written.
  package func close() async throws {
    try requireOutside()
    seal()
    try await sharedShutdown().wait()
  }

  private func sharedShutdown() -> Task<Void, any Error> {
    shutdown.withLock { task in
      if let task { return task }
      state.withLock { $0.isClosing = true }
      // Awaited by every caller.
      let started = Task.detached { [self] in try await shutDown() }
      task = started
      return started
    }
  }

  private func shutDown() async throws {
    defer {
      documents.clear()
      // Whatever is staged may still be published; then nobody is told any more.
      end(nil)
      release.happen(ending.outcome ?? nil)
    }
    retention.close()
    try await line.hold {}
    try await store.close()
  }
}

/// A moment that comes once, with an error or without one.
final class Ending: Sendable {
  typealias Observer = @Sendable (PerdureError?) -> Void

  private struct State {
    var outcome: PerdureError??
    var observers: [(id: Int, call: Observer)] = []
    var nextId = 1
  }

  private let state = Mutex(State())

  /// What it came with, or `nil` as long as it has not.
  var outcome: PerdureError?? { state.withLock { $0.outcome } }

  /// Lets it come, unless it has.
  func happen(_ error: PerdureError?) {
    let observers = state.withLock { state in
      if state.outcome == nil { state.outcome = .some(error) }
      defer { state.observers = [] }
      return state.observers
    }
    for observer in observers { observer.call(error) }
  }

  /// Calls `observer` when it comes, or at once if it has.
  ///
  /// The returned closure takes the observer back and may be called more than once.
  @discardableResult
  func observe(_ observer: @escaping Observer) -> @Sendable () -> Void {
    let (id, outcome) = state.withLock { state in
      defer { state.nextId += 1 }
      if state.outcome == nil { state.observers.append((state.nextId, observer)) }
      return (state.nextId, state.outcome)
    }
    if let outcome { observer(outcome) }
    return { [weak self] in self?.state.withLock { $0.observers.removeAll { $0.id == id } } }
  }
}

extension Task<Void, any Error> {
  /// Returns when the task has ended; cancelling the calling task ends only the wait.
  func wait() async throws {
    let mailbox = Mailbox<Result<Void, any Error>>()
    Task<Void, Never>.detached {
      let result = await self.result
      mailbox.change { $0 = [result] }
    }
    guard let result = await mailbox.next() else {
      throw PerdureError(.cancelled, "the wait was cancelled")
    }
    try result.get()
  }
}
