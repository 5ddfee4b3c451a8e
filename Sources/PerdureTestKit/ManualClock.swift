public import PerdureModel
import Synchronization

/// A clock that stands still until a test turns it.
public final class ManualClock: HostClock {
  private struct Sleeper {
    var id: Int
    var until: Int64
    var isInBackground: Bool
    var continuation: CheckedContinuation<Void, Never>
  }

  private struct State {
    var nanoseconds: Int64
    var sleepers: [Sleeper] = []
    var cancelled: Set<Int> = []
    var nextId = 1
    var observers: [CheckedContinuation<Void, Never>] = []
  }

  // A round time, so that transcripts of tests are easy to read.
  private static let start: Int64 = 1_800_000_000_000

  private let state = Mutex(State(nanoseconds: 0))

  /// Makes a clock at its start.
  public init() {}

  public func now() -> Int64 { Self.start + state.withLock { $0.nanoseconds } / 1_000_000 }

  public func monotonic() -> Int64 { state.withLock { $0.nanoseconds } + 1_000_000_000 }

  public func sleep(nanoseconds: Int64) async {
    await sleep(nanoseconds: nanoseconds, isInBackground: false)
  }

  public func sleepInBackground(nanoseconds: Int64) async -> Bool {
    await sleep(nanoseconds: nanoseconds, isInBackground: true)
    return true
  }

  private func sleep(nanoseconds: Int64, isInBackground: Bool) async {
    let id = state.withLock { state in
      defer { state.nextId += 1 }
      return state.nextId
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let (mayGo, observers) = state.withLock { state in
          let isOver = nanoseconds <= 0 || state.cancelled.remove(id) != nil
          if !isOver {
            let (until, overflow) = state.nanoseconds.addingReportingOverflow(nanoseconds)
            state.sleepers.append(
              Sleeper(
                id: id,
                until: overflow ? .max : until,
                isInBackground: isInBackground,
                continuation: continuation
              )
            )
          }
          defer { state.observers = [] }
          return (isOver, state.observers)
        }
        for observer in observers { observer.resume() }
        if mayGo { continuation.resume() }
      }
    } onCancel: {
      let continuation = state.withLock { state in
        guard let position = state.sleepers.firstIndex(where: { $0.id == id }) else {
          state.cancelled.insert(id)
          return nil as CheckedContinuation<Void, Never>?
        }
        return state.sleepers.remove(at: position).continuation
      }
      continuation?.resume()
    }
    state.withLock { _ = $0.cancelled.remove(id) }
  }

  /// Turns the clock by `duration` and wakes those whose time has come.
  public func advance(by duration: Duration) {
    advance(nanoseconds: Self.nanoseconds(duration))
  }

  private func advance(nanoseconds: Int64) {
    let due = state.withLock { state in
      state.nanoseconds += nanoseconds
      let now = state.nanoseconds
      defer { state.sleepers.removeAll { $0.until <= now } }
      return state.sleepers.filter { $0.until <= now }
    }
    for sleeper in due.sorted(by: { $0.until < $1.until }) { sleeper.continuation.resume() }
  }

  /// Returns when somebody sleeps for at least `duration`; then the clock can be turned.
  ///
  /// Whoever sleeps in the background is passed over.
  public func waitForSleeper(of duration: Duration = .zero) async {
    let least = Self.nanoseconds(duration)
    await waitForSleeper { !$0.isInBackground && $1 >= least }
  }

  /// Returns when somebody sleeps for exactly `duration` from now on.
  public func waitForSleeper(ofExactly duration: Duration) async {
    let exact = Self.nanoseconds(duration)
    await waitForSleeper { !$0.isInBackground && $1 == exact }
  }

  /// Returns when somebody sleeps in the background for at least `duration`.
  public func waitForBackgroundSleeper(of duration: Duration = .zero) async {
    let least = Self.nanoseconds(duration)
    await waitForSleeper { $0.isInBackground && $1 >= least }
  }

  /// How many sleep in the background.
  public var backgroundSleeperCount: Int {
    state.withLock { $0.sleepers.count(where: \.isInBackground) }
  }

  private static func nanoseconds(_ duration: Duration) -> Int64 {
    let (seconds, attoseconds) = duration.components
    return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
  }

  private func waitForSleeper(_ fits: (Sleeper, _ rest: Int64) -> Bool) async {
    func isThere(_ state: borrowing State) -> Bool {
      let now = state.nanoseconds
      return state.sleepers.contains { fits($0, $0.until - now) }
    }
    while true {
      await withCheckedContinuation { continuation in
        let found = state.withLock { state in
          let found = isThere(state)
          if !found { state.observers.append(continuation) }
          return found
        }
        if found { continuation.resume() }
      }
      if state.withLock({ isThere($0) }) { return }
    }
  }
}
