import PerdureModel
import PerdureValue

/// The built-in task `pi.tool`: one call of a tool, from its arguments to its result.
enum ToolTask {
  static let name: JSONString = "pi.tool"

  static let definition = TaskDefinition(
    name: name,
    version: 2,
    initial: { _ in ["phase": "call"] },
    phases: [
      "call": { runtime, record in try await call(runtime, record) },
      "execute": { runtime, record in try await recover(runtime, record) },
    ],
    abort: { runtime, record in try await abort(runtime, record) },
    migrate: { record in
      var input = record.input.object ?? [:]
      if input["kind"] == nil { input["kind"] = "model" }
      return (.object(input), record.state.checkpoint ?? ["phase": "call"])
    },
    settle: { tx, record, _ in
      try await tx.editSlot(of: record.id, record.conversationId) { live, slot in
        try live.clearProgress(slot)
        try live.set(slot + ["status"], "done")
      }
      try await tx.removeNestedSlots(below: record.id, record.conversationId)
    }
  )

  private static func requestedCall(
    _ runtime: TaskRuntime,
    _ record: TaskRecord
  ) async throws -> RequestedCall {
    if let call = NestedCall.call(in: record.input) { return call }
    guard record.input["kind"] == "model", let assistant = EntryID(record.input["assistant"]),
      let callId = record.input["callId"]?.string
    else {
      throw PerdureError(.storeCorrupt, "the input of task \(record.id) names no call")
    }
    let entry = try await runtime.entry(assistant)
    guard let call = ToolRound.calls(of: entry).first(where: { $0.id == callId }) else {
      throw PerdureError(
        .storeCorrupt,
        "entry \(assistant) has no call '\(callId.string)' for task \(record.id)"
      )
    }
    return call
  }

  // MARK: call

  /// A call as hooks see it.
  static func hooked(
    _ call: RequestedCall,
    _ arguments: JSON,
    _ tool: InstalledTool?
  ) -> HookedCall {
    HookedCall(
      id: call.id,
      name: call.name,
      arguments: arguments,
      parent: call.nested.map { HookedCall.Parent(taskId: $0.parent, callId: $0.parentCallId) },
      extensionName: tool?.extensionName,
      replay: tool?.tool.replay ?? .unsafe
    )
  }

  private static func call(_ runtime: TaskRuntime, _ record: TaskRecord) async throws {
    let call = try await requestedCall(runtime, record)
    let phase = PhaseAgent(runtime)
    guard let tool = try await phase.get().tool(for: call) else {
      let text = "the tool '\(call.name.string)' is not available"
      return try await refuse(runtime, call, "tool_unavailable", text)
    }
    let checked: JSON
    switch await CallArguments.prepared(of: call, for: tool) {
    case .valid(let arguments): checked = arguments
    case .invalid(let text): return try await refuse(runtime, call, "invalid_arguments", text)
    }
    let approvals = CallApprovals(runtime: runtime, call: call)
    if let reason = try await approvals.denial() {
      return try await refuse(runtime, call, "blocked", reason)
    }
    let judged: JSON
    var questions: [ApprovalQuestion] = []
    var shown = hooked(call, checked, tool)
    shown.consents = try await approvals.consents()
    switch try await ToolHooks(phase: phase).beforeTool(shown) {
    case .deny(let reason):
      return try await refuse(runtime, call, "blocked", "the call was blocked: \(reason)")
    case .ask(let asked, let arguments): (questions, judged) = (asked, arguments)
    case .allow(let arguments): judged = arguments
    }
    // Hooks change arguments as models make them up.
    switch CallArguments.checked(judged, for: tool) {
    case .invalid(let text): try await refuse(runtime, call, "invalid_arguments", text)
    case .valid(let arguments):
      questions = CallApprovals.question(of: tool.tool, arguments) + questions
      try await ask(questions, arguments, phase, call, tool)
    }
  }

  /// Makes the call if nobody has to be asked, or all who were asked said yes.
  private static func ask(
    _ questions: [ApprovalQuestion],
    _ arguments: JSON,
    _ phase: PhaseAgent,
    _ call: RequestedCall,
    _ tool: InstalledTool
  ) async throws {
    let runtime = phase.runtime
    switch try await CallApprovals(runtime: runtime, call: call).judge(questions, arguments) {
    case .asked: return
    case .denied(let reason): try await refuse(runtime, call, "blocked", reason)
    case .unasked(let reason):
      try await refuse(runtime, call, "blocked", reason)
      runtime.report("the tool '\(tool.tool.name)': \(reason)", type: "approval_denied")
    case .allowed:
      guard let pass = try await enter(runtime, call, tool) else { return }
      try await announce(runtime, call, arguments, tool.tool.replay)
      try await execute(phase, call, tool, arguments, pass, recovered: false)
    }
  }

