import Perdure
import PerdureModel
import PerdureValue

/// Tools whose work is done by other conversations or other tools, and the hooks of the scenarios.
enum ScenarioCalls {
  private static let goesOn = "go on: "

  /// A run goes on with what its answer says; a call whose line says so is blocked or changed.
  static let hooks: [Hook] = [
    .onYield { message, _ in
      let items = message["content"]?.array ?? []
      let text = items.filter { $0["type"] == "text" }.compactMap { $0["text"]?.text }.joined()
      return text.hasPrefix(goesOn)
        ? .string(JSONString(String(text.dropFirst(goesOn.count)))) : nil
    },
    .beforeTool { call, _ in
      switch call.arguments["line"]?.text {
      case "blocked": return .deny("not this line")
      case "changed":
        var arguments = call.arguments.object ?? [:]
        arguments["line"] = "another"
        return .change(arguments: .object(arguments))
      default: return .proceed
      }
    },
  ]

  /// Lets a conversation of its own do the turns.
  static func ask(_ call: ToolCall) async throws -> ToolResult {
    let known = try await call.commit { tx in
      let query = ConversationQuery(ownerTaskId: call.taskId)
      if let found = try await tx.scanConversations(query, PageRequest(limit: 1)).items.first {
        return found.id
      }
      return try await tx.createConversation(ownedBy: call.taskId).id
    }
    guard let child = try await call.conversation(known) else {
      throw PerdureError(.notFound, "there is no conversation \(known)")
    }
    let submission = try await child.submit(
      call.arguments["turns"]?.compactText ?? "",
      requestId: "task:\(call.taskId)"
    )
    if call.arguments["leave"] == true { return .text("begun") }
    let record = try await submission.wait()
    if call.arguments["fail"] == true { throw PerdureError(.invalidInput, "this tool fails") }
    var reason = ""
    if case .unanswered(let text, _, _) = record.state { reason = text }
    return .text("\(record.status.rawValue) \(reason)")
  }

  /// Makes calls of other tools, one after another or all at once, and leaves the last ones alone.
  static func chain(_ call: ToolCall, _ events: Events) async throws -> ToolResult {
    let calls = call.arguments["calls"]?.array ?? []
    var results = [JSON](repeating: .null, count: calls.count)
    if call.arguments["together"] == true {
      try await withThrowingTaskGroup { group in
        for (place, each) in calls.enumerated() {
          group.addTask { (place, try await result(of: each, in: call)) }
        }
        for try await (place, result) in group { results[place] = result }
      }
    } else {
      for (place, each) in calls.enumerated() {
        results[place] = try await result(of: each, in: call)
      }
    }
    try await leave(call.arguments["left"]?.array ?? [], call, events)
    if call.arguments["fail"] == true { throw PerdureError(.invalidInput, "this tool fails") }
    var end = ToolResult.text("\(results.count) results")
    end.details = ["results": .array(results)]
    return end
  }

  private static func result(of each: JSON, in call: ToolCall) async throws -> JSON {
    let result = try await call.executeTool(
      each["name"]?.text ?? "",
      each["arguments"] ?? [:],
      key: each["key"]?.text,
      showsProgress: each["progress"] != false
    ).json
    var object = JSONObject()
    for name: JSONString in ["structuredOutput", "isError", "details", "usage"] {
      if let member = result[name], member != .null { object[name] = member }
    }
    return .object(object)
  }

  /// Begins calls for which nobody waits, and returns when they run.
  private static func leave(_ calls: [JSON], _ call: ToolCall, _ events: Events) async throws {
    for each in calls { Task { _ = try? await result(of: each, in: call) } }
    while events.isWriting, events.waiting < calls.count {
      try await call.host.sleep(milliseconds: 2)
    }
  }
}
