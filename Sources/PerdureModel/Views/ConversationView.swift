public import PerdureValue

/// One conversation as it is on disk after one commit: what a program shows of it.
public struct ConversationView: Sendable, Equatable {
  public var conversation: ConversationRecord
  /// The active transcript: the newest head marker, then the other entries of its range.
  public var entries: [EntryRecord]
  /// The values of the built-in documents that exist, by kind (`pi.agent`, `pi.live`, …), and of
  /// those that the view was asked to mount; a family is an object by key.
  public var documents: [JSONString: JSON]

  /// Makes a view.
  public init(
    conversation: ConversationRecord,
    entries: [EntryRecord],
    documents: [JSONString: JSON]
  ) {
    self.conversation = conversation
    self.entries = entries
    self.documents = documents
  }

  /// The value to which the operations of a view apply: `conversation`, `entries`, `docs`.
  public var json: JSON {
    let kinds = documents.sorted { $0.key.string < $1.key.string }
    return [
      "conversation": conversation.json, "entries": .array(entries.map { $0.json }),
      "docs": .object(JSONObject(kinds.map { ($0.key, $0.value) })),
    ]
  }
}
