package import PerdureModel
package import PerdureValue

/// What is kept of compactions in `pi.live`, and how a summary gets its place.
extension Transaction {
  /// Creates a compaction and lists it; with an owner, that task waits for it.
  ///
  /// One that is not asked for by anybody and for which nobody waits is background work.
  package func createCompaction(
    _ reason: CompactionReason,
    in conversation: ConversationID,
    owner: TaskID? = nil,
    instructions: JSONString? = nil
  ) async throws -> TaskID {
    var input: JSONObject = ["reason": .string(reason.rawValue)]
    if let instructions { input["instructions"] = .string(instructions) }
    let task = try await createTask(
      CompactionTask.definition,
      input: .object(input),
      owner: owner,
      conversation: conversation,
      background: owner == nil && reason != .manual
    )
    let status: JSON = [
      "taskId": task.id.json, "reason": .string(reason.rawValue), "blocking": .bool(owner != nil),
      "attempt": 1,
    ]
    try await edit(.live, conversation) { live in
      guard let listed = live.value["compactions"]?.array else {
        return try live.set(["compactions"], [status])
      }
      try live.splice(["compactions"], at: listed.count, remove: 0, insert: [status])
    }
    return task.id
  }

  /// Changes the status of a compaction, if it is listed.
  func editCompaction(
    _ task: TaskID,
    _ conversation: ConversationID,
    _ body: (inout DocumentDraft, [PathSegment]) throws -> Void
  ) async throws {
    try await edit(.live, conversation) { live in
      let listed = live.value["compactions"]?.array ?? []
      guard let place = listed.firstIndex(where: { TaskID($0["taskId"]) == task }) else { return }
      try body(&live, ["compactions", .index(place)])
    }
  }

  /// Takes a compaction off the list.
  func removeCompaction(_ task: TaskID, _ conversation: ConversationID) async throws {
    try await editCompaction(task, conversation) { live, status in
      if live.value["compactions"]?.array?.count == 1 {
        try live.delete(["compactions"])
      } else {
        try live.delete(status)
      }
    }
  }

  /// Takes a compaction off the list and keeps why it came to nothing.
  func failCompaction(
    _ task: TaskID,
    _ conversation: ConversationID,
    _ message: String
  ) async throws {
    try await editCompaction(task, conversation) { live, status in
      let reason = live.value.value(at: status)?["reason"] ?? "manual"
      try live.set(
        ["compactionFailure"],
        ["taskId": task.json, "reason": reason, "error": .string(message)]
      )
    }
    try await removeCompaction(task, conversation)
  }

  /// Gives a summary its place and returns the end of its task.
  ///
  /// Where a generation waits, the summary is appended here. Otherwise it is submitted as a write,
  /// which is placed, queued or found stale as any other.
  func place(
    summary: JSONString,
    firstKept: EntryID,
    of record: TaskRecord,
    _ settings: Settings
  ) async throws -> TaskState {
    let conversation = record.conversationId
    try await removeCompaction(record.id, conversation)
    try await edit(.live, conversation) { try $0.delete(["compactionFailure"]) }
    let draft = EntryDraft(
      kind: CompactionTask.entryKind,
      model: [SummaryText.message(summary, at: now)],
      data: ["reason": .string(CompactionTask.reason(of: record).rawValue)],
      head: .entry(firstKept)
    )
    if record.owner != nil {
      let entry = try await append(draft, to: conversation)
      return .terminal(.completed(result: ["entryId": entry.id.json]))
    }
    let submission = try await admit(
      .write(draft),
      to: conversation,
      requestId: JSONString("compaction:\(record.id)"),
      settings.queueModes
    )
    return .terminal(.completed(result: ["submissionId": submission.json]))
  }
}
