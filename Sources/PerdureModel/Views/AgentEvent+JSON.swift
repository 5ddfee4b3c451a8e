public import PerdureValue

extension AgentEvent {
  /// The name of the event in its JSON form.
  public var type: String {
    switch self {
    case .snapshot: "snapshot"
    case .runStart: "run_start"
    case .runEnd: "run_end"
    case .turnStart: "turn_start"
    case .turnEnd: "turn_end"
    case .messageStart: "message_start"
    case .messageUpdate: "message_update"
    case .messageEnd: "message_end"
    case .toolExecutionStart: "tool_execution_start"
    case .toolExecutionUpdate: "tool_execution_update"
    case .toolExecutionEnd: "tool_execution_end"
    case .inboxUpdate: "inbox_update"
    case .submission: "submission"
    case .autoRetryStart: "auto_retry_start"
    case .autoRetryEnd: "auto_retry_end"
    case .deferredPoll: "deferred_poll"
    case .entryAppended: "entry_appended"
    case .agentChanged: "agent_changed"
    case .usageChanged: "usage_changed"
    case .taskFailed: "task_failed"
    case .compactionStart: "compaction_start"
    case .compactionEnd: "compaction_end"
    case .liveUpdate: "live_update"
    }
  }

  /// The event as an object with the member `type`.
  public var json: JSON {
    var object: JSONObject = ["type": .string(type)]
    switch self {
    case .snapshot(let state): for (key, value) in state.json.object ?? [:] { object[key] = value }
    case .runStart(let inputs), .runEnd(let inputs):
      object["inputs"] = .array(inputs.map { $0.json })
    case .turnStart, .turnEnd: break
    case .messageStart, .messageUpdate, .messageEnd, .entryAppended: addMessage(to: &object)
    case .toolExecutionStart, .toolExecutionUpdate, .toolExecutionEnd: addTool(to: &object)
    case .inboxUpdate(let items): object["items"] = .array(items.map { $0.json })
    case .submission(let record): object["record"] = record.json
    case .autoRetryStart, .autoRetryEnd, .deferredPoll: addRetry(to: &object)
    case .agentChanged(let agent): object["agent"] = agent
    case .usageChanged(let usage): object["usage"] = usage
    case .taskFailed, .compactionStart, .compactionEnd: addTask(to: &object)
    case .liveUpdate(let operations):
      object["operations"] = .array(operations.map { $0.json })
    }
    return .object(object)
  }

  private func addMessage(to object: inout JSONObject) {
    switch self {
    case .messageStart(let message): object["message"] = message
    case .messageUpdate(let usage, let changes):
      object["usage"] = usage
      object["changes"] = .array(changes.map { $0.json })
    case .messageEnd(let entry), .entryAppended(let entry): object["entry"] = entry.json
    default: break
    }
  }

  private func addTool(to object: inout JSONObject) {
    switch self {
    case .toolExecutionStart(let call, let arguments):
      call.add(to: &object)
      object["args"] = arguments
    case .toolExecutionUpdate(let call, let update):
      call.add(to: &object)
      update.add(to: &object)
    case .toolExecutionEnd(let call, let entry, let result, let summary):
      call.add(to: &object)
      object["entry"] = entry?.json
      object["result"] = result
      object["summary"] = summary
    default: break
    }
  }

  private func addRetry(to object: inout JSONObject) {
    switch self {
    case .autoRetryStart(let attempt, let at, let error):
      object["attempt"] = .int(attempt)
      object["at"] = .int(at)
      object["errorMessage"] = .string(error)
    case .autoRetryEnd(let attempt): object["attempt"] = .int(attempt)
    case .deferredPoll(let at): object["pollAt"] = .int(at)
    default: break
    }
  }

  private func addTask(to object: inout JSONObject) {
    switch self {
    case .taskFailed(let task, let kind, let message):
      object["taskId"] = task.json
      object["kind"] = .string(kind)
      object["message"] = .string(message)
    case .compactionStart(let task, let reason, let blocking):
      object["taskId"] = task.json
      object["reason"] = .string(reason)
      object["blocking"] = .bool(blocking)
    case .compactionEnd(let task, let reason, let error):
      object["taskId"] = task.json
      object["reason"] = .string(reason)
      object["error"] = error.map { .string($0) }
    default: break
    }
  }
}

extension MessageChange {
  /// The change as an object with the member `type`.
  public var json: JSON {
    func change(_ type: JSON, _ index: Int, _ key: JSONString, _ value: JSON) -> JSON {
      ["type": type, "contentIndex": .int(index), key: value]
    }
    switch self {
    case .start(let index, let block):
      let type: JSON =
        switch block["type"] {
        case "text": "text_start"
        case "thinking": "thinking_start"
        default: "toolcall_start"
        }
      return change(type, index, "block", block)
    case .textDelta(let index, let text):
      return change("text_delta", index, "delta", .string(text))
    case .thinkingDelta(let index, let text):
      return change("thinking_delta", index, "delta", .string(text))
    case .toolCallDelta(let index, let path, let text):
      return [
        "type": "toolcall_delta", "contentIndex": .int(index),
        "path": .array(path.map { $0.json }), "delta": .string(text),
      ]
    case .block(let index, let block): return change("block", index, "block", block)
    case .message(let message): return ["type": "message", "message": message]
    }
  }
}
