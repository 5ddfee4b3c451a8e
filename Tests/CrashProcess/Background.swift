import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue

/// A task that goes on in the background of the run whose call began it.
struct BackgroundTask: DefinedTask {
  let name = "crash.background"
  let definition: TaskDefinition

  init() {
    definition = TaskDefinition(
      name: "crash.background",
      version: 1,
      initial: { _ in ["phase": "rest"] },
      phases: [
        "rest": { runtime, _ in
          try await runtime.commit { tx, _ in
            .sleeping(checkpoint: ["phase": "work"], until: tx.now)
          }
        },
        "work": { runtime, record in
          try await runtime.commit { tx, record in
            try await tx.append(EntryDraft(kind: "crash.note"), to: record.conversationId)
            return .terminal(.completed(result: "worked"))
          }
        },
      ],
      abort: { runtime, _ in try await runtime.commit { _, _ in .terminal(.aborted()) } },
      migrate: nil,
      settle: { _, _, _ in }
    )
  }

  /// Begins the task unless another call, or this one before a death, has.
  func begin(_ call: ToolCall) async throws {
    guard let runtime = (call.invocation as? ToolInvocation)?.runtime else {
      throw PerdureError(.invalidInput, "the call has no engine")
    }
    try await runtime.commitValue { tx, record in
      let query = TaskQuery(kind: definition.name)
      guard try await tx.scanTasks(query, PageRequest(limit: 1)).items.isEmpty else { return }
      _ = try await tx.createTask(
        definition,
        input: [:],
        conversation: record.conversationId,
        background: true
      )
    }
  }

  /// What is wrong once everything has ended: there is one at most, and it has worked once.
  func problems(_ session: Session) async throws -> [String] {
    let tasks = try await session.store.scanTasks(
      TaskQuery(kind: definition.name),
      PageRequest(limit: 9)
    ).items
    let notes = try await session.store.scanEntries(
      EntryQuery(conversationId: .root),
      PageRequest(limit: 256)
    ).items.filter { $0.kind == "crash.note" }
    let ended = tasks.filter { $0.state.outcome?.isCompleted == true }
    if tasks.count <= 1, ended.count == tasks.count, notes.count == tasks.count { return [] }
    return ["\(tasks.count) background tasks, \(ended.count) completed, \(notes.count) notes"]
  }
}

/// A person who says yes to everything.
struct Approver {
  let engine: Engine

  /// Answers each question until the submission is settled.
  func answer(until id: SubmissionID) async throws {
    let (changes, change) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
    let stop = engine.session.publications.subscribe { _ in change.yield() }
    defer { stop() }
    change.yield()
    try await withThrowingTaskGroup { group in
      group.addTask { for await _ in changes { try await answerAll() } }
      group.addTask { _ = try await engine.wait(for: id) }
      try await group.next()
      group.cancelAll()
    }
  }

  private func answerAll() async throws {
    for task in engine.session.liveTasks.values where task.kind == Approval.kind {
      do {
        _ = try await engine.decide(task.id, ApprovalDecision(isAllowed: true))
      } catch let error as PerdureError where error.code == .invalidRequest {
        // It ended meanwhile.
        continue
      }
    }
  }
}
