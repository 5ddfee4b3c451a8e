import PerdureModel
import Synchronization

/// What was begun for one run of code and must not outlive it: waits, watches, timers.
package final class InvocationScope: Sendable {
  private struct State {
    var nextId = 0
    var closers: [Int: @Sendable () -> Void] = [:]
    var isOver = false
  }

  private let state = Mutex(State())
  private let deadlines = Mutex<[ObjectIdentifier: CallClock]>([:])

  package init() {}

  /// Throws `invocationEnded` once the run is over.
  package func check() throws {
    if state.withLock({ $0.isOver }) { throw Self.over }
  }

  private static var over: PerdureError {
    PerdureError(.invocationEnded, "the run that this belongs to is over")
  }

  /// Calls `closer` when the run is over, or throws if it is; returns what takes that back.
  @discardableResult
  package func add(_ closer: @escaping @Sendable () -> Void) throws -> @Sendable () -> Void {
    let id = try state.withLock { state in
      if state.isOver { throw Self.over }
      state.nextId += 1
      state.closers[state.nextId] = closer
      return state.nextId
    }
    return { [weak self] in
      _ = self?.state.withLock { $0.closers.removeValue(forKey: id) }
    }
  }

  /// Runs `body`, which is cancelled when the run is over; then this throws `invocationEnded`.
  ///
  /// Cancelling the calling task cancels it, too.
  package func run<Result: Sendable>(
    _ body: @escaping @Sendable () async throws -> Result
  ) async throws -> Result {
    try check()
    // Not detached, so that a commit within a commit is still seen as such.
    let task = Task { try await body() }
    let forget: @Sendable () -> Void
    do {
      forget = try add { task.cancel() }
    } catch {
      task.cancel()
      throw error
    }
    defer { forget() }
    do {
      return try await withTaskCancellationHandler {
        try await task.value
      } onCancel: {
        task.cancel()
      }
    } catch {
      try check()
      throw error
    }
  }

  /// Takes a deadline that counts for the run.
  func adopt(_ clock: CallClock) { deadlines.withLock { $0[ObjectIdentifier(clock)] = clock } }

  /// Forgets a deadline.
  func drop(_ clock: CallClock) { deadlines.withLock { $0[ObjectIdentifier(clock)] = nil } }

  /// Runs what the host does for the run, whose deadlines stand still meanwhile.
  package func waitingForHost<Result>(
    _ body: () async throws -> Result
  ) async rethrows -> Result {
    let clocks = deadlines.withLock { Array($0.values) }
    for clock in clocks { clock.pause() }
    defer { for clock in clocks { clock.resume() } }
    return try await body()
  }

  /// Waits for work of the host: like `run`, but the deadline stands still.
  package func wait<Result: Sendable>(
    _ body: @escaping @Sendable () async throws -> Result
  ) async throws -> Result {
    try await waitingForHost { try await run(body) }
  }

  /// Ends everything that was begun; later calls do nothing.
  package func end() {
    let closers = state.withLock { state in
      state.isOver = true
      defer { state.closers = [:] }
      return state.closers.sorted { $0.key < $1.key }.map { $0.value }
    }
    for closer in closers { closer() }
  }
}
