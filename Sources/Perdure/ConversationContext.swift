import PerdureEngine
public import PerdureModel
public import PerdureValue

/// What a model is shown of a conversation, and the entries from which it comes.
public struct ConversationContext: Sendable, Equatable {
  /// The head marker that begins the active transcript.
  public let head: EntryRecord?
  /// The active transcript: the marker, then the other entries of its range that are no markers.
  public let entries: [EntryRecord]
  /// The messages of each entry after edits, in the order in which they were committed.
  public let contributions: [[JSON]]
  /// The messages of a request: each tool result behind its call, the prompt in front.
  public let messages: [JSON]
}

extension Conversation {
  /// Returns what a model is shown, now or as it was at an entry, which a fork there begins with.
  ///
  /// Throws `notFound` if the conversation does not see the entry.
  public func context(at entry: EntryID? = nil) async throws -> ConversationContext {
    let view = try await engine.context(of: id, at: entry)
    return ConversationContext(
      head: view.head,
      entries: view.entries,
      contributions: view.contributions,
      messages: view.messages
    )
  }
}
