internal import PerdureModel
import PerdureValue
import Synchronization

/// How the process of a plugin came to its end.
struct RunnerDeath: Sendable {
  enum Reason: String, Sendable {
    case crashed, killed, hung
    case brokenFrame = "broken_frame"
    /// The host asked for it.
    case stopped
  }

  var reason: Reason
  /// What follows "the process of plugin ID ".
  var phrase: String
  /// The exit status, or minus the signal.
  var status: Int32?
}

/// One process of a plugin and what the host and it have open with each other.
final class RunnerConnection: RemoteCalls {
  private struct OpenCall {
    var call: PluginCall
    var left: @Sendable (Int64) -> Void
    var begin: Int64
  }

  private struct State {
    /// Calls whose `start` has not returned, and those that have not been answered.
    var entered: [UInt64: OpenCall] = [:]
    var open: [UInt64: PluginCall] = [:]
    /// What the plugin asked for: its id and ours.
    var requests: [UInt64: UInt64] = [:]
    var verdict: RunnerDeath?
    var isDead = false
    var isStopping = false
    var process: RunnerProcess?
  }

  let core: PluginCore
  private let launch: RunnerLaunch
  private let state = Mutex(State())
  private let greeted = OneShot<Result<Void, PluginRefusal>>()
  private let activated = OneShot<Result<Bool, PluginRefusal>?>()
  private let deactivated = OneShot<Int32?>()
  private let died = OneShot<RunnerDeath>()
  private let onDeath: @Sendable (RunnerConnection, RunnerDeath) -> Void

  init(
    core: PluginCore,
    launch: RunnerLaunch,
    onDeath: @escaping @Sendable (RunnerConnection, RunnerDeath) -> Void
  ) {
    self.core = core
    self.launch = launch
    self.onDeath = onDeath
  }

  // MARK: Life cycle

  /// Starts the process and activates the plugin; returns whether it has something to stop.
  ///
  /// `nil` when it takes too long.
  func open(within nanoseconds: Int64) async -> Result<Bool, PluginRefusal>? {
    guard startThread({ [self] in run() }) else {
      return .failure(PluginRefusal(code: 0, message: "the system gives no more threads"))
    }
    if case .failure(let refusal) = await greeted.value() { return .failure(refusal) }
    send(Frame(.activate, value: UInt64(core.generation), payload: launch.manifest))
    return await activated.value(within: nanoseconds, on: core.environment.clock, else: nil)
  }

  func deactivate(ticket: UInt64, deadline: UInt64, within nanoseconds: Int64) async -> Int32? {
    send(Frame(.deactivate, request: deadline, value: ticket))
    return await deactivated.value(within: nanoseconds, on: core.environment.clock, else: nil)
  }

  /// Ends the plugin and its process; returns how it ended.
  func stop(within nanoseconds: Int64) async -> RunnerDeath? {
    state.withLock { $0.isStopping = true }
    send(Frame(.destroy))
    let hung = RunnerDeath(reason: .hung, phrase: "did not end")
    let death = await died.value(within: nanoseconds, on: core.environment.clock, else: hung)
    if death.reason == .hung { kill(hung) }
    return death
  }

  /// Ends the process at once.
  func kill(_ death: RunnerDeath) {
    let process = state.withLock { state in
      if state.verdict == nil { state.verdict = death }
      return state.isDead ? nil : state.process
    }
    process?.socket.interrupt()
  }

  func abandon() {
    kill(RunnerDeath(reason: .killed, phrase: "kept a call for too long and was killed"))
  }

  /// The id of the process, while it runs.
  var processID: Int32? { state.withLock { $0.isDead ? nil : $0.process?.id } }

  // MARK: The thread that watches the process

  private func run() {
    let process: RunnerProcess
    do throws(SystemFailure) { process = try launch.start() } catch {
      let refusal = PluginRefusal(code: 0, message: "\(launch.program): \(error.text)")
      let death = RunnerDeath(reason: .crashed, phrase: "cannot be started: \(error.text)")
      state.withLock { $0.isDead = true }
      greeted.fire(.failure(refusal))
      died.fire(death)
      return onDeath(self, death)
    }
    state.withLock { $0.process = process }
    process.socket.send(RunnerProtocol.hello(process: FileAccess.processID, digest: nil))
    let death = watch(process)
    // What it started must not outlive it.
    process.kill()
    end(process, death)
  }

