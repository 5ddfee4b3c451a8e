import Perdure
import PerdureModel
import Synchronization

/// Collects what a watch reports, and waits for it.
final class ChangeLog: Sendable {
  private struct State {
    var changes: [FileChange] = []
    var waiting: [(isMet: @Sendable ([FileChange]) -> Bool, waiter: Waiter)] = []
  }

  /// One who waits, whom the first of news and time wakes.
  private final class Waiter: Sendable {
    private let continuation: Mutex<CheckedContinuation<Bool, Never>?>

    init(_ continuation: CheckedContinuation<Bool, Never>) {
      self.continuation = Mutex(continuation)
    }

    func wake(_ isMet: Bool) {
      let continuation = continuation.withLock { current in
        defer { current = nil }
        return current
      }
      continuation?.resume(returning: isMet)
    }
  }

  private let state = Mutex(State())

  func add(_ change: FileChange) {
    let met = state.withLock { state -> [Waiter] in
      state.changes.append(change)
      let changes = state.changes
      let met = state.waiting.filter { $0.isMet(changes) }.map { $0.waiter }
      state.waiting.removeAll { $0.isMet(changes) }
      return met
    }
    for waiter in met { waiter.wake(true) }
  }

  /// All that was reported.
  var paths: Set<String> {
    state.withLock { state in
      state.changes.reduce(into: []) { paths, change in
        if case .paths(let more) = change { paths.formUnion(more) }
      }
    }
  }

  /// Forgets everything; what is waited for is to come then.
  func clear() { state.withLock { $0.changes = [] } }

  /// Throws unless within three seconds a change is reported that covers `path`.
  func wait(for path: String, _ what: String) async throws {
    let isMet: @Sendable ([FileChange]) -> Bool = { changes in
      changes.contains { change in
        switch change {
        case .overflow: true
        case .failed: false
        case .paths(let paths): paths.contains { path == $0 || path.hasPrefix($0 + "/") }
        }
      }
    }
    // Only so that a failure is told at all; slow machines have their time.
    let seconds = 60
    let isSeen = await withCheckedContinuation { continuation in
      let waiter = Waiter(continuation)
      let isMetNow = state.withLock { state in
        if isMet(state.changes) { return true }
        state.waiting.append((isMet, waiter))
        return false
      }
      if isMetNow { return waiter.wake(true) }
      _ = SystemClock().alarm(nanoseconds: Int64(seconds) * 1_000_000_000) { waiter.wake(false) }
    }
    guard isSeen else {
      throw ConformanceFailure(
        "\(what): no report of '\(path)' within \(seconds) s, only \(paths.sorted())"
      )
    }
  }
}
