import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue

/// Tools whose work is done by other conversations or other tools.
enum Subagent {
  /// What a conversation is asked that a tool owns.
  static let question = "dig"

  static func tools(of walk: WalkThrough, _ replay: ReplayPolicy) -> [Tool] {
    guard let name = walk.outerTool else { return [] }
    return [
      Tool(
        name: name,
        description: "Lets others work.",
        parameters: ["type": "object"],
        replay: replay
      ) { call in
        if walk == .nestedCalls { return try await callNotes(call) }
        return try await ask(call, waits: walk == .subagent)
      }
    ]
  }

  private static func callNotes(_ call: ToolCall) async throws -> ToolResult {
    let one = try await call.executeTool("note", ["line": "one"])
    let two = try await call.executeTool("note", ["line": "two"], key: "second")
    return .text([one, two].map { $0.structuredOutput?.text ?? "nothing" }.joined(separator: ", "))
  }

  private static func ask(_ call: ToolCall, waits: Bool) async throws -> ToolResult {
    guard let runtime = (call.invocation as? ToolInvocation)?.runtime, let engine = runtime.engine
    else { throw PerdureError(.invalidInput, "the call has no engine") }
    let child = try await runtime.commitValue { tx, record in
      let query = ConversationQuery(ownerTaskId: record.id)
      if let known = try await tx.scanConversations(query, PageRequest(limit: 1)).items.first {
        return known.id
      }
      return try await tx.createConversation(owner: record.id).id
    }
    let id = try await engine.submit(
      .string(question),
      to: child,
      requestId: "task:\(runtime.taskId)"
    )
    if !waits { return .text("begun") }
    let settled = try await engine.wait(for: id)
    return .text("it ended: \(settled.status.rawValue)")
  }
}

extension WalkThrough {
  /// The tool that the model calls first, if that is not the one that writes notes.
  var outerTool: String? {
    switch self {
    case .subagent, .heldSubagent: "ask"
    case .nestedCalls: "notes"
    default: nil
    }
  }
}

/// A task that begins a run in a conversation of its own, and faults when a call of it runs.
struct FaultingTask: DefinedTask {
  let name = "crash.faulting"
  let definition: TaskDefinition

  init(starts: AsyncStream<Void>) {
    definition = TaskDefinition(
      name: JSONString(name),
      version: 1,
      initial: { _ in ["phase": "plant"] },
      phases: [
        "plant": { runtime, _ in
          try await runtime.commit { tx, record in
            let child = try await tx.createConversation(owner: record.id)
            return .running(checkpoint: ["phase": "fault", "child": child.id.json])
          }
        },
        "fault": { try await Self.fault($0, $1, starts) },
      ],
      abort: { runtime, _ in
        try await runtime.commit { _, _ in .terminal(.aborted()) }
      },
      migrate: nil,
      settle: { _, _, _ in }
    )
  }

  private static func fault(
    _ runtime: TaskRuntime,
    _ record: TaskRecord,
    _ starts: AsyncStream<Void>
  ) async throws {
    guard let engine = runtime.engine, let child = ConversationID(record.state.checkpoint?["child"])
    else { throw PerdureError(.invalidInput, "the task has no conversation") }
    let id = try await engine.submit(
      .string(Subagent.question),
      to: child,
      requestId: "task:\(runtime.taskId)"
    )
    // A call that a death cut off may not run again; then its run ends.
    await withTaskGroup { group in
      group.addTask { for await _ in starts { return } }
      group.addTask { _ = try? await engine.wait(for: id) }
      await group.next()
      group.cancelAll()
    }
    throw PerdureError(.invalidInput, "the task faults")
  }

  /// Runs such a task to its end, from wherever the store has it.
  static func play(_ engine: Engine, _ root: ConversationID) async throws -> JSONObject {
    let task = FaultingTask(starts: AsyncStream { $0.finish() })
    let id = try await engine.session.commit { tx in
      let query = TaskQuery(kind: task.definition.name)
      if let known = try await tx.scanTasks(query, PageRequest(limit: 1)).items.first {
        return known.id
      }
      return try await tx.createTask(task.definition, input: [:], conversation: root).id
    }
    let record = try await engine.waitForTask(id)
    await engine.waitUntilQuiet()
    var end = "something else"
    if case .faulted? = record.state.outcome { end = "faulted" }
    let open = try await engine.session.store.scanSubmissions(
      SubmissionQuery(status: .placed),
      PageRequest(limit: 9)
    ).items.count
    let violations = try await StoreInvariants.violations(of: engine.session.store)
    return [
      "context": [], "settled": [.string(end)],
      "submissions": .int(Int64(open)), "live": .int(Int64(engine.session.liveTasks.count)),
      "violations": .array(violations.map { .string($0) }),
    ]
  }
}
