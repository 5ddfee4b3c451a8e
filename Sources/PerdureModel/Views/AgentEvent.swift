public import PerdureValue

/// What a commit meant for a conversation at work.
///
/// The events of one commit come together, in a fixed order.
public enum AgentEvent: Sendable, Equatable {
  /// Everything as it is; first of all, and for a reader who fell too far behind.
  case snapshot(AgentState)
  case runStart(inputs: [SubmissionID])
  case runEnd(inputs: [SubmissionID])
  /// A generation took over the run.
  case turnStart
  /// The outcome of a generation was decided.
  case turnEnd
  /// A message begins: the first that is stored of an answer, or a message of an entry.
  case messageStart(JSON)
  /// More of the answer is stored; `usage` is what it cost so far.
  case messageUpdate(usage: JSON, changes: [MessageChange])
  /// An entry with a message was appended.
  case messageEnd(EntryRecord)
  case toolExecutionStart(ToolEventCall, arguments: JSON)
  case toolExecutionUpdate(ToolEventCall, ToolUpdate)
  /// A call is over. A call of the model has an entry with its result, unless it failed without
  /// one; a nested call has the result itself and its summary.
  case toolExecutionEnd(ToolEventCall, entry: EntryRecord?, result: JSON?, summary: JSON?)
  case inboxUpdate([QueuedItem])
  case submission(SubmissionRecord)
  /// The request is made again, at a time in milliseconds since 1970.
  case autoRetryStart(attempt: Int64, at: Int64, error: JSONString)
  case autoRetryEnd(attempt: Int64)
  /// The provider answers later and is asked again, at a time in milliseconds since 1970.
  case deferredPoll(at: Int64)
  /// An entry without a message was appended.
  case entryAppended(EntryRecord)
  case agentChanged(JSON)
  case usageChanged(JSON)
  /// A task faulted, or cannot go on because nobody knows it any more.
  case taskFailed(TaskID, kind: JSONString, message: JSONString)
  case compactionStart(TaskID, reason: JSONString, blocking: Bool)
  case compactionEnd(TaskID, reason: JSONString, error: JSONString?)
  /// The rest of what the commit changed in `AgentState.live`.
  case liveUpdate([Operation])
}

/// Which call an event is about.
public struct ToolEventCall: Sendable, Equatable {
  public var callId: JSONString
  public var name: JSONString
  /// Absent for a call that never got a task.
  public var task: TaskID?
  /// The call that made this one, if it was not the model.
  public var parent: Parent?

  /// The call that made a nested one.
  public struct Parent: Sendable, Equatable {
    public var callId: JSONString
    public var task: TaskID?
  }

  /// Reads the call of a slot of `pi.live`; `nil` if there is none.
  package init?(slot: JSON) {
    guard let callId = slot["callId"]?.string, let name = slot["name"]?.string else { return nil }
    self.callId = callId
    self.name = name
    task = TaskID(slot["taskId"])
    if let parentId = slot["parentCallId"]?.string {
      parent = Parent(callId: parentId, task: TaskID(slot["parentTaskId"]))
    }
  }

  /// Whether a slot of `pi.live` is that of this call.
  func fits(_ slot: JSON) -> Bool {
    if parent != nil { return task != nil && TaskID(slot["taskId"]) == task }
    return slot["callId"]?.string == callId
  }

  func add(to object: inout JSONObject) {
    object["toolCallId"] = .string(callId)
    object["toolName"] = .string(name)
    object["taskId"] = task?.json
    object["parentToolCallId"] = parent.map { .string($0.callId) }
    object["parentTaskId"] = parent?.task?.json
  }
}

/// What a running call has published since the last event about it.
public struct ToolUpdate: Sendable, Equatable {
  /// A change of the output that is kept.
  public enum Output: Sendable, Equatable {
    /// This many UTF-16 units were dropped at the front, and this was added at the end.
    case moved(trimStart: Int, append: JSONString)
    case set(JSONString)

    var json: JSON {
      switch self {
      case .set(let text): return ["set": .string(text)]
      case .moved(let trimStart, let append):
        var object: JSONObject = [:]
        if trimStart > 0 { object["trimStart"] = .int(trimStart) }
        if append != "" { object["append"] = .string(append) }
        return .object(object)
      }
    }
  }

  public var output: Output?
  /// How much of the output is not kept.
  public var droppedBytes: Int64?
  public var droppedLines: Int64?
  /// Null once there are none any more.
  public var details: JSON?
  /// Empty once there are none any more.
  public var diagnostics: JSON?

  package init() {}

  package var isEmpty: Bool { self == ToolUpdate() }

  func add(to object: inout JSONObject) {
    object["output"] = output?.json
    object["droppedBytes"] = droppedBytes.map { .int($0) }
    object["droppedLines"] = droppedLines.map { .int($0) }
    object["details"] = details
    object["diagnostics"] = diagnostics
  }
}

/// One change of an answer that is arriving.
public enum MessageChange: Sendable, Equatable {
  /// A block of text, of thinking or of a call was inserted.
  case start(Int, block: JSON)
  case textDelta(Int, JSONString)
  case thinkingDelta(Int, JSONString)
  /// Text was added to a string of a call's arguments, to which the path leads.
  case toolCallDelta(Int, path: [PathSegment], JSONString)
  /// A block changed in another way; this is the whole.
  case block(Int, JSON)
  /// The message changed in another way; this is the whole.
  case message(JSON)

  /// The operation on the message.
  package var operation: Operation {
    switch self {
    case .start(let index, let block):
      .splice(["content"], at: index, remove: 0, insert: [block])
    case .textDelta(let index, let text): .append(["content", .index(index), "text"], text)
    case .thinkingDelta(let index, let text):
      .append(["content", .index(index), "thinking"], text)
    case .toolCallDelta(let index, let path, let text):
      .append(["content", .index(index), "arguments"] + path, text)
    case .block(let index, let block): .set(["content", .index(index)], block)
    case .message(let message): .replace(message)
    }
  }
}
