import Perdure

/// Hands a question to a conversation that the call owns, and waits for the answer.
let ask = Tool(
  name: "ask",
  description: "Lets another agent answer a question, and returns its answer.",
  parameters: [
    "type": "object",
    "properties": ["question": ["type": "string"]],
    "required": ["question"],
  ],
  // It may run again, because it then finds what it had begun.
  replay: .safe
) { call in
  let child = try await call.commit { try await ownConversation(of: call.taskId, $0) }
  guard let conversation = try await call.conversation(child) else {
    throw PerdureError(.notFound, "conversation \(child) is gone")
  }
  let question = call.arguments["question"]?.text ?? ""
  // The ids of calls are not unique in a store; those of tasks are.
  let submission = try await conversation.submit(question, requestId: "ask:\(call.taskId)")
  return .text(try await submission.answer())
}

/// Begins a background task that hands on a question, and returns at once.
let delegate = Tool(
  name: "delegate",
  description: "Lets another agent answer a question, and reports its answer when there is one.",
  parameters: [
    "type": "object",
    "properties": ["question": ["type": "string"]],
    "required": ["question"],
  ],
  replay: .safe
) { call in
  let question = call.arguments["question"]?.text ?? ""
  // Remembered for the call, so that a second run of it begins no second task.
  let id = try await call.commit { tx in
    let query = TaskQuery(conversationId: call.conversationId, kind: "example.errand")
    for task in try await tx.scanTasks(query, PageRequest(limit: 256)).items
    where task.input["call"]?.int == call.taskId.value {
      return task.id
    }
    return try await tx.createTask(
      errand,
      Errand(question: question, call: call.taskId.value),
      TaskOptions(isInBackground: true)
    )
  }
  return .text("task \(id) has begun; its answer will follow")
}

/// What a background task is to find out, and the call that wants to know.
struct Errand: Codable, Sendable {
  var question: String
  var call: Int64
}

/// How far a background task is.
struct ErrandPosition: TaskCheckpoint {
  var phase = "begin"
  var conversation: Int64?
  var answer: String?
}

/// Asks a conversation of its own and submits the answer where it was begun.
let errand = TaskType<Errand, ErrandPosition, String>(
  "example.errand",
  initial: { _ in ErrandPosition() },
  phases: [
    Phase("begin") { run in
      try await run.commit { tx in
        let child = try await ownConversation(of: run.id, tx)
        return .running(ErrandPosition(phase: "ask", conversation: child.value))
      }
    },
    Phase("ask") { run in
      let submission = try await conversation(run.checkpoint.conversation, of: run)
        .submit(run.input.question, requestId: "errand:\(run.id)")
      let answer = try await submission.answer()
      try await run.commit { _ in .running(ErrandPosition(phase: "report", answer: answer)) }
    },
    Phase("report") { run in
      let answer = run.checkpoint.answer ?? ""
      // In the middle of a run it comes after the next round of tools; otherwise it begins one.
      _ = try await conversation(run.conversationId.value, of: run)
        .submit("The errand brought: \(answer)", whenBusy: .steer, requestId: "report:\(run.id)")
      try await run.commit { _ in .completed(answer) }
    },
  ]
)

/// Returns the conversation that a task owns, which the first commit that asks for it creates.
///
/// It runs where the commit does, because a transaction may not leave its commit.
nonisolated(nonsending) private func ownConversation(
  of task: TaskID,
  _ tx: Transaction
) async throws -> ConversationID {
  let owned = ConversationQuery(ownerTaskId: task)
  if let known = try await tx.scanConversations(owned, PageRequest(limit: 1)).items.first {
    return known.id
  }
  let child = try await tx.createConversation(ownedBy: task)
  // It has the choices of the conversation of its owner, but shall not hand questions on.
  try await tx.configure(child.id, .init(tools: []))
  return child.id
}

private func conversation(
  _ id: Int64?,
  of run: TaskRun<Errand, ErrandPosition, String>
) async throws -> BoundConversation {
  guard let id = id.flatMap({ ConversationID($0) }), let found = try await run.conversation(id)
  else { throw PerdureError(.notFound, "the conversation of task \(run.id) is gone") }
  return found
}
