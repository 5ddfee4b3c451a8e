import PerdureModel
import PerdureValue

/// One call as the assistant message holds it.
struct RequestedCall: Sendable {
  var id: JSONString
  var name: JSONString
  var arguments: JSON
  /// Why what the model sent as arguments cannot be used, whatever the tool.
  var argumentsError: JSONString?
  /// Present for a call that a tool made.
  var nested: NestedCall?
}

/// The calls of one answer: from the assistant entry to the next generation.
enum ToolRound {
  /// The calls in an assistant entry, in order.
  static func calls(of entry: EntryRecord?) -> [RequestedCall] {
    calls(ofMessage: entry?.model?.first)
  }

  private static func calls(ofMessage message: JSON?) -> [RequestedCall] {
    (message?["content"]?.array ?? []).compactMap { item in
      guard item["type"] == "toolCall", let id = item["id"]?.string,
        let name = item["name"]?.string
      else { return nil }
      return RequestedCall(
        id: id,
        name: name,
        arguments: item["arguments"] ?? [:],
        argumentsError: item["argumentsError"]?.string
      )
    }
  }

  /// Commits the answer, a slot for each call and the tasks that may start now.
  static func start(
    _ phase: PhaseAgent,
    _ message: JSON,
    offered: Set<JSONString>
  ) async throws {
    let runtime = phase.runtime
    let agent = try await phase.get()
    let calls = calls(ofMessage: message).map { (call: $0, isOffered: offered.contains($0.name)) }
    let isSequential =
      runtime.settings.runsToolsSequentially
      || calls.contains { entry in
        entry.isOffered && agent.tool(entry.call.name)?.tool.executionMode == .sequential
      }
    try await runtime.commit { tx, record in
      let conversation = record.conversationId
      let assistant = try await tx.appendAnswer(message, to: conversation)
      var slots: [JSON] = []
      var started: [TaskID] = []
      var pending: [JSON] = []
      for (call, isOffered) in calls {
        var slot: JSONObject = ["callId": .string(call.id), "name": .string(call.name)]
        if !isOffered {
          let result = ToolResultEntry.failure(
            call,
            "tool_unavailable",
            "the tool '\(call.name.string)' was not offered",
            at: tx.now
          )
          slot["status"] = "done"
          slot["entry"] = try await tx.append(result, to: conversation).id.json
        } else {
          slot["status"] = "pending"
          if isSequential, !started.isEmpty {
            pending.append(.string(call.id))
          } else {
            let task = try await createTask(tx, record, assistant.id, call.id)
            started.append(task)
            slot["taskId"] = task.json
          }
        }
        slots.append(.object(slot))
      }
      try await tx.edit(.live, conversation) { live in
        if live.value["generation"] != nil { try live.delete(["generation"]) }
        try live.set(["tools"], .array(slots))
      }
      return waiting(on: started, all: started, assistant.id, pending)
    }
  }

  private static func createTask(
    _ tx: Transaction,
    _ record: TaskRecord,
    _ assistant: EntryID,
    _ call: JSONString
  ) async throws -> TaskID {
    try await tx.createTask(
      ToolTask.definition,
      input: ["kind": "model", "assistant": assistant.json, "callId": .string(call)],
      owner: record.id,
      conversation: record.conversationId
    ).id
  }

  private static func waiting(
    on: [TaskID],
    all: [TaskID],
    _ assistant: EntryID,
    _ pending: [JSON]
  ) -> TaskState {
    let checkpoint: JSON = [
      "phase": "tools", "assistant": assistant.json, "tools": .array(all.map { $0.json }),
      "pending": .array(pending),
    ]
    return .waiting(checkpoint: checkpoint, on: on, policy: .allSettled)
  }

