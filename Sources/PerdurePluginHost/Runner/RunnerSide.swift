internal import CPerdureLinux
internal import PerdureModel
import PerdureValue
import Synchronization

/// The runner: maps one plugin and passes on what plugin and host say to each other.
package final class RunnerSide: PluginRelay {
  private struct State {
    var core: PluginCore?
    var code: (any RunnerCode)?
    var isActivating = false
  }

  private let end = RunnerEnd()
  private let path: String
  private let digest: String
  /// What calls functions, if the file describes such and is no library.
  private let foreign: ForeignLoader?
  private let state = Mutex(State())

  /// The exit status after a broken frame.
  private static let brokenStatus: Int32 = 70
  /// The exit status when the plugin still runs code at its end.
  static let busyStatus: Int32 = 3

  private init(path: String, digest: String, foreign: ForeignLoader?) {
    self.path = path
    self.digest = digest
    self.foreign = foreign
  }

  /// Runs the plugin that the arguments name, until the host or the plugin ends.
  ///
  /// `foreign` makes functions callable that a file without code describes.
  package static func run(_ arguments: [String], foreign: @escaping ForeignLoader) -> Never {
    guard arguments.count == 2, let path = arguments.last, path.hasPrefix("/") else {
      RunnerEnd.exit(
        64,
        "perdure-runner \(RunnerProtocol.build) is started by perdure, which gives it a plugin"
      )
    }
    RunnerEnd.prepare()
    let bytes: [UInt8]
    do { bytes = try FileAccess.read(path, limit: FileAccess.pluginLimit) } catch {
      RunnerEnd.exit(66, "perdure-runner: \(error.description)")
    }
    let loader = PluginFiles.isForeign(bytes) ? foreign : nil
    RunnerSide(path: path, digest: FileAccess.digest(bytes), foreign: loader).serve()
  }

  // MARK: Frames

  private func serve() -> Never {
    let socket = end.socket
    socket.send(RunnerProtocol.hello(process: FileAccess.processID, digest: digest))
    let clock = RunnerClock()
    var lastHeard = clock.monotonic()
    var lastAsked = lastHeard
    var isGreeted = false
    while true {
      let news = end.wait(milliseconds: 5_000)
      if news.contains(.wake) { socket.clearInterrupt() }
      if news.contains(.space) || socket.isWaiting { socket.flush() }
      if socket.isBroken { RunnerEnd.exit(Self.brokenStatus, "perdure-runner: the host is gone") }
      do throws(FrameProblem) {
        reading: while true {
          switch try socket.receive() {
          case .nothing: break reading
          case .end: RunnerEnd.exit(0)
          case .frame(let frame):
            lastHeard = clock.monotonic()
            if isGreeted {
              try take(frame)
            } else if let mismatch = RunnerProtocol.mismatch(frame, digest: nil) {
              RunnerEnd.exit(Self.brokenStatus, "perdure-runner: the host is refused: \(mismatch)")
            }
            isGreeted = true
          }
        }
      } catch {
        let sentence = "perdure-runner: the host sent a frame \(error.phrase)"
        RunnerEnd.exit(Self.brokenStatus, sentence)
      }
      let now = clock.monotonic()
      let quiet = RunnerProtocol.quietSeconds * 1_000_000_000
      if now - lastHeard >= RunnerProtocol.hungSeconds * 1_000_000_000 {
        // A host that was stopped for a while must not find its plugins gone.
        lastHeard = now
      } else if now - lastHeard >= quiet, now - lastAsked >= quiet {
        lastAsked = now
        socket.send(Frame(.ping))
      }
    }
  }

  private func take(_ frame: Frame) throws(FrameProblem) {
    if frame.type == .activate { return try activate(frame) }
    if frame.type == .ping { return end.socket.send(Frame(.pong)) }
    if frame.type == .pong { return }
    let (core, code) = state.withLock { ($0.core, $0.code) }
    guard let core else {
      if frame.type == .destroy { RunnerEnd.exit(0) }
      throw .type(Int(frame.type.rawValue))
    }
    switch frame.type {
    case .deactivate:
      guard let code else { throw .type(Int(frame.type.rawValue)) }
      let socket = end.socket
      core.threads.run {
        let status = code.deactivate(ticket: frame.value, deadline: frame.request)
        socket.send(Frame(.deactivated, status: status, value: frame.value))
      }
    case .destroy: destroy(core, code)
    case .start:
      guard let code else { throw .type(Int(frame.type.rawValue)) }
      try start(frame, core, code)
    case .credit: withCall(frame.call, core) { $0.returnCredit(Int(clamping: frame.value)) }
    case .cancel:
      guard let value = UInt32(exactly: frame.value), let reason = CancelReason(rawValue: value)
      else { throw .limit("a reason") }
      core.calls.cancel(frame.call, reason: value)
      withCall(frame.call, core) { core.cancel($0, reason) }
    case .done: core.answer(frame.request, Self.result(frame))
    default: throw .type(Int(frame.type.rawValue))
    }
  }

  private func withCall(_ id: UInt64, _ core: PluginCore, _ body: (PluginCall) -> Void) {
    guard let slot = core.calls.pin(id) else { return }
    core.calls.withRecord(slot, as: PluginCall.self, body)
    core.calls.unpin(slot)
  }

  private static func result(_ frame: Frame) -> RequestResult {
    guard frame.status == 0 else {
      let problem = RunnerProtocol.Problem(frame.error)
      return .failed(RequestFailure(problem, status: frame.status))
    }
    return .bytes(frame.payload ?? [], MediaType(name: frame.mediaType) ?? .json)
  }

  // MARK: Life cycle

  private func activate(_ frame: Frame) throws(FrameProblem) {
    let isFirst = state.withLock { state in
      defer { state.isActivating = true }
      return !state.isActivating
    }
    guard isFirst, let manifest = try? Manifest(parsing: frame.payload ?? []) else {
      throw .limit("a manifest")
    }
    let core = PluginCore(
      manifest: manifest,
      generation: Int(clamping: frame.value),
      environment: PluginEnvironment(
        clock: RunnerClock(),
        copies: "",
        hostVersion: RunnerProtocol.build,
        report: { _ in },
        checkSchema: { _ in }
      ),
      settings: [:],
      relay: self
    )
    state.withLock { $0.core = core }
    core.threads.run { [self] in
      var step = "load"
      do throws(PluginRefusal) {
        let code = try load(core) { step = $0 }
        state.withLock { $0.code = code }
        step = "activate"
        try code.activate()
        end.socket.send(Frame(.activated, value: code.hasDeactivate ? 1 : 0))
      } catch {
        var problem = RunnerProtocol.Problem(code: error.code)
        problem.message = error.message
        problem.step = step
        // A refusal may come without a code, but never as a success.
        let status = error.code < 0 ? error.code : BorderCode.invalid.rawValue
        end.socket.send(Frame(.activated, status: status, error: problem.encoded))
      }
    }
  }

  private func load(
    _ core: PluginCore,
    _ tell: (String) -> Void
  ) throws(PluginRefusal) -> any RunnerCode {
    if let foreign {
      return try withBreadcrumb(core.name, PluginCode.loadName, 0) {
        Result { () throws(PluginRefusal) in try ForeignCode(core, foreign) }
      }.get()
    }
    let library = try withBreadcrumb(core.name, PluginCode.loadName, 0) {
      Result { () throws(PluginRefusal) in try LoadedLibrary(path: path) }
    }.get()
    tell("entry")
    let tables = HostTables(core: core)
    Immortals.keep(tables)
    return try MappedCode.enter(library, core.name, tables)
  }

  private func destroy(_ core: PluginCore, _ code: (any RunnerCode)?) {
    // Not on the thread that reads: the plugin may still ask for something.
    let isStarted = startThread {
      guard core.threads.waitUntilIdle(seconds: 1) else { RunnerEnd.exit(Self.busyStatus) }
      core.threads.run {
        code?.destroy()
        RunnerEnd.exit(0)
      }
    }
    if !isStarted { RunnerEnd.exit(Self.busyStatus) }
  }

  // MARK: Calls

  private func start(
    _ frame: Frame,
    _ core: PluginCore,
    _ code: any RunnerCode
  ) throws(FrameProblem) {
    let call = PluginCall(
      kind: PluginCall.Kind(target: frame.name),
      label: frame.name,
      plugin: core.id,
      host: nil
    )
    let id = frame.call
    guard adopt(id, call, core) else { throw .limit("a call") }
    core.note(call)
    _ = call.bind(id)
    let target = Immortals.name(frame.name)
    let socket = end.socket
    let isAccepted = core.threads.run {
      let status = code.start(
        id,
        target: target,
        input: frame.payload ?? [],
        deadline: frame.value
      )
      if status != 0 { _ = core.end(call, id) }
      socket.send(Frame(.accept, status: status, call: id))
    }
    if !isAccepted {
      _ = core.end(call, id)
      socket.send(Frame(.accept, status: BorderCode.busy.rawValue, call: id))
    }
  }

  /// Takes the id of the host; a thread of the plugin may just be leaving an earlier call of it.
  ///
  /// On a busy machine that thread may get no processor for long, whatever is yielded to it.
  private func adopt(_ id: UInt64, _ call: PluginCall, _ core: PluginCore) -> Bool {
    for round in 0..<10_000 {
      if core.calls.adopt(id, call) { return true }
      if round < 100 { FileAccess.yield() } else { restOnThread(nanoseconds: 1_000_000) }
    }
    return false
  }

  func complete(_ call: PluginCall, _ answer: CallAnswer) -> Int32 {
    core?.settle(call, .bytes([]))
    switch answer {
    case .value(let payload):
      var frame = Frame(.complete, call: call.id, mediaType: payload.type.name)
      frame.payload = payload.bytes
      end.socket.send(frame)
      do throws(BorderProblem) { try Self.check(payload, call.kind) } catch {
        return error.code.rawValue
      }
      return 0
    case .failure(let failure):
      guard failure.status < 0 else {
        return complete(call, .junk(.shape("a positive status (\(failure.status))", at: "")))
      }
      var problem = RunnerProtocol.Problem(code: failure.status)
      problem.flags = failure.flags
      problem.message = failure.message
      problem.detail = failure.detail.flatMap { try? JSON(parsing: $0, options: .border) }
      send(call, failure.status, problem)
      return 0
    case .junk(let junk):
      var problem = RunnerProtocol.Problem(code: junk.code.rawValue)
      problem.message = junk.phrase
      problem.detail = ["reason": .string(JSONString(junk.reason))]
      problem.isJunk = true
      send(call, junk.code.rawValue, problem)
      return junk.code.rawValue
    }
  }

  private func send(_ call: PluginCall, _ status: Int32, _ problem: RunnerProtocol.Problem) {
    end.socket.send(
      Frame(.complete, status: status, call: call.id, error: problem.encoded)
    )
  }

  /// Throws what the host will find wrong.
  private static func check(_ payload: Payload, _ kind: PluginCall.Kind) throws(BorderProblem) {
    if kind.isTool {
      _ = try ToolCompletion.decode(payload)
    } else if kind.isSection, payload.type == .text {
      _ = try payload.text()
    } else {
      _ = try payload.object()
    }
  }

  private var core: PluginCore? { state.withLock { $0.core } }

  func emit(_ payload: Payload, on call: PluginCall) -> BorderCode? {
    if let code = call.spend(payload.bytes.count) { return code }
    end.socket.send(
      Frame(.emit, call: call.id, mediaType: payload.type.name, payload: payload.bytes)
    )
    return nil
  }

  // MARK: Requests

  func ask(_ request: PluginRequest, _ id: UInt64, _ input: JSONObject) {
    end.socket.send(
      Frame(
        .invoke,
        call: request.call?.id ?? 0,
        request: id,
        name: request.operation.name,
        payload: JSON.object(input).encoded
      )
    )
  }

  func cancel(_ request: UInt64) { end.socket.send(Frame(.invokeCancel, request: request)) }

  func strike(_ what: String) {
    let text = Array(what.utf8.prefix(4_096))
    var frame = Frame(.strike, payload: text)
    frame.flags = Frame.ignorable
    end.socket.send(frame)
  }
}

/// Time in the runner, where it is only measured.
struct RunnerClock: HostClock {
  func now() -> Int64 { perdure_realtime_ms() }
  func monotonic() -> Int64 { perdure_monotonic_ns() }
  // Timers of the Swift runtime would bring libdispatch and its threads into each runner.
  func sleep(nanoseconds: Int64) async { await sleepOnThread(nanoseconds: nanoseconds) }
}
