import PerdureEngine
public import PerdureModel
public import PerdureValue

/// What a model is shown of a conversation, and the entries from which it comes.
public struct ContextView: Sendable, Equatable {
  /// The head marker that begins the active transcript.
  public var head: EntryRecord?
  /// The active transcript: the marker, then the other entries of its range that are no markers.
  public var entries: [EntryRecord]
  /// The messages of each entry after edits, in the order in which they were committed.
  public var contributions: [[JSON]]
  /// The messages of a request: each tool result behind its call, the prompt in front.
  public var messages: [JSON]

  init(_ view: PerdureEngine.ContextView) {
    head = view.head
    entries = view.entries
    contributions = view.contributions
    messages = view.messages
  }
}

extension Conversation {
  /// Returns what a model would be shown now, or was to be shown at an entry.
  ///
  /// The latter is what a fork there begins with. Throws `notFound` if the conversation does not
  /// see the entry.
  public func context(at entry: EntryID? = nil) async throws -> ContextView {
    ContextView(try await engine.context(of: id, at: entry))
  }

  /// Returns the entries that the conversation sees, the oldest first unless `page` says otherwise.
  ///
  /// Earlier ones than the active context's are there too. The bounds are inclusive.
  public func entries(
    from first: EntryID? = nil,
    through last: EntryID? = nil,
    _ page: PageRequest = PageRequest(limit: 256)
  ) async throws -> Page<EntryRecord> {
    var page = page
    if page.order == nil, page.cursor == nil { page.order = .ascending }
    let query = EntryQuery(conversationId: id, minEntry: first, maxEntry: last)
    return try await engine.session.store.storage.scanEntries(query, page)
  }
}
