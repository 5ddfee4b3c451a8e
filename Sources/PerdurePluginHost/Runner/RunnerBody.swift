internal import PerdureModel
import PerdureValue
import Synchronization

/// How often and how fast the process of a plugin is started again.
package enum RestartPace {
  /// Deaths that are too many within `window`.
  package static let deathLimit = 5
  /// Ten minutes, in nanoseconds.
  package static let window: Int64 = 600_000_000_000
  private static let first: Int64 = 100_000_000
  private static let longest: Int64 = 30_000_000_000

  /// Nanoseconds before the next start, after that many deaths.
  package static func pause(after deaths: Int) -> Int64 {
    min(first << min(max(0, deaths - 1), 20), longest)
  }
}

/// Keeps a process for a plugin: starts it, starts it again when it dies, and gives up on a plugin
/// whose process dies again and again.
final class RunnerBody: RemotePlugin {
  private enum Phase {
    /// Being activated; only calls of the plugin itself are made.
    case starting
    case up
    /// Waiting for the next start.
    case down
    /// Not started again, for this reason.
    case quarantined(String)
    case closed
  }

  private struct State {
    var phase = Phase.starting
    var connection: RunnerConnection?
    var hasDeactivate = false
    var deaths: [Int64] = []
    var restart: Task<Void, Never>?
    /// Told when a process that was started again is ready, or is not started any more.
    var starts = 0
  }

  private static let controlNanoseconds: Int64 = 10_000_000_000

  private let core: PluginCore
  private let launch: RunnerLaunch
  private let state = Mutex(State())
  /// Held while a change of the phase is told.
  private let order = Mutex(())
  /// Gives the plugin its settings after it was started again.
  private let prepare = Mutex<(@Sendable () async throws -> Void)?>(nil)

  init(core: PluginCore, launch: RunnerLaunch) {
    self.core = core
    self.launch = launch
  }

  /// Keeps what is to be done each time before calls are made, the first time excepted.
  func onRestart(_ body: @escaping @Sendable () async throws -> Void) {
    prepare.withLock { $0 = body }
  }

  var hasDeactivate: Bool { state.withLock { $0.hasDeactivate && $0.connection != nil } }

  /// The id of the process, while there is one.
  var processID: Int32? { state.withLock { $0.connection }?.processID }

  // MARK: Starting

  func activate() async -> Result<Void, PluginRefusal>? {
    let result = await open()
    guard case .success? = result else { return result }
    let isUp = become { state in
      guard case .starting = state.phase, state.connection != nil else { return nil }
      state.phase = .up
      return .up
    }
    return isUp ? result : nil
  }

  private func open() async -> Result<Void, PluginRefusal>? {
    let connection = RunnerConnection(core: core, launch: launch) { [weak self] connection, death in
      self?.died(connection, death)
    }
    let isWanted = state.withLock { state in
      if case .closed = state.phase { return false }
      state.phase = .starting
      state.connection = connection
      return true
    }
    guard isWanted else { return .failure(PluginRefusal(code: 0, message: "it is being closed")) }
    switch await connection.open(within: Self.controlNanoseconds) {
    case .success(let hasDeactivate):
      state.withLock { $0.hasDeactivate = hasDeactivate }
      return .success(())
    case .failure(let refusal): return .failure(refusal)
    case nil:
      connection.kill(RunnerDeath(reason: .hung, phrase: "did not become ready in time"))
      return nil
    }
  }

  /// Starts the plugin again, settings included.
  private func restart() async {
    guard case .success? = await open() else { return giveUpStart() }
    do {
      try await prepare.withLock { $0 }?()
    } catch {
      return giveUpStart()
    }
    become { state in
      guard case .starting = state.phase, state.connection != nil else { return nil }
      state.phase = .up
      state.starts += 1
      return .up
    }
  }

  /// Changes the phase and tells the core what that means for calls, both in the same order.
  @discardableResult
  private func become(_ change: (inout State) -> Availability?) -> Bool {
    order.withLock { _ in
      guard let next = state.withLock({ change(&$0) }) else { return false }
      core.become(next)
      return true
    }
  }

  /// A start that came to nothing counts as a death, which the end of the process tells of.
  private func giveUpStart() {
    let connection = state.withLock { $0.connection }
    connection?.kill(RunnerDeath(reason: .crashed, phrase: "could not be activated again"))
  }

  // MARK: Deaths