  /// Returns a place beside other calls; without one the call is refused.
  private static func enter(
    _ runtime: TaskRuntime,
    _ call: RequestedCall,
    _ tool: InstalledTool
  ) async throws -> LanePass? {
    do {
      return try await runtime.enterLanes(of: tool.tool, tool.extensionName)
    } catch let error as PerdureError where error.code == "tool_unavailable" {
      try await refuse(runtime, call, error.code.rawValue, error.message)
      return nil
    }
  }

  /// Says in the store that the call is made, with what arguments and whether it may be repeated.
  private static func announce(
    _ runtime: TaskRuntime,
    _ call: RequestedCall,
    _ arguments: JSON,
    _ replay: ReplayPolicy
  ) async throws {
    try await runtime.commit { tx, record in
      try await tx.editSlot(of: record.id, record.conversationId) { live, slot in
        try live.set(slot + ["status"], "running")
        // No entry shows them, and they may differ from what the caller gave.
        if call.nested != nil, call.arguments != arguments {
          try live.assign(slot + ["arguments"], arguments)
        }
      }
      return .running(checkpoint: [
        "phase": "execute", "arguments": arguments, "replay": .string(replay.rawValue),
      ])
    }
  }

  // MARK: execute

  /// Goes on with a call that a crash cut off: again if that is safe, else as interrupted.
  private static func recover(_ runtime: TaskRuntime, _ record: TaskRecord) async throws {
    let call = try await requestedCall(runtime, record)
    let checkpoint = record.state.checkpoint
    let phase = PhaseAgent(runtime)
    let tool = try await phase.get().tool(for: call)
    guard checkpoint?["replay"] == "safe", let tool, tool.tool.replay == .safe else {
      let text = "the call was interrupted; whether it took effect is not known"
      return try await settle(
        runtime,
        call,
        Settlement(
          outcome: .failed(message: text),
          failure: ToolDiagnostic(.error, text, code: "interrupted"),
          fromSlot: true
        )
      )
    }
    try await runtime.commit { tx, record in
      try await tx.clearProgress(of: record.id, record.conversationId)
      return nil
    }
    guard let pass = try await enter(runtime, call, tool) else { return }
    let arguments = checkpoint?["arguments"] ?? [:]
    try await execute(phase, call, tool, arguments, pass, recovered: true)
  }

  private static func execute(
    _ phase: PhaseAgent,
    _ call: RequestedCall,
    _ installed: InstalledTool,
    _ arguments: JSON,
    _ pass: LanePass,
    recovered: Bool
  ) async throws {
    let runtime = phase.runtime
    let tool = installed.tool
    // The intent is on disk before anything outside may happen.
    try await runtime.barrier()
    try runtime.checkSignal()
    let running = RunningCall(runtime, call, tool)
    let (deadline, overflow) = runtime.surroundings.clock.monotonic()
      .addingReportingOverflow(tool.deadline.nanoseconds)
    var invocation = ToolCall(
      callId: call.id,
      conversationId: runtime.conversationId,
      taskId: runtime.taskId,
      arguments: arguments,
      replay: tool.replay,
      recovered: recovered,
      outputWindow: RunningCall.hint(tool.outputLimits, runtime.settings),
      deadline: overflow ? .max : deadline,
      host: running
    )
    invocation.parent = call.nested.map {
      HookedCall.Parent(taskId: $0.parent, callId: $0.parentCallId)
    }
    invocation.invocation = ToolInvocation(phase: phase, replay: tool.replay, running: running)
    let execution = ToolExecution(runtime: runtime, tool: tool, running: running, pass: pass)
    let (end, durationMs) = await execution.run(invocation)
    let reported = await running.finish()
    if case .cutOff(let error) = end {
      try runtime.checkSignal()
      throw error
    }
    let isKept = keeps(end, tool, runtime.signal.reason)
    if !isKept { try runtime.checkSignal() }
    var settlement = Settlement(end, reported, durationMs)
    var shown = hooked(call, arguments, installed)
    shown.durationMs = durationMs
    settlement.apply(
      try await ToolHooks(phase: phase).afterTool(shown, settlement.result)
    )
    settlement.bound(tool.outputLimits)
    if let text = settlement.check(installed, isNested: call.nested != nil) {
      runtime.surroundings.report(
        Report(
          type: "extension_error",
          message: text,
          task: runtime.taskId,
          extensionName: installed.extensionName
        )
      )
    }
    try await settle(runtime, call, settlement, whileClosing: isKept)
  }

