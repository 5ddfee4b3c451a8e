import PerdureEngine
import PerdureModel
import PerdureValue

/// Makes a conversation with a fork, deletes both, and removes all that is over; what was done
/// before a death is not done again.
struct Removal {
  let session: Session

  private static let scope = "crash.test"
  private static let task = TaskDefinition(
    name: "crash.task",
    version: 1,
    initial: { _ in ["phase": "start"] },
    phases: [:],
    abort: { _, _ in },
    migrate: nil,
    settle: { _, _, _ in }
  )

  /// Returns what is left of what was removed, or gone of what stays.
  func play() async throws -> [String] {
    try await make()
    guard let fact = try await session.store.extra(scope: Self.scope, id: 0) else {
      return ["nothing was made"]
    }
    let ids = (fact["conversations"]?.array ?? []).compactMap { ConversationID($0) }
    if let first = ids.first, try await session.store.conversation(first) != nil {
      try await session.delete(first, includingForks: true)
    }
    _ = try await session.removeExpired(tasksEndedBefore: .max, submissionsBefore: .max)
    try await session.store.compact()
    return try await look(fact, ids)
  }

  private func make() async throws {
    if try await session.store.extra(scope: Self.scope, id: 0) != nil { return }
    try await session.commit { tx in
      let parent = try await tx.createConversation().id
      let entry = try await tx.append(EntryDraft(kind: "test"), to: parent)
      let task = try await tx.createTask(Self.task, input: [:], conversation: parent)
      var ended = task
      ended.state = .terminal(.completed(result: .null))
      try await tx.replace(ended)
      let other = try await tx.createConversation(owner: nil).id
      let fact: JSON = [
        "conversations": [parent.json], "other": other.json, "entry": entry.id.json,
        "task": task.id.json,
      ]
      try tx.put(extra: ExtraWrite(scope: Self.scope, id: 0, value: fact))
    }
    try await session.commit { tx in
      guard let fact = try await session.store.extra(scope: Self.scope, id: 0),
        let parent = ConversationID(fact["conversations"]?.array?.first),
        let entry = EntryID(fact["entry"])
      else { return }
      _ = try await tx.forkConversation(parent, at: entry)
    }
  }

  private func look(_ fact: JSON, _ ids: [ConversationID]) async throws -> [String] {
    var problems: [String] = []
    for id in ids where try await session.store.conversation(id) != nil {
      problems.append("conversation \(id) is left")
    }
    if let id = EntryID(fact["entry"]), try await session.store.entry(id) != nil {
      problems.append("entry \(id) is left")
    }
    if let id = TaskID(fact["task"]), try await session.store.task(id) != nil {
      problems.append("task \(id) is left")
    }
    if let id = ConversationID(fact["other"]), try await session.store.conversation(id) == nil {
      problems.append("conversation \(id) is gone")
    }
    let ended = try await session.store.scanTasks(
      TaskQuery(status: .terminal),
      PageRequest(limit: 1)
    )
    if let task = ended.items.first { problems.append("task \(task.id) is left") }
    return problems
  }
}
