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

  /// What is decided about a call between its validation and its intent.
  private enum Decision {
    case proceed(JSON)
  }

  /// Guards and approvals decide here; a pure step, so that it may be taken again after a crash.
  private static func decide(_ call: RequestedCall, _ arguments: JSON) -> Decision {
    .proceed(arguments)
  }

  private static func call(_ runtime: TaskRuntime, _ record: TaskRecord) async throws {
    let call = try await requestedCall(runtime, record)
    guard let tool = try await runtime.agent().tool(for: call) else {
      let text = "the tool '\(call.name.string)' is not available"
      return try await refuse(runtime, call, "tool_unavailable", text)
    }
    let arguments = tool.schema.coerce(call.arguments)
    let violations = tool.schema.validate(arguments)
    guard violations.isEmpty else {
      let list = violations.map { "\($0)" }.joined(separator: "; ")
      let text = "the arguments are invalid: \(list); received \(call.arguments.compactText)"
      return try await refuse(runtime, call, "invalid_arguments", text)
    }
    switch decide(call, arguments) {
    case .proceed(let arguments):
      try await announce(runtime, call, arguments, tool.tool.replay)
      try await execute(runtime, call, tool, arguments, recovered: false)
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
    let tool = try await runtime.agent().tool(for: call)
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
    try await execute(runtime, call, tool, checkpoint?["arguments"] ?? [:], recovered: true)
  }

  private static func execute(
    _ runtime: TaskRuntime,
    _ call: RequestedCall,
    _ installed: InstalledTool,
    _ arguments: JSON,
    recovered: Bool
  ) async throws {
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
    invocation.invocation = ToolInvocation(runtime: runtime, replay: tool.replay, running: running)
    let (end, durationMs) = await ToolExecution(runtime: runtime, tool: tool, running: running)
      .run(invocation)
    let reported = await running.finish()
    let isKept = keeps(end, tool, runtime.signal.reason)
    if !isKept { try runtime.checkSignal() }
    var settlement = Settlement(end, reported, tool, durationMs)
    if let breach = settlement.check(installed, isNested: call.nested != nil) {
      runtime.report(breach)
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
    try await settle(
      runtime,
      call,
      Settlement(
        outcome: .aborted(reason: record.abortReason?.string),
        failure: ToolDiagnostic(.error, text, code: code),
        fromSlot: true
      )
    )
  }
}
