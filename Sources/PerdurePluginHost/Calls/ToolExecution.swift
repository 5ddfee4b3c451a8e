internal import PerdureModel
import PerdureValue

/// Runs calls of one tool of a loaded plugin.
struct ToolExecution: Sendable {
  let core: PluginCore
  let code: PluginCode
  let tool: ManifestTool
  let target: ImmortalName
  let grace: Int64
  /// How many calls of this tool run at once, if that is limited.
  let own: CallSlots?
  let pace: StartPace
  let isClosing: @Sendable () -> Bool

  /// Beyond the grace that the engine gives; the engine decides, this only cleans up.
  private static let margin: Int64 = 250_000_000
  private static let busyPause: Int64 = 5_000_000
  private static let longestPause: Int64 = 200_000_000

  /// Runs one call to its end; what it throws becomes an error result.
  func run(_ call: ToolCall) async throws -> ToolResult {
    guard !isClosing() else {
      var error = core.downError
      error.code = "tool_unavailable"
      throw error
    }
    let input = message(for: call)
    guard input.count <= 16 << 20 else {
      throw PerdureError(
        "invalid_arguments",
        "the arguments of \(tool.name) are larger than 16 MiB",
        hint: "pass a file or less data"
      )
    }
    guard let held = await slots(call) else { throw cancelled(call) }
    defer { held.finish() }
    return try await attempt(call, input, held)
  }

  private func slots(_ call: ToolCall) async -> HeldPermits? {
    let waits = SlotWaits()
    return await withTaskCancellationHandler {
      await core.hold(
        own,
        .work,
        at: call.taskId,
        port: { call.host as? any ContributionPort },
        waits: { waits.add($0) }
      )
    } onCancel: {
      waits.cancel()
    }
  }

  /// Starts the call until the plugin accepts it.
  private func attempt(
    _ call: ToolCall,
    _ input: [UInt8],
    _ held: HeldPermits
  ) async throws -> ToolResult {
    var pause = Self.busyPause
    while !Task.isCancelled {
      switch await once(call, input, held) {
      case .ended(let result): return try result.get()
      case .refused(BorderCode.busy.rawValue): break
      case .refused(let status): throw refusal(status)
      }
      await core.environment.clock.sleep(nanoseconds: pause)
      pause = min(pause * 2, Self.longestPause)
    }
    throw cancelled(call)
  }

  private enum Attempt {
    case ended(Result<ToolResult, any Error>)
    case refused(Int32)
  }

  private func once(_ call: ToolCall, _ input: [UInt8], _ held: HeldPermits) async -> Attempt {
    let running = PluginCall(
      kind: .tool,
      label: "tool \(tool.name)",
      plugin: core.id,
      host: call.host,
      operations: call.invocation?.operations,
      place: CallPlace(task: call.taskId, tool: call)
    )
    let watch = GraceWatch(core: core, call: running, held, nanoseconds: grace + Self.margin)
    defer { watch.stop() }
    return await withTaskCancellationHandler {
      held.enter()
      core.start(
        running,
        code,
        target: target,
        input: input,
        deadline: UInt64(max(0, call.deadline)),
        left: { nanoseconds in
          held.leave()
          pace.note(nanoseconds)
        }
      )
      return await drain(running, into: call.host)
    } onCancel: {
      core.cancel(running, call.host.cancelReason ?? .abort)
      watch.begin()
    }
  }

  /// Folds what the plugin sends into the call's output until it ends.
  private func drain(_ call: PluginCall, into host: any ToolCallHost) async -> Attempt {
    var fold = OutputFold(host: host, core: core)
    while true {
      let news = await call.next()
      fold.take(news.frames)
      call.returnCredit(news.credit)
      if let outcome = news.outcome {
        fold.end()
        return .ended(Self.result(outcome))
      }
      if let code = news.refusal { return .refused(code) }
    }
  }

