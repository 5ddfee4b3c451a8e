import PerdureModel
import PerdureValue

/// Finds out whether a store holds work that this version cannot go on with.
///
/// All checks read only, so that a store that is refused stays as it is.
struct FeatureCheck {
  let session: Session
  let kinds: Set<JSONString>

  /// Throws `unsupportedFeature` if any live work of the store needs what this version lacks.
  func wholeStore() async throws {
    let live = session.liveTasks
    for (_, task) in live.sorted(by: { $0.key < $1.key }) {
      try await check(task)
      try await conversation(task.conversationId)
    }
  }

  private func check(_ task: TaskRecord) async throws {
    guard kinds.contains(task.kind) else {
      throw Self.lacks("tasks of the kind \(task.kind.string) (task \(task.id))")
    }
    if task.input["kind"] == "nested" { throw Self.lacks("nested calls (task \(task.id))") }
    if task.abandonOnRestart {
      throw Self.lacks("tasks that a restart abandons (task \(task.id))")
    }
    try await checkOwned(task)
  }

  /// The end of a task reaches the conversations and documents that belong to it.
  private func checkOwned(_ task: TaskRecord) async throws {
    let owned = try await session.store.scanConversations(
      ConversationQuery(ownerTaskId: task.id),
      PageRequest(limit: 1)
    )
    if let first = owned.items.first {
      throw Self.lacks("owned conversations (conversation \(first.id))")
    }
    let documents = try await session.store.scanDocuments(
      DocumentQuery(scope: .task(task.id)),
      PageRequest(limit: 1)
    )
    if let first = documents.items.first {
      throw Self.lacks("documents of tasks (document \(first.id))")
    }
  }

  /// Throws `unsupportedFeature` if the runs of this conversation need what this version lacks.
  func conversation(_ id: ConversationID) async throws {
    guard let record = try await session.store.conversation(id) else {
      throw PerdureError(.notFound, "conversation \(id) does not exist")
    }
    if record.owner != nil { throw Self.lacks("owned conversations (conversation \(id))") }
    for definition in [DocumentDefinition.live, .inbox, .usage, .provider] {
      // Throws for a document of a newer version.
      _ = try await session.snapshot(definition, id)
    }
    let agent = try await session.snapshot(.agent, id)
    if agent["instructions"] != nil { throw Self.lacks("instructions (conversation \(id))") }
  }

  private static func lacks(_ feature: String) -> PerdureError {
    PerdureError(
      .unsupportedFeature,
      "the store holds \(feature), which this version cannot go on with",
      hint: "go on with the program that wrote it, or a newer version of this one"
    )
  }
}
