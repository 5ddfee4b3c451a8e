import PerdureModel
import PerdureValue

/// What the built-in tasks do to `pi.live`, in the words of that document.
extension Transaction {
  /// Creates a generation that owns the run of `inputs`.
  func startRun(
    _ conversation: ConversationID,
    inputs: [SubmissionID],
    definition: TaskDefinition
  ) async throws {
    let task = try await createTask(definition, input: [:], conversation: conversation)
    try await edit(.live, conversation) { live in
      try live.assign(
        ["run"],
        ["taskId": task.id.json, "inputs": .array(inputs.map { $0.json })]
      )
    }
  }

  /// The submissions that the run of `task` has to settle; none if another task owns the run.
  func inputs(of task: TaskID, _ conversation: ConversationID) async throws -> [SubmissionID] {
    let run = try await value(.live, conversation)["run"]
    guard TaskID(run?["taskId"]) == task else { return [] }
    return (run?["inputs"]?.array ?? []).compactMap { SubmissionID($0) }
  }

  /// Ends the run of `task`: settles its inputs and clears what was going on.
  func endRun(
    of task: TaskID,
    _ conversation: ConversationID,
    _ settlement: (SubmissionRecord) throws -> SubmissionRecord.State
  ) async throws {
    let inputs = try await inputs(of: task, conversation)
    for input in inputs { try await settle(input, settlement) }
    let ownsRun = try await TaskID(value(.live, conversation)["run"]?["taskId"]) == task
    try await edit(.live, conversation) { live in
      let keys: [JSONString] = ["generation", "tools", "nestedTools"]
      for key in keys + (ownsRun ? ["run"] : []) where live.value[key] != nil {
        try live.delete([.key(key)])
      }
    }
  }

  /// Settles the inputs of a run that got no answer.
  func endRun(
    of task: TaskID,
    _ conversation: ConversationID,
    reason: String,
    detail: String? = nil
  ) async throws {
    try await endRun(of: task, conversation) { record in
      .unanswered(reason: reason, detail: detail.map { .string($0) }, entry: record.entry)
    }
  }

  /// Turns a committed partial answer into an aborted entry.
  func convertPartial(_ conversation: ConversationID) async throws {
    guard var message = try await value(.live, conversation)["generation"]?["message"]?.object
    else { return }
    message["stopReason"] = "aborted"
    try await appendAnswer(.object(message), to: conversation)
    try await edit(.live, conversation) { try $0.delete(["generation", "message"]) }
  }

  /// Appends an assistant entry and adds what it cost.
  @discardableResult
  func appendAnswer(_ message: JSON, to conversation: ConversationID) async throws -> EntryRecord {
    let entry = try await append(
      EntryDraft(kind: "pi.assistant", model: [message]),
      to: conversation
    )
    let provider = message["provider"]?.string?.string ?? ""
    let model = message["model"]?.string?.string ?? ""
    try await addUsage(
      Usage(json: message["usage"] ?? [:]),
      "models",
      JSONString("\(provider)/\(model)"),
      conversation
    )
    return entry
  }

  /// Adds to one bucket of `pi.usage`.
  func addUsage(
    _ usage: Usage,
    _ bucket: JSONString,
    _ key: JSONString,
    _ conversation: ConversationID
  ) async throws {
    try await edit(.usage, conversation) { document in
      var total = Usage()
      let current = document.value[bucket]?[key]
      if let current { total = Usage(json: current) }
      total.add(usage)
      try document.assign([.key(bucket), .key(key)], total.json)
    }
  }

  /// The slot of a tool task, if `pi.live` still lists it.
  func slot(of task: TaskID, _ conversation: ConversationID) async throws -> JSON? {
    let live = try await value(.live, conversation)
    return live.slot(of: task).flatMap { live.value(at: $0) }
  }

  /// Changes the slot of a tool task, if `pi.live` still lists it.
  func editSlot(
    of task: TaskID,
    _ conversation: ConversationID,
    _ body: (inout DocumentDraft, [PathSegment]) throws -> Void
  ) async throws {
    try await edit(.live, conversation) { live in
      guard let slot = live.value.slot(of: task) else { return }
      try body(&live, slot)
    }
  }

  /// Removes what a running call has published from its slot.
  func clearProgress(of task: TaskID, _ conversation: ConversationID) async throws {
    try await editSlot(of: task, conversation) { live, path in
      try live.clearProgress(path)
    }
  }
}

extension DocumentDraft {
  /// Removes the members that a slot has only while its call runs.
  mutating func clearProgress(_ slot: [PathSegment]) throws {
    let keys: [JSONString] = ["output", "droppedBytes", "droppedLines", "details", "diagnostics"]
    for key in keys where value.value(at: slot)?[key] != nil { try delete(slot + [.key(key)]) }
  }
}

extension JSON {
  /// Where the slot of a tool task lies in a value of `pi.live`.
  func slot(of task: TaskID) -> [PathSegment]? {
    let slots = self["tools"]?.array ?? []
    if let position = slots.firstIndex(where: { TaskID($0["taskId"]) == task }) {
      return ["tools", .index(position)]
    }
    // Slots of nested calls lie in the order of their tasks, and there may be many.
    let nested = self["nestedTools"]?.array ?? []
    var range = nested.indices
    while !range.isEmpty {
      let middle = range.lowerBound + range.count / 2
      guard let found = TaskID(nested[middle]["taskId"]) else { return nil }
      if found == task { return ["nestedTools", .index(middle)] }
      range = found < task ? (middle + 1)..<range.upperBound : range.lowerBound..<middle
    }
    return nil
  }
}
