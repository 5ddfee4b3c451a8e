import PerdureModel
import Synchronization

/// Commits something that changes often, no more often than it should.
///
/// One commit is under way at a time; changes meanwhile are taken together by the next one.
final class Throttle: Sendable {
  /// Commits what has changed and returns how many milliseconds the next commit should wait.
  typealias Commit = @Sendable () async -> Int64

  private struct State {
    var isDirty = false
    var isStopped = false
    var loop: Task<Void, Never>?
  }

  private let clock: any HostClock
  /// How long the first change after a pause waits.
  private let firstDelayMs: Int64
  private let commit: Commit
  private let state = Mutex(State())

  init(clock: any HostClock, firstDelayMs: Int64, commit: @escaping Commit) {
    self.clock = clock
    self.firstDelayMs = firstDelayMs
    self.commit = commit
  }

  /// Says that something has changed.
  func changed() {
    state.withLock { state in
      guard !state.isStopped else { return }
      state.isDirty = true
      // Owned by this object: `stop` cancels it and waits for it.
      if state.loop == nil { state.loop = Task.detached { [self] in await run() } }
    }
  }

  private func run() async {
    var delay = firstDelayMs
    while true {
      if delay > 0 { await clock.sleep(milliseconds: delay) }
      let goesOn = state.withLock { state in
        let goesOn = state.isDirty && !state.isStopped
        state.isDirty = false
        if !goesOn { state.loop = nil }
        return goesOn
      }
      guard goesOn else { return }
      delay = await commit()
    }
  }

  /// Ends the commits; returns when none is under way.
  func stop() async {
    let loop = state.withLock { state in
      state.isStopped = true
      return state.loop
    }
    loop?.cancel()
    await loop?.value
  }
}
