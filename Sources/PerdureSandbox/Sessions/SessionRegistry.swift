import PerdureModel
import Synchronization

/// The sessions of an environment; they end with it.
final class SessionRegistry: Sendable {
  /// How sessions are run.
  struct Configuration: Sendable {
    /// Starts a command; may block.
    var start:
      @Sendable (ProcessLaunch, SessionOptions, _ seconds: Double?) throws(ExecutionError) ->
        SandboxedCommand
    /// Of those that run at once.
    var most: Int
    /// What each may use; one that asks for less time has less.
    var bounds = BackgroundSession.Bounds()
  }

  private struct State {
    var sessions: [BackgroundSession] = []
    var starting = 0
    var isClosed = false
  }

  private let configuration: Configuration
  private let state = Mutex(State())

  /// How many are remembered that ended.
  private static let mostEnded = 16

  init(_ configuration: Configuration) { self.configuration = configuration }

  deinit {
    for session in state.withLock({ $0.sessions }) { session.destroy() }
  }

  func session(_ id: String) -> BackgroundSession? {
    state.withLock { state in state.sessions.first { $0.id == id } }
  }

  /// Starts nothing from now on.
  func close() { state.withLock { $0.isClosed = true } }

  /// Ends all, and returns when they have.
  func end() async {
    let running = state.withLock { $0.sessions }
    for session in running { session.destroy() }
    for session in running { _ = await session.wait() }
  }

  /// Starts one.
  func start(
    _ launch: ProcessLaunch,
    _ options: SessionOptions
  ) async throws(ExecutionError) -> BackgroundSession {
    if Task.isCancelled {
      throw ExecutionError(.aborted, "the command was cancelled before it began")
    }
    try enter()
    defer { state.withLock { $0.starting -= 1 } }
    var bounds = configuration.bounds
    if let timeout = options.timeout { bounds.seconds = min(timeout, bounds.seconds ?? timeout) }
    let start = configuration.start
    let seconds = bounds.seconds
    let session = try await BackgroundSession.starting(
      options,
      bounds,
      register: { session in
        let isClosed = state.withLock { state in
          state.sessions.append(session)
          return state.isClosed
        }
        if isClosed { session.destroy() }
      },
      { () throws(ExecutionError) in try start(launch, options, seconds) }
    )
    if Task.isCancelled {
      session.destroy()
      throw ExecutionError(.aborted, "the command was cancelled as it began")
    }
    return session
  }

  /// Makes room for one more, or throws.
  private func enter() throws(ExecutionError) {
    if state.withLock({ $0.isClosed }) {
      throw ExecutionError(.spawnError, "the environment of the command is closed")
    }
    let most = configuration.most
    let hasRoom = state.withLock { state in
      var ended = state.sessions.count { $0.end != nil }
      state.sessions.removeAll { session in
        guard session.end != nil, ended > Self.mostEnded else { return false }
        ended -= 1
        return true
      }
      let running = state.sessions.count { $0.end == nil && $0.hasBegun }
      guard running + state.starting < most else { return false }
      state.starting += 1
      return true
    }
    guard hasRoom else {
      throw ExecutionError(
        .spawnError,
        "there are \(most) commands in the background already",
        hint: "stop one of them first",
        limit: "sessions"
      )
    }
  }
}
