import PerdureModel
import PerdureValue

/// Finds out whether a store holds work that this version cannot go on with.
///
/// All checks read only, so that a store that is refused stays as it is.
struct FeatureCheck {
  let session: Session

  /// Throws `unsupportedFeature` if any live work of the store needs what this version lacks.
  func wholeStore() async throws {
    var conversations: Set<ConversationID> = []
    try await session.forEachLiveTask { task in
      guard task.kind.string.hasPrefix("pi.") else { return }
      guard Self.kinds.contains(task.kind) else { throw Self.lacks(task) }
      conversations.insert(task.conversationId)
    }
    for id in conversations.sorted() { try await conversation(id) }
  }

  // A kind of this name space that is unknown here was built into a newer version.
  private static let kinds: Set<JSONString> = [
    GenerationTask.definition.name, ToolTask.name, CompactionTask.definition.name,
  ]

  /// Throws `unsupportedFeature` if the runs of this conversation need what this version lacks.
  func conversation(_ id: ConversationID) async throws {
    guard try await session.store.conversation(id) != nil else {
      throw PerdureError(.notFound, "conversation \(id) does not exist")
    }
    for definition in [DocumentDefinition.live, .inbox, .usage, .provider, .agent] {
      // Throws for a document of a newer version.
      _ = try await session.snapshot(definition, id)
    }
  }
  private static func lacks(_ task: TaskRecord) -> PerdureError {
    PerdureError(
      .unsupportedFeature,
      "the store holds tasks of the kind \(task.kind.string) (task \(task.id)), "
        + "which this version cannot go on with",
      hint: "go on with the program that wrote it, or a newer version of this one"
    )
  }
}
