public import PerdureValue

extension AgentEvent {
  /// Reads the JSON form; throws `invalidInput` if it is not that of an event of this version.
  public init(json: JSON) throws {
    let fields = EventFields(json)
    switch json["type"]?.text {
    case "snapshot": self = .snapshot(try AgentState(snapshot: fields))
    case "run_start": self = .runStart(inputs: try fields.inputs())
    case "run_end": self = .runEnd(inputs: try fields.inputs())
    case "turn_start": self = .turnStart
    case "turn_end": self = .turnEnd
    case "inbox_update": self = .inboxUpdate(try fields.list("items") { QueuedItem(json: $0) })
    case "submission": self = .submission(try SubmissionRecord(json: fields.value("record")))
    case "agent_changed": self = .agentChanged(try fields.value("agent"))
    case "usage_changed": self = .usageChanged(try fields.value("usage"))
    case "live_update":
      self = .liveUpdate(try fields.list("operations") { try Operation(json: $0) })
    case .some(let type):
      let event =
        try Self.message(type, fields) ?? Self.tool(type, fields) ?? Self.retry(type, fields)
        ?? Self.task(type, fields)
      guard let event else { throw fields.problem("type") }
      self = event
    case nil: throw fields.problem("type")
    }
  }

  private static func message(_ type: String, _ fields: EventFields) throws -> AgentEvent? {
    switch type {
    case "message_start": .messageStart(try fields.value("message"))
    case "message_update":
      .messageUpdate(
        usage: try fields.value("usage"),
        changes: try fields.list("changes") { try MessageChange(json: $0) }
      )
    case "message_end": .messageEnd(try EntryRecord(json: fields.value("entry")))
    case "entry_appended": .entryAppended(try EntryRecord(json: fields.value("entry")))
    default: nil
    }
  }

  private static func tool(_ type: String, _ fields: EventFields) throws -> AgentEvent? {
    switch type {
    case "tool_execution_start":
      .toolExecutionStart(try ToolEventCall(event: fields), arguments: try fields.value("args"))
    case "tool_execution_update":
      .toolExecutionUpdate(try ToolEventCall(event: fields), try ToolUpdate(event: fields))
    case "tool_execution_end":
      .toolExecutionEnd(
        try ToolEventCall(event: fields),
        entry: try fields.json["entry"].map { try EntryRecord(json: $0) },
        result: fields.json["result"],
        summary: fields.json["summary"]
      )
    default: nil
    }
  }

  private static func retry(_ type: String, _ fields: EventFields) throws -> AgentEvent? {
    switch type {
    case "auto_retry_start":
      .autoRetryStart(
        attempt: try fields.integer("attempt"),
        at: try fields.integer("at"),
        error: try fields.text("errorMessage")
      )
    case "auto_retry_end": .autoRetryEnd(attempt: try fields.integer("attempt"))
    case "deferred_poll": .deferredPoll(at: try fields.integer("pollAt"))
    default: nil
    }
  }

  private static func task(_ type: String, _ fields: EventFields) throws -> AgentEvent? {
    switch type {
    case "task_failed":
      .taskFailed(
        try fields.task(),
        kind: try fields.text("kind"),
        message: try fields.text("message")
      )
    case "compaction_start":
      .compactionStart(
        try fields.task(),
        reason: try fields.text("reason"),
        blocking: fields.json["blocking"] == true
      )
    case "compaction_end":
      .compactionEnd(
        try fields.task(),
        reason: try fields.text("reason"),
        error: fields.json["error"]?.string
      )
    default: nil
    }
  }
}

extension MessageChange {
  /// Reads the JSON form; throws `invalidInput` if it is none.
  public init(json: JSON) throws {
    let fields = EventFields(json)
    let type = json["type"]?.text
    if type == "message" {
      self = .message(try fields.value("message"))
      return
    }
    let index = Int(clamping: try fields.integer("contentIndex"))
    switch type {
    case "text_start", "thinking_start", "toolcall_start":
      self = .start(index, block: try fields.value("block"))
    case "text_delta": self = .textDelta(index, try fields.text("delta"))
    case "thinking_delta": self = .thinkingDelta(index, try fields.text("delta"))
    case "toolcall_delta":
      // Operations have the same form of paths.
      let form: JSON = ["a", try fields.value("path"), try fields.value("delta")]
      guard case .append(let path, let text) = try Operation(json: form) else {
        throw fields.problem("path")
      }
      self = .toolCallDelta(index, path: path, text)
    case "block": self = .block(index, try fields.value("block"))
    default: throw fields.problem("type")
    }
  }
}

extension ToolEventCall {
  fileprivate init(event fields: EventFields) throws {
    callId = try fields.text("toolCallId")
    name = try fields.text("toolName")
    task = TaskID(fields.json["taskId"])
    parent = fields.json["parentToolCallId"]?.string.map {
      Parent(callId: $0, task: TaskID(fields.json["parentTaskId"]))
    }
  }
}

extension ToolUpdate {
  fileprivate init(event fields: EventFields) throws {
    self.init()
    if let output = fields.json["output"] {
      if let text = output["set"] {
        guard let text = text.string else { throw fields.problem("output") }
        self.output = .set(text)
      } else {
        self.output = .moved(
          trimStart: Int(clamping: output["trimStart"]?.int ?? 0),
          append: output["append"]?.string ?? ""
        )
      }
    }
    droppedBytes = fields.json["droppedBytes"]?.int
    droppedLines = fields.json["droppedLines"]?.int
    details = fields.json["details"]
    diagnostics = fields.json["diagnostics"]
  }
}

extension AgentState {
  fileprivate init(snapshot fields: EventFields) throws {
    let entries = try fields.list("entries") { try EntryRecord(json: $0) }
    self.init(
      entries: entries,
      live: fields.json,
      inbox: ["items": try fields.value("inbox")],
      agent: try fields.value("agent"),
      usage: try fields.value("usage")
    )
  }
}

/// The members of an event, read with errors that name them.
private struct EventFields {
  let json: JSON

  init(_ json: JSON) { self.json = json }

  func problem(_ name: JSONString) -> PerdureError {
    PerdureError(
      .invalidInput,
      "an agent event of the type '\(json["type"]?.text ?? "")' has no usable '\(name.string)'",
      hint: "read events with the version that wrote them"
    )
  }

  func value(_ name: JSONString) throws -> JSON {
    guard let value = json[name] else { throw problem(name) }
    return value
  }

  func text(_ name: JSONString) throws -> JSONString {
    guard let text = json[name]?.string else { throw problem(name) }
    return text
  }

  func integer(_ name: JSONString) throws -> Int64 {
    guard let number = json[name]?.int else { throw problem(name) }
    return number
  }

  func task() throws -> TaskID {
    guard let id = TaskID(json["taskId"]) else { throw problem("taskId") }
    return id
  }

  func inputs() throws -> [SubmissionID] { try list("inputs") { SubmissionID($0) } }

  func list<Element>(_ name: JSONString, _ read: (JSON) throws -> Element?) throws -> [Element] {
    guard let elements = json[name]?.array else { throw problem(name) }
    return try elements.map { element in
      guard let read = try read(element) else { throw problem(name) }
      return read
    }
  }
}