  private func died(_ connection: RunnerConnection, _ death: RunnerDeath) {
    let now = core.environment.clock.monotonic()
    enum Next {
      case nothing
      case restart(Int64)
      case giveUp(String)
    }
    var next = Next.nothing
    become { state in
      guard state.connection === connection else { return nil }
      state.connection = nil
      if case .closed = state.phase { return nil }
      state.deaths.removeAll { now - $0 > RestartPace.window }
      state.deaths.append(now)
      // The first start is the loader's affair.
      if case .starting = state.phase, state.deaths.count == 1, state.starts == 0,
        state.restart == nil
      {
        return nil
      }
      if state.deaths.count >= RestartPace.deathLimit {
        let reason = "its process died \(state.deaths.count) times within 10 minutes"
        state.phase = .quarantined(reason)
        next = .giveUp(reason)
        return .quarantined(reason)
      }
      state.phase = .down
      next = .restart(RestartPace.pause(after: state.deaths.count))
      return .away
    }
    if case .nothing = next { return }
    report("plugin_died", "the process of plugin \(core.id) \(death.phrase)")
    switch next {
    case .nothing: break
    case .giveUp(let reason):
      report("plugin_quarantined", "plugin \(core.id) is quarantined: \(reason)")
    case .restart(let pause): schedule(pause)
    }
  }

  private func schedule(_ pause: Int64) {
    // Ends with the plugin, whose `destroy` cancels it.
    let task = Task { [weak self, clock = core.environment.clock] in
      await clock.sleep(nanoseconds: pause)
      if !Task.isCancelled { await self?.restart() }
    }
    state.withLock { $0.restart = task }
  }

  private func report(_ type: String, _ message: String) {
    core.environment.report(Report(type: type, message: message, extensionName: core.id))
  }

  /// Lets a plugin that was given up be started again.
  func clearQuarantine() {
    let isQuarantined = become { state in
      guard case .quarantined = state.phase else { return nil }
      state.deaths = []
      state.phase = .down
      return .away
    }
    if isQuarantined { schedule(0) }
  }

  // MARK: Calls

  func start(
    _ call: PluginCall,
    target: ImmortalName,
    input: [UInt8],
    deadline: UInt64,
    left: @escaping @Sendable (_ nanoseconds: Int64) -> Void
  ) {
    enum Way {
      case open(RunnerConnection)
      case later
      case never(String)
    }
    let way = state.withLock { state -> Way in
      switch (state.phase, state.connection) {
      case (.up, let connection?): .open(connection)
      case (.starting, let connection?): call.kind == .plugin ? .open(connection) : .later
      case (.quarantined(let reason), _): .never("is quarantined: \(reason)")
      case (.closed, _): .never("is being closed")
      case (.up, nil), (.starting, nil), (.down, _): .later
      }
    }
    switch way {
    case .open(let connection):
      let isTaken = connection.start(
        call,
        target: target,
        input: input,
        deadline: deadline,
        left: left
      )
      guard !isTaken else { return }
      // It has just died; whoever calls asks again until the deadline.
      call.refused(BorderCode.busy.rawValue)
    case .later: call.refused(BorderCode.busy.rawValue)
    case .never(let why): core.settle(call, .failed(unavailable(call, why)))
    }
    left(0)
  }

  private func unavailable(_ call: PluginCall, _ why: String) -> PerdureError {
    // Nothing has happened: a task stays what it is until the plugin is back.
    PerdureError(
      call.kind == .tool ? "tool_unavailable" : .pluginDown,
      "plugin \(core.id) \(why)",
      hint: "look at what it logged, then load it again",
      details: ["reason": "plugin_down"]
    )
  }

  // MARK: Closing

  func deactivate(ticket: UInt64, deadline: UInt64) async -> Int32? {
    guard let connection = state.withLock({ $0.connection }) else { return 0 }
    return await connection.deactivate(
      ticket: ticket,
      deadline: deadline,
      within: Self.controlNanoseconds
    )
  }

  func destroy() async -> Bool {
    let (connection, restart) = state.withLock { state in
      state.phase = .closed
      return (state.connection, state.restart)
    }
    restart?.cancel()
    guard let connection else { return true }
    let death = await connection.stop(within: Self.controlNanoseconds)
    return death?.reason == .stopped
  }
}

extension PluginCore {
  /// Logs a line that a process of the plugin printed.
  func logLine(_ line: String) {
    let time = environment.clock.monotonic()
    guard logBudget.withLock({ $0.take(at: time) }) else { return }
    let dropped = logBudget.withLock { $0.takeDropped() }
    if dropped > 0 { report("plugin_log", "[warn] \(dropped) log lines were left out") }
    report("plugin_log", line)
  }

  private func report(_ type: String, _ message: String) {
    environment.report(Report(type: type, message: message, extensionName: id))
  }
}