  private static func result(_ outcome: CallOutcome) -> Result<ToolResult, any Error> {
    switch outcome {
    case .tool(let result): .success(result)
    case .failed(let error): .failure(error)
    case .object, .bytes: .success(ToolResult())
    }
  }

  private func cancelled(_ call: ToolCall) -> PerdureError {
    call.host.cancelReason == .deadline
      ? PerdureError(
        "tool_error",
        "tool \(tool.name) of plugin \(core.id) was busy until the deadline"
      )
      : PerdureError(.cancelled, "the call of tool \(tool.name) was cancelled before it began")
  }

  private func refusal(_ status: Int32) -> PerdureError {
    let word = BorderCode(rawValue: status)?.word ?? "\(status)"
    return PerdureError(
      "tool_error",
      "plugin \(core.id) refused the call of tool \(tool.name) (\(word))"
    )
  }

  /// The input as docs/plugins.md has it.
  private func message(for call: ToolCall) -> [UInt8] {
    ContributionMessage.encoded(
      core,
      now: call.host.clock().now,
      conversation: call.conversationId,
      task: call.taskId,
      kind: "pi.tool"
    ) { writer in
      ContributionMessage.write(call, to: &writer)
      if let parent = call.parent { ContributionMessage.write(parent, to: &writer) }
      if let window = call.outputWindow { ContributionMessage.write(window, to: &writer) }
    }
  }
}

/// Gives up a cancelled call when its grace is over.
private final class GraceWatch: Sendable {
  private let core: PluginCore
  private let call: PluginCall
  private let held: HeldPermits
  private let nanoseconds: Int64
  private let request = PluginRequest(operation: .unknown("grace"), call: nil, done: nil)

  init(core: PluginCore, call: PluginCall, _ held: HeldPermits, nanoseconds: Int64) {
    self.core = core
    self.call = call
    self.held = held
    self.nanoseconds = nanoseconds
  }

  func begin() {
    // Ends with the call, whose `stop` cancels it.
    request.attach(
      Task { [core, call, held, nanoseconds] in
        await core.environment.clock.sleep(nanoseconds: nanoseconds)
        // Other calls of the plugin go on; those of the tool are held back by the engine.
        if !Task.isCancelled, core.giveUp(call) { held.finish() }
      }
    )
  }

  func stop() { request.cancelWork() }
}

/// Hands frames of output to the engine in order.
struct OutputFold {
  let host: any ToolCallHost
  let core: PluginCore
  private var skipped: SkippedOutput?

  init(host: any ToolCallHost, core: PluginCore) {
    self.host = host
    self.core = core
  }

  /// Folds frames in; once the call is over the engine refuses them and they are dropped.
  mutating func take(_ frames: [OutputFrame]) {
    for frame in frames { try? take(frame) }
  }

  private mutating func take(_ frame: OutputFrame) throws {
    switch frame {
    case .text(let bytes):
      try host.output(JSONString(String(decoding: bytes, as: UTF8.self)), skipped: takeSkipped())
    case .bytes(let bytes): try host.output(bytes: bytes, skipped: takeSkipped())
    case .details(let details): try host.details(details)
    case .diagnostic(let diagnostic): try host.diagnostic(diagnostic)
    case .skipped(let more):
      let before = skipped ?? SkippedOutput(bytes: 0, newlines: 0, endsWithNewline: false)
      skipped = SkippedOutput(
        bytes: before.bytes &+ more.bytes,
        newlines: before.newlines &+ more.newlines,
        endsWithNewline: more.endsWithNewline
      )
    case .flush(let request, let id):
      OperationRun(core: core, request: request, id: id).finishFlush()
    }
  }

  /// Accounts for what was left out after the last chunk.
  mutating func end() {
    guard skipped != nil else { return }
    try? host.output("", skipped: takeSkipped())
  }

  private mutating func takeSkipped() -> SkippedOutput? {
    defer { skipped = nil }
    return skipped
  }
}