  /// The phase `tools`: starts the next call of a sequential round, or ends the round.
  static func advance(_ runtime: TaskRuntime, _ record: TaskRecord) async throws {
    let checkpoint = record.state.checkpoint
    guard let assistant = EntryID(checkpoint?["assistant"]) else {
      throw PerdureError(.storeCorrupt, "task \(record.id) has no assistant entry")
    }
    let tools = (checkpoint?["tools"]?.array ?? []).compactMap { TaskID($0) }
    let pending = checkpoint?["pending"]?.array ?? []
    if let next = pending.first?.string {
      try await runtime.commit { tx, record in
        let task = try await createTask(tx, record, assistant, next)
        try await tx.edit(.live, record.conversationId) { live in
          let slots = live.value["tools"]?.array ?? []
          guard let position = slots.firstIndex(where: { $0["callId"]?.string == next }) else {
            return
          }
          try live.set(["tools", .index(position), "taskId"], task.json)
        }
        return waiting(on: [task], all: tools + [task], assistant, Array(pending.dropFirst()))
      }
    } else {
      try await finish(runtime, assistant, tools)
    }
  }

  private static func finish(
    _ runtime: TaskRuntime,
    _ assistant: EntryID,
    _ tools: [TaskID]
  ) async throws {
    try await GenerationHooks(phase: PhaseAgent(runtime)).afterTools(assistant) {
      let slots = try await runtime.value(.live)["tools"]?.array ?? []
      return slots.compactMap { EntryID($0["entry"]) }
    }
    try await runtime.commit { tx, record in
      let control = try await control(of: tools, tx, record.conversationId)
      try await tx.endRound(
        of: record.id,
        record.conversationId,
        assistant: assistant,
        control,
        runtime.settings.queueModes
      )
      return .terminal(.completed(result: ["entryId": assistant.json]))
    }
  }

  /// Reads what the results of the round ask for; before the commit's first table write.
  private static func control(
    of tools: [TaskID],
    _ tx: Transaction,
    _ conversation: ConversationID
  ) async throws -> RoundControl {
    var controls: [TaskID: JSON] = [:]
    for id in tools {
      guard case .completed(let result)? = try await tx.task(id)?.state.outcome else { continue }
      controls[id] = result["control"]
    }
    if controls.isEmpty { return RoundControl() }
    let slots = try await tx.value(.live, conversation)["tools"]?.array ?? []
    return RoundControl(slots.map { slot in TaskID(slot["taskId"]).flatMap { controls[$0] } })
  }
}

/// The entry in which the result of a call is stored.
enum ToolResultEntry {
  static func draft(
    _ call: RequestedCall,
    content: [JSON],
    diagnostics: [ToolDiagnostic],
    isError: Bool,
    details: JSON?,
    usage: Usage?,
    durationMs: Int64?,
    at now: Int64
  ) -> EntryDraft {
    var content = content
    if !diagnostics.isEmpty {
      let lines = diagnostics.map { "[\($0.severity.rawValue)] \($0.message)" }
      let text = (["<harness>"] + lines + ["</harness>"]).joined(separator: "\n")
      content.append(["type": "text", "text": .string(text)])
    }
    var message: JSONObject = [
      "role": "toolResult", "toolCallId": .string(call.id), "toolName": .string(call.name),
      "content": .array(content), "isError": .bool(isError),
    ]
    if let details { message["details"] = details }
    if let usage { message["usage"] = usage.json }
    if let durationMs { message["durationMs"] = .int(durationMs) }
    message["timestamp"] = .int(now)
    return EntryDraft(
      kind: "pi.tool-result",
      model: [.object(message)],
      data: ["diagnostics": .array(diagnostics.map { $0.json })]
    )
  }

  /// A result that the engine writes itself.
  static func failure(
    _ call: RequestedCall,
    _ code: String,
    _ message: String,
    at now: Int64
  ) -> EntryDraft {
    draft(
      call,
      content: [],
      diagnostics: [DiagnosticBounds.bounded(ToolDiagnostic(.error, message, code: code))],
      isError: true,
      details: nil,
      usage: nil,
      durationMs: nil,
      at: now
    )
  }
}