  private func watch(_ process: RunnerProcess) -> RunnerDeath {
    var life = RunnerPulse(now: RunnerClock().monotonic())
    while true {
      let news = process.wait(milliseconds: life.milliseconds)
      if let verdict = state.withLock({ $0.verdict }) { return verdict }
      if news.contains(.wake) { process.socket.clearInterrupt() }
      if news.contains(.space) || process.socket.isWaiting { process.socket.flush() }
      log(process.lines(news))
      do throws(FrameProblem) {
        if news.contains(.socket), try !read(process, &life) { return lastStatus(process) }
      } catch {
        return RunnerDeath(reason: .brokenFrame, phrase: "sent a frame \(error.phrase)")
      }
      if news.contains(.end) { return lastStatus(process) }
      switch life.check(now: RunnerClock().monotonic()) {
      case .well: break
      case .ask: process.socket.send(Frame(.ping))
      case .hung: return RunnerDeath(reason: .hung, phrase: "gave no sign of life")
      }
    }
  }

  /// Takes what is there; `false` at the end of the connection.
  private func read(
    _ process: RunnerProcess,
    _ life: inout RunnerPulse
  ) throws(FrameProblem) -> Bool {
    // After some frames the rest of the watching has its turn.
    for _ in 0..<64 {
      switch try process.socket.receive() {
      case .nothing: return true
      case .end: return false
      case .frame(let frame):
        life.hear(at: RunnerClock().monotonic())
        try take(frame, life.isGreeted)
        life.isGreeted = true
      }
    }
    return true
  }

  private func lastStatus(_ process: RunnerProcess) -> RunnerDeath {
    process.ignoreSocket()
    let clock = RunnerClock()
    let begin = clock.monotonic()
    // The socket is closed a moment before the process is gone; or the plugin closed it.
    while clock.monotonic() - begin < 250_000_000 {
      let news = process.wait(milliseconds: 50)
      if news.contains(.wake) { process.socket.clearInterrupt() }
      log(process.lines(news))
      guard let status = process.collect() else { continue }
      log(process.lines([.output, .errors]))
      if status == 0, state.withLock({ $0.isStopping }) {
        return RunnerDeath(reason: .stopped, phrase: "ended", status: 0)
      }
      return RunnerDeath(
        reason: status == -9 ? .killed : .crashed,
        phrase: Self.phrase(status, process.lastWords(), process.reason),
        status: status
      )
    }
    return RunnerDeath(reason: .brokenFrame, phrase: "closed its connection to the host")
  }

  private static func phrase(_ status: Int32, _ words: String, _ reason: String?) -> String {
    guard status < 0 else {
      return "ended itself with the exit status \(status)" + (reason.map { ": \($0)" } ?? "")
    }
    let names: [Int32: String] = [
      4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL",
      11: "SIGSEGV", 15: "SIGTERM", 31: "SIGSYS",
    ]
    let name = names[-status] ?? "signal \(-status)"
    let lines = words.split(separator: "\n", omittingEmptySubsequences: false)
    let place = lines.count > 1 && !lines[1].isEmpty ? " in \(lines[1])" : ""
    return status == -9 ? "was killed" : "crashed (\(name))\(place)"
  }

  private func log(_ lines: [String]) {
    for line in lines { core.logLine(line) }
  }

  private func end(_ process: RunnerProcess, _ death: RunnerDeath) {
    process.ignoreSocket()
    while death.status == nil, process.collect() == nil {
      log(process.lines(process.wait(milliseconds: 20)))
    }
    let left = state.withLock { state in
      state.isDead = true
      defer {
        state.entered = [:]
        state.open = [:]
        state.requests = [:]
      }
      return (Array(state.entered.values), state.open)
    }
    process.close()
    let refusal = PluginRefusal(code: 0, message: "its process \(death.phrase)")
    greeted.fire(.failure(refusal))
    activated.fire(.failure(refusal))
    deactivated.fire(nil)
    for (id, call) in left.1 where core.end(call, id) { core.settle(call, .failed(fault(death))) }
    for entered in left.0 { entered.left(core.environment.clock.monotonic() &- entered.begin) }
    // Nothing of the plugin runs any more.
    core.releaseAllGivenUp()
    core.cancelLooseRequests()
    died.fire(death)
    onDeath(self, death)
  }

  private func fault(_ death: RunnerDeath) -> PerdureError {
    PerdureError(
      .pluginFault,
      "the process of plugin \(core.id) \(death.phrase)",
      hint: "look at what the plugin logged",
      details: ["reason": .string(JSONString(death.reason.rawValue))]
    )
  }

