import PerdureModel
import PerdureValue

/// Where a call belongs that a tool made of another one.
struct NestedCall: Sendable {
  /// The task of the calling tool.
  var parent: TaskID
  var parentCallId: JSONString
  /// Names it among the calls of its caller.
  var key: JSONString
  var showsProgress: Bool

  /// Kept by a calling task before its first call of another tool.
  static let memo: JSONString = "pi.tool.madeNestedCalls"

  /// How much of an error a slot shows, in characters.
  private static let shownErrorLength = 500

  /// Reads the input of a task, with the call that no entry holds.
  static func call(in input: JSON) -> RequestedCall? {
    guard input["kind"] == "nested", let parent = TaskID(input["parent"]),
      let parentCallId = input["parentCallId"]?.string, let key = input["key"]?.string,
      let id = input["call"]?["id"]?.string, let name = input["call"]?["name"]?.string
    else { return nil }
    return RequestedCall(
      id: id,
      name: name,
      arguments: input["call"]?["arguments"] ?? [:],
      nested: NestedCall(
        parent: parent,
        parentCallId: parentCallId,
        key: key,
        showsProgress: input["progress"] != false
      )
    )
  }

  /// Throws `invalidInput` unless a key that was given can be a part of a call id of its own.
  static func check(_ key: String) throws {
    let bytes = Array(key.utf8)
    let isNumber =
      bytes.first.map { (UInt8(ascii: "1")...UInt8(ascii: "9")).contains($0) } == true
      && bytes.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    guard !bytes.isEmpty, !bytes.contains(UInt8(ascii: "/")), key != "__proto__", !isNumber else {
      throw PerdureError(
        .invalidInput,
        "'\(key)' cannot be the key of a nested call",
        hint: "use a word without '/' that is no number"
      )
    }
  }

  /// The call as it is stored and shown.
  private static func call(_ id: JSONString, _ name: JSONString, _ arguments: JSON) -> JSONObject {
    ["type": "toolCall", "id": .string(id), "name": .string(name), "arguments": arguments]
  }

  /// Creates the task of a call and its slot, or finds the call that has this key.
  static func admit(
    _ runtime: TaskRuntime,
    _ caller: RequestedCall,
    _ name: JSONString,
    _ arguments: JSON,
    _ nested: NestedCall,
    abandonsOnRestart: Bool
  ) async throws -> TaskID {
    let id = JSONString("\(caller.id.string)/\(nested.key.string)")
    var input: JSONObject = [
      "kind": "nested", "parent": nested.parent.json, "parentCallId": .string(caller.id),
      "key": .string(nested.key), "call": .object(call(id, name, arguments)),
    ]
    if !nested.showsProgress { input["progress"] = false }
    let stored = input
    return try await runtime.commitValue { tx, record in
      let scope = DocumentScope.task(record.id)
      let known = try await tx.value(.nestedCall, in: scope, key: nested.key)?["taskId"]
      if let existing = TaskID(known) {
        let made = try await tx.task(existing).flatMap { Self.call(in: $0.input) }
        guard made?.name == name, made?.arguments == arguments else {
          throw PerdureError(
            .invalidInput,
            "the nested call '\(id.string)' was already made with another tool or other arguments",
            hint: "give each call a key of its own, and make it again as it was",
            details: ["reason": "key_conflict"]
          )
        }
        return existing
      }
      let task = try await tx.createTask(
        ToolTask.definition,
        input: .object(stored),
        owner: record.id,
        conversation: record.conversationId,
        abandonOnRestart: abandonsOnRestart
      )
      try await tx.edit(.nestedCall, in: scope, key: nested.key) { document in
        try document.set(["taskId"], task.id.json)
      }
      try await tx.addNestedSlot(
        [
          "callId": .string(id), "parentCallId": .string(caller.id),
          "parentTaskId": record.id.json, "name": .string(name), "taskId": task.id.json,
          "arguments": arguments, "status": "pending",
        ],
        record.conversationId
      )
      return task.id
    }
  }

  /// What the caller gets of a call that the scheduler ended, which stored no result.
  static func result(of task: TaskRecord, _ name: String) -> NestedToolResult {
    let (code, text) =
      switch task.state.outcome {
      case .faulted(let message, _)?: ("faulted", "the tool '\(name)' failed: \(message)")
      case .orphaned(let reason)?: ("orphaned", "the tool '\(name)' could not go on: \(reason)")
      default: ("aborted", "the tool '\(name)' ended without a result")
      }
    return NestedToolResult(
      taskId: task.id,
      isError: true,
      diagnostics: [ToolDiagnostic(.error, text, code: code)]
    )
  }

  /// What programs get of a tool that says nothing about it: its output.
  static func value(of output: [JSON]) -> JSON {
    guard let only = output.first else { return "" }
    if output.count > 1 { return .array(output) }
    return only["type"] == "text" ? only["text"] ?? "" : only
  }

  /// How a call ended, for its slot; `output` is told of only if no diagnostic says what is wrong.
  static func summary(_ result: NestedToolResult, output: [JSON]) -> JSON {
    var summary: JSONObject = ["isError": .bool(result.isError)]
    if let durationMs = result.durationMs { summary["durationMs"] = .int(durationMs) }
    if let usage = result.usage { summary["usage"] = usage.json }
    if result.isError {
      let hasErrors = result.diagnostics.contains { $0.severity == .error }
      let text = hasErrors ? result.errorText : text(of: output)
      if !text.isEmpty { summary["error"] = .string(String(text.prefix(shownErrorLength))) }
    }
    return .object(summary)
  }

  static func text(of output: [JSON]) -> String {
    output.filter { $0["type"] == "text" }.compactMap { $0["text"]?.string?.string }
      .joined(separator: "\n")
  }
}

/// What nested calls do to `pi.live`.
extension Transaction {
  fileprivate func addNestedSlot(_ slot: JSON, _ conversation: ConversationID) async throws {
    try await edit(.live, conversation) { live in
      guard let count = live.value["nestedTools"]?.array?.count else {
        return try live.set(["nestedTools"], [slot])
      }
      try live.splice(["nestedTools"], at: count, remove: 0, insert: [slot])
    }
  }

  /// Removes the slots of all calls that were made below a task.
  func removeNestedSlots(below task: TaskID, _ conversation: ConversationID) async throws {
    let slots = try await value(.live, conversation)["nestedTools"]?.array ?? []
    // Callers come before those that they call.
    var removed: Set<TaskID> = [task]
    var positions: [Int] = []
    for (position, slot) in slots.enumerated() {
      guard let parent = TaskID(slot["parentTaskId"]), removed.contains(parent) else { continue }
      positions.append(position)
      if let id = TaskID(slot["taskId"]) { removed.insert(id) }
    }
    guard !positions.isEmpty else { return }
    try await edit(.live, conversation) { live in
      if positions.count == slots.count { return try live.delete(["nestedTools"]) }
      for position in positions.reversed() {
        try live.splice(["nestedTools"], at: position, remove: 1, insert: [])
      }
    }
  }
}
