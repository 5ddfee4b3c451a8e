package import PerdureModel
package import PerdureValue

/// How a run ends, or goes on with another generation; each is one commit of its task.
extension Transaction {
  /// Hands the run of `task` to a new generation; `users` join its inputs.
  func handOverRun(
    of task: TaskID,
    _ conversation: ConversationID,
    adding users: [SubmissionID] = []
  ) async throws {
    let next = try await createTask(
      GenerationTask.definition,
      input: [:],
      conversation: conversation
    )
    try await edit(.live, conversation) { live in
      guard let run = live.value["run"], TaskID(run["taskId"]) == task else { return }
      try live.set(["run", "taskId"], next.id.json)
      for user in users {
        let count = live.value["run"]?["inputs"]?.array?.count ?? 0
        try live.splice(["run", "inputs"], at: count, remove: 0, insert: [user.json])
      }
    }
  }

  /// Settles the inputs of a run with this answer, and ends it.
  func endRun(
    of task: TaskID,
    _ conversation: ConversationID,
    answer: EntryID
  ) async throws {
    try await endRun(of: task, conversation) { submission in
      guard let placed = submission.entry else { return submission.state }
      return .done(entry: placed, answer: answer)
    }
  }

  /// Starts the run of what a boundary placed, if it placed inputs.
  private func startNextRun(_ placed: Boundary.Placed, _ conversation: ConversationID) async throws
  {
    guard !placed.users.isEmpty else { return }
    try await startRun(conversation, inputs: placed.users, definition: GenerationTask.definition)
  }

  /// Ends a run with its answer, and begins the next one with what is queued.
  ///
  /// `continuation` is user content with which the run would rather go on: it does unless a queued
  /// input or reset comes first, and then its inputs stay open. Returns the entry of the answer.
  @discardableResult
  package func answerRun(
    of task: TaskID,
    _ conversation: ConversationID,
    _ message: JSON,
    continuation: JSON? = nil,
    _ modes: QueueModes
  ) async throws -> EntryID {
    var boundary = try await prepareBoundary(conversation, modes)
    let answer = try await appendAnswer(message, to: conversation)
    let placed = try await boundary.apply(.final, self)
    if let continuation, placed.users.isEmpty, !placed.hasReset {
      try await appendInput(continuation, to: conversation)
      try await edit(.live, conversation) { live in
        if live.value["generation"] != nil { try live.delete(["generation"]) }
      }
      try await handOverRun(of: task, conversation)
      return answer.id
    }
    try await endRun(of: task, conversation, answer: answer.id)
    try await startNextRun(placed, conversation)
    return answer.id
  }

  /// What the end of a failed run reads before the commit's first table write.
  struct FailedRun {
    var policy: AfterFailedRun
    var boundary: Boundary?
  }

  /// Prepares the end of a failed run; before the first table write.
  func prepareFailedRun(
    _ conversation: ConversationID,
    _ settings: Settings
  ) async throws -> FailedRun {
    let policy = settings.afterFailedRun
    guard policy == .continue else { return FailedRun(policy: policy) }
    let boundary = try await prepareBoundary(conversation, settings.queueModes)
    return FailedRun(policy: policy, boundary: boundary)
  }

  /// Ends a run without an answer, and does with what is queued behind it as the settings say.
  func endFailedRun(
    _ run: FailedRun,
    of task: TaskID,
    _ conversation: ConversationID,
    reason: String,
    detail: String? = nil
  ) async throws {
    try await endRun(of: task, conversation, reason: reason, detail: detail)
    if run.policy == .withdraw { try await withdrawInputs(of: conversation, reason: "run_failed") }
    guard var boundary = run.boundary else { return }
    try await startNextRun(try await boundary.apply(.final, self), conversation)
  }

  /// Ends a round of tools as its results ask: the run goes on, or ends here.
  func endRound(
    of task: TaskID,
    _ conversation: ConversationID,
    assistant: EntryID,
    _ control: RoundControl,
    _ modes: QueueModes
  ) async throws {
    var boundary = try await prepareBoundary(conversation, modes)
    try await addTools(control.addedTools, to: conversation)
    if control.terminates || control.handoff != nil {
      if let handoff = control.handoff {
        let reset = try await append(.reset(handoff: .string(handoff), at: now), to: conversation)
        boundary.start = reset.id
      }
      let placed = try await boundary.apply(.final, self)
      try await endRun(of: task, conversation, answer: assistant)
      return try await startNextRun(placed, conversation)
    }
    let placed = try await boundary.apply(.postTools, self)
    if placed.hasReset {
      // The context was cut before there was an answer.
      try await endRun(of: task, conversation, reason: "reset")
      return try await startNextRun(placed, conversation)
    }
    try await edit(.live, conversation) { live in
      for key in ["tools", "nestedTools"] as [JSONString] where live.value[key] != nil {
        try live.delete([.key(key)])
      }
    }
    try await handOverRun(of: task, conversation, adding: placed.users)
  }

  /// Makes tools available to the next request of a conversation, by name.
  private func addTools(_ names: [JSONString], to conversation: ConversationID) async throws {
    guard !names.isEmpty else { return }
    try await edit(.agent, conversation) { agent in
      if let tools = agent.value["tools"] {
        try agent.assign(["tools"], Self.adding(names, to: tools, loads: false))
      }
      let offered = agent.value["modelTools"] ?? [:]
      try agent.assign(["modelTools"], Self.adding(names, to: offered, loads: true))
    }
  }

  /// A list gets the names that it lacks; an edit no longer removes them, and may load them.
  private static func adding(_ names: [JSONString], to choice: JSON, loads: Bool) -> JSON {
    func appended(_ list: [JSON]) -> [JSON] {
      names.reduce(into: list) { list, name in
        if !list.contains(.string(name)) { list.append(.string(name)) }
      }
    }
    if let list = choice.array { return .array(appended(list)) }
    var edit = choice.object ?? [:]
    if let removed = edit["remove"]?.array {
      let rest = removed.filter { item in !(item.string.map(names.contains) ?? false) }
      // An edit of the offered tools without removals has no such member.
      edit["remove"] = rest.isEmpty && loads ? nil : .array(rest)
    }
    if loads { edit["add"] = .array(appended(edit["add"]?.array ?? [])) }
    return .object(edit)
  }
}

/// What the results of a round ask of their run.
struct RoundControl: Sendable {
  var addedTools: [JSONString] = []
  var terminates = false
  /// The text with which the context begins anew.
  var handoff: JSONString?

  init() {}

  /// Reads the controls of the calls, in call order; a call without a task has none.
  init(_ controls: [JSON?]) {
    terminates = !controls.isEmpty && controls.allSatisfy { $0?["terminate"] == true }
    for control in controls {
      addedTools += (control?["addTools"]?.array ?? []).compactMap { $0.string }
      if let text = control?["handoff"]?.string { handoff = text }
    }
  }
}

extension EntryDraft {
  /// The entry that starts the active context anew, with user content if there is some.
  static func reset(handoff: JSON?, at now: Int64) -> EntryDraft {
    let message = handoff.map { content -> JSON in
      ["role": "user", "content": content, "timestamp": .int(now)]
    }
    return EntryDraft(kind: "pi.reset", model: message.map { [$0] }, head: .itself)
  }
}