  // MARK: What the host says

  private func send(_ frame: Frame) {
    state.withLock { $0.isDead ? nil : $0.process }?.socket.send(frame)
  }

  /// Starts a call; `false` if the process is gone.
  func start(
    _ call: PluginCall,
    target: ImmortalName,
    input: [UInt8],
    deadline: UInt64,
    left: @escaping @Sendable (_ nanoseconds: Int64) -> Void
  ) -> Bool {
    guard let id = core.calls.open(call) else {
      call.refused(BorderCode.busy.rawValue)
      left(0)
      return true
    }
    let begin = core.environment.clock.monotonic()
    let isOpen = state.withLock { state in
      guard !state.isDead, state.verdict == nil else { return false }
      state.entered[id] = OpenCall(call: call, left: left, begin: begin)
      state.open[id] = call
      return true
    }
    guard isOpen else {
      _ = core.end(call, id)
      return false
    }
    core.note(call)
    let reason = call.bind(id, self)
    send(Frame(.start, call: id, value: deadline, name: target.text, payload: input))
    if let reason {
      core.calls.cancel(id, reason: reason.rawValue)
      cancel(id, reason)
    }
    return true
  }

  func cancel(_ call: UInt64, _ reason: CancelReason) {
    send(Frame(.cancel, call: call, value: UInt64(reason.rawValue)))
  }

  func giveCredit(_ bytes: Int, to call: UInt64) {
    send(Frame(.credit, call: call, value: UInt64(bytes)))
  }

  // MARK: What the runner says

  private func take(_ frame: Frame, _ isGreeted: Bool) throws(FrameProblem) {
    guard isGreeted else {
      let mismatch = RunnerProtocol.mismatch(frame, digest: launch.digest)
      guard let mismatch else { return greeted.fire(.success(())) }
      let message = "\(launch.program) does not fit: \(mismatch)"
      greeted.fire(.failure(PluginRefusal(code: 0, message: message)))
      throw .descriptor("a greeting that does not fit: \(mismatch)")
    }
    switch frame.type {
    case .activated: activated.fire(Self.activation(frame))
    case .deactivated: deactivated.fire(frame.status)
    case .accept: try accept(frame)
    case .emit: try emit(frame)
    case .complete: try complete(frame)
    case .invoke: try invoke(frame)
    case .invokeCancel:
      if let id = state.withLock({ $0.requests[frame.request] }) {
        core.cancelRequest(id, reason: "cancelled")
      }
    case .strike:
      let text = String(decoding: frame.payload ?? [], as: UTF8.self)
      core.strike(String(text.prefix(4_096)))
    case .ping: send(Frame(.pong))
    case .pong: break
    default: throw .type(Int(frame.type.rawValue))
    }
  }

  private static func activation(_ frame: Frame) -> Result<Bool, PluginRefusal> {
    guard frame.status != 0 else { return .success(frame.value & 1 != 0) }
    let problem = RunnerProtocol.Problem(frame.error)
    var refusal = PluginRefusal(code: problem.code, message: problem.message ?? "")
    refusal.step = problem.step
    return .failure(refusal)
  }

  private func accept(_ frame: Frame) throws(FrameProblem) {
    guard let entered = state.withLock({ $0.entered.removeValue(forKey: frame.call) }) else {
      throw .descriptor("the start of a call that was never made")
    }
    defer { entered.left(core.environment.clock.monotonic() &- entered.begin) }
    guard frame.status != 0 else { return }
    state.withLock { _ = $0.open.removeValue(forKey: frame.call) }
    if core.end(entered.call, frame.call) {
      entered.call.refused(frame.status)
    } else if !core.releaseGivenUp(frame.call) {
      core.strike("refused \(entered.call.label) after it had completed it")
    }
  }

  private func payload(_ frame: Frame) throws(BorderProblem) -> Payload {
    if frame.mediaType.isEmpty { return Payload(type: .json, bytes: frame.payload ?? []) }
    guard let type = MediaType(name: frame.mediaType) else { throw .mediaType(frame.mediaType) }
    return Payload(type: type, bytes: frame.payload ?? [])
  }

  /// Throws if the id is not one that was once given out.
  private func checkIssued(_ call: UInt64) throws(FrameProblem) {
    guard core.calls.wasIssued(call) else { throw .descriptor("a call that was never made") }
  }

