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
    for status in TaskState.Status.allCases where status != .terminal {
      var cursor: Cursor?
      repeat {
        let page = try await session.store.scanTasks(
          TaskQuery(status: status),
          PageRequest(limit: 256, cursor: cursor)
        )
        for task in page.items where task.kind.string.hasPrefix("pi.") {
          try await check(task)
          conversations.insert(task.conversationId)
        }
        cursor = page.next
      } while cursor != nil
    }
    for id in conversations.sorted() { try await conversation(id) }
  }

  private func check(_ task: TaskRecord) async throws {
    if task.kind == "pi.compaction" { throw Self.lacks("compaction (task \(task.id))") }
    let checkpoint = task.state.checkpoint
    if checkpoint?["phase"] == "poll" { throw Self.lacks("deferred answers (task \(task.id))") }
    if checkpoint?["compacted"] != nil { throw Self.lacks("compaction (task \(task.id))") }
  }

  /// Throws `unsupportedFeature` if the runs of this conversation need what this version lacks.
  func conversation(_ id: ConversationID) async throws {
    guard try await session.store.conversation(id) != nil else {
      throw PerdureError(.notFound, "conversation \(id) does not exist")
    }
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
