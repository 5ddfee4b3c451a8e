import PerdureModel
import Synchronization

/// A clock that stands still until a test turns it.
final class TurnedClock: HostClock {
  private struct State {
    var elapsed: Int64 = 0
    var next = 0
    var sleepers: [Int: (until: Int64, wake: CheckedContinuation<Void, Never>)] = [:]
  }

  private final class Flag: Sendable {
    let isSet = Atomic(false)
  }

  private let state = Mutex(State())

  /// 30 November 2026, 00:00 UTC.
  static let start: Int64 = 1_795_996_800_000

  func now() -> Int64 { Self.start + monotonic() / 1_000_000 }

  func monotonic() -> Int64 { state.withLock { $0.elapsed } }

  /// Whether somebody sleeps.
  var isAwaited: Bool { state.withLock { !$0.sleepers.isEmpty } }

  func sleep(nanoseconds: Int64) async {
    let id = state.withLock { state in
      state.next += 1
      return state.next
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isOver = state.withLock { state in
          let (until, overflow) = state.elapsed.addingReportingOverflow(nanoseconds)
          if nanoseconds <= 0 || Task.isCancelled { return true }
          state.sleepers[id] = (overflow ? .max : until, continuation)
          return false
        }
        if isOver { continuation.resume() }
      }
    } onCancel: {
      state.withLock { $0.sleepers.removeValue(forKey: id) }?.wake.resume()
    }
  }

  /// Moves the time on and wakes who slept until then.
  func turn(milliseconds: Int64) {
    let woken = state.withLock { state in
      state.elapsed += milliseconds * 1_000_000
      let due = state.sleepers.filter { $0.value.until <= state.elapsed }
      for id in due.keys { state.sleepers[id] = nil }
      return due.values.map(\.wake)
    }
    for sleeper in woken { sleeper.resume() }
  }

  /// Turns the clock in steps until `operation` returns.
  func turning<Result: Sendable>(
    by milliseconds: Int64,
    _ operation: @escaping @Sendable () async -> Result
  ) async -> Result {
    let flag = Flag()
    return await withTaskGroup(of: Result?.self) { group in
      group.addTask {
        let result = await operation()
        flag.isSet.store(true, ordering: .sequentiallyConsistent)
        return result
      }
      group.addTask {
        while !flag.isSet.load(ordering: .sequentiallyConsistent) {
          if self.isAwaited { self.turn(milliseconds: milliseconds) }
          await Task.yield()
        }
        return nil
      }
      var result: Result?
      for await value in group { result = value ?? result }
      guard let result else { preconditionFailure("the operation gave no result") }
      return result
    }
  }
}