  private func emit(_ frame: Frame) throws(FrameProblem) {
    try checkIssued(frame.call)
    guard let call = state.withLock({ $0.open[frame.call] }) else { return }
    var code: BorderCode?
    do throws(BorderProblem) {
      guard call.kind.isTool else { throw .shape("output where none is expected", at: "") }
      code = core.emit(try payload(frame), on: call)
    } catch {
      core.noteJunk("sent output of \(call.label) with \(error.phrase)")
    }
    if code == .wouldBlock { throw .limit("output") }
  }

  private func complete(_ frame: Frame) throws(FrameProblem) {
    try checkIssued(frame.call)
    guard let call = state.withLock({ $0.open.removeValue(forKey: frame.call) }),
      let slot = core.calls.claim(frame.call)
    else { return core.noteStaleCompletion(of: frame.call) }
    core.calls.unpin(slot)
    guard frame.status != 0 else {
      do throws(BorderProblem) {
        _ = core.finish(call, .value(try payload(frame)))
      } catch {
        _ = core.finish(call, .junk(error))
      }
      return
    }
    let problem = RunnerProtocol.Problem(frame.error)
    if problem.isJunk {
      let reason = problem.detail?["reason"]?.text ?? "shape"
      let code = BorderCode(rawValue: frame.status) ?? .encoding
      _ = core.finish(call, .junk(.told(problem.message ?? "junk", reason: reason, code: code)))
      return
    }
    var failure = CallFailure(status: frame.status)
    failure.flags = problem.flags
    failure.message = problem.message
    failure.detail = problem.detail?.compactText
    _ = core.finish(call, .failure(failure))
  }

  private func invoke(_ frame: Frame) throws(FrameProblem) {
    if frame.call != 0 { try checkIssued(frame.call) }
    let id = frame.request
    guard !state.withLock({ $0.requests[id] != nil }) else {
      throw .descriptor("a request that is open already")
    }
    let call = frame.call == 0 ? nil : state.withLock { $0.open[frame.call] }
    let done: FrameDone? = id == 0 ? nil : FrameDone(connection: self, request: id)
    guard frame.call == 0 || call != nil else {
      done?(0, .failed(RequestFailure(.stale, "the call is over", reason: "ended")))
      return
    }
    var code: BorderCode?
    do throws(BorderProblem) {
      code = core.startRequest(frame.name, try payload(frame).object(), within: call, done: done) {
        ours in
        if ours != 0 { state.withLock { $0.requests[id] = ours } }
      }
    } catch {
      core.noteJunk("asked for an operation with \(error.phrase)")
      code = error.code
    }
    guard let code else { return }
    done?(0, .failed(RequestFailure(code, "\(frame.name) was refused", reason: code.word)))
  }

  /// Sends the result of a request.
  fileprivate func answer(_ request: UInt64, _ result: RequestResult) {
    state.withLock { _ = $0.requests.removeValue(forKey: request) }
    var frame = Frame(.done, request: request)
    switch result {
    case .object(let object): frame.payload = JSON.object(object).encoded
    case .bytes(let bytes, let type):
      frame.mediaType = type.name
      frame.payload = bytes
    case .failed(let failure):
      frame.status = failure.code.rawValue
      frame.error = failure.problem.encoded
    }
    send(frame)
  }
}

/// Sends the result of a request to the runner.
private struct FrameDone: RequestDone {
  let connection: RunnerConnection
  let request: UInt64
  var runsPlugin: Bool { false }

  func callAsFunction(_ id: UInt64, _ result: RequestResult) { connection.answer(request, result) }
}

/// Whether the other side is alive.
struct RunnerPulse {
  enum Finding { case well, ask, hung }

  var isGreeted = false
  private let begin: Int64
  private var heard: Int64
  private var asked: Int64
  private static let second: Int64 = 1_000_000_000

  init(now: Int64) {
    begin = now
    heard = now
    asked = now
  }

  /// How long to wait at most before the next check.
  var milliseconds: Int32 { isGreeted ? 5_000 : 1_000 }

  mutating func hear(at now: Int64) { heard = now }

  mutating func check(now: Int64) -> Finding {
    if !isGreeted {
      return now - begin >= RunnerProtocol.helloSeconds * Self.second ? .hung : .well
    }
    if now - heard >= RunnerProtocol.hungSeconds * Self.second { return .hung }
    let quiet = RunnerProtocol.quietSeconds * Self.second
    guard now - heard >= quiet, now - asked >= quiet else { return .well }
    asked = now
    return .ask
  }
}