  /// Whether the answer of a cancelled call is written.
  ///
  /// The abort, or the next opening, decides about such a call. But nobody can ask an unsafe tool
  /// again: what it answers while the host closes is the only answer that there will be.
  private static func keeps(
    _ end: ToolExecution.End,
    _ tool: Tool,
    _ reason: CancelReason?
  ) -> Bool {
    guard case .returned = end else { return false }
    return reason == .closing && tool.replay == .unsafe
  }

  // MARK: Settlement

  private static func refuse(
    _ runtime: TaskRuntime,
    _ call: RequestedCall,
    _ code: String,
    _ text: String
  ) async throws {
    try await settle(
      runtime,
      call,
      Settlement(outcome: nil, failure: ToolDiagnostic(.error, text, code: code))
    )
  }

  /// Writes the result, ends the slot and the task, in one commit.
  private static func settle(
    _ runtime: TaskRuntime,
    _ call: RequestedCall,
    _ settlement: Settlement,
    whileClosing: Bool = false
  ) async throws {
    let madeCalls = try await endNestedCalls(runtime, whileClosing: whileClosing)
    try await runtime.commit(whileClosing: whileClosing) { tx, record in
      let conversation = record.conversationId
      let slot = try await tx.slot(of: record.id, conversation)
      let end = try await settlement.write(call, of: record, slot: slot, tx)
      if let usage = settlement.usage {
        try await tx.addUsage(usage, "tools", call.name, conversation)
      }
      try await tx.editSlot(of: record.id, conversation) { live, slot in
        try live.clearProgress(slot)
        try live.set(slot + ["status"], "done")
        try live.set(slot + [.key(end.member)], end.shown)
      }
      if madeCalls { try await tx.removeNestedSlots(below: record.id, conversation) }
      return .terminal(settlement.outcome(end.result))
    }
  }

  /// Ends the calls that this one made of other tools, also in earlier runs; returns whether there
  /// were any.
  private static func endNestedCalls(
    _ runtime: TaskRuntime,
    whileClosing: Bool
  ) async throws -> Bool {
    guard try runtime.memo(NestedCall.memo) == true else { return false }
    // Nobody ends tasks while the host closes; the next opening does.
    if whileClosing { return true }
    let calls = try await runtime.ownedTasks().filter {
      $0.kind == name && $0.input["kind"] == "nested"
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      // All are marked before one is waited for, which may need the end of another.
      for call in calls { group.addTask { try await runtime.abortOwned(call.id) } }
      try await group.waitForAll()
    }
    return true
  }

  private static func abort(_ runtime: TaskRuntime, _ record: TaskRecord) async throws {
    let call = try await requestedCall(runtime, record)
    let hadStarted = record.state.checkpoint?["phase"] == "execute"
    let isRestart = record.abortReason == "restart"
    let code = isRestart ? (hadStarted ? "interrupted" : "abandoned") : "aborted"
    let text =
      hadStarted
      ? "the call was \(code) while it ran; whether it took effect is not known"
      : "the call was \(code) before it started"
    var settlement = Settlement(
      outcome: .aborted(),
      failure: ToolDiagnostic(.error, text, code: code),
      fromSlot: true
    )
    let phase = PhaseAgent(runtime)
    let tool = try await phase.get().tool(for: call)
    let arguments = record.state.checkpoint?["arguments"] ?? call.arguments
    let decision = try await ToolHooks(phase: phase).onAbort(hooked(call, arguments, tool)) {
      let live = try await runtime.value(.live)
      settlement.read(slot: live.slot(of: record.id).flatMap { live.value(at: $0) })
      return settlement.result
    }
    settlement.apply(decision)
    if decision != .proceed { settlement.bound(tool?.tool.outputLimits ?? OutputLimits()) }
    try await settle(runtime, call, settlement)
  }
}
