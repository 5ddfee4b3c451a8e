public import PerdureModel
import PerdureStorage
public import PerdureValue

/// Reads a store, also one that another process owns; it repairs and writes nothing.
public struct StoreReader: Sendable {
  let storage: any Storage

  /// Opens the SQLite store at `path` for reading; a missing file throws `notFound`.
  public static func open(sqliteAt path: String) async throws -> StoreReader {
    StoreReader(storage: try await SQLiteStorage.open(path: path, readOnly: true))
  }

  /// Opens the JSONL store in the folder at `path` for reading, as it is now; a missing one throws
  /// `notFound`.
  public static func open(jsonlAt path: String) async throws -> StoreReader {
    StoreReader(storage: try await JSONLStorage.open(path: path, readOnly: true))
  }

  /// Returns the id of the process that owns the SQLite store at `path`, or `nil` if none does.
  public static func owner(ofSQLiteAt path: String) -> Int64? {
    StoreLock.owner(ofStore: path)?.pid
  }

  /// Returns the id of the process that owns the JSONL store at `path`, or `nil` if none does.
  public static func owner(ofJSONLAt path: String) -> Int64? {
    JSONLStorage.owner(ofStore: path)?.pid
  }

  /// All reads of the store.
  public var reads: any StorageReads { storage }

  /// Returns all conversations in order.
  public func conversations() async throws -> [ConversationRecord] {
    try await Page.all { try await storage.scanConversations(ConversationQuery(), $0) }
  }

  /// Returns the entries that a conversation sees, oldest first.
  public func entries(of id: ConversationID) async throws -> [EntryRecord] {
    try await Page.all(order: .ascending) {
      try await storage.scanEntries(EntryQuery(conversationId: id), $0)
    }
  }

  /// Calls `body` with the entries that a conversation sees, oldest first, until it returns `false`.
  ///
  /// With `last` these are only the newest so many. Memory does not grow with the conversation; entries that are appended meanwhile are left out
  /// where `last` is given.
  public func forEachEntry(
    of id: ConversationID,
    last: Int64? = nil,
    _ body: (EntryRecord) async throws -> Bool
  ) async throws {
    var query = EntryQuery(conversationId: id)
    if let last {
      guard let bounds = try await newest(last, of: id) else { return }
      (query.minEntry, query.maxEntry) = (bounds.lowerBound, bounds.upperBound)
    }
    var cursor: Cursor?
    repeat {
      let page = try await storage.scanEntries(
        query,
        PageRequest(limit: 256, cursor: cursor, order: .ascending)
      )
      for entry in page.items { if try await !body(entry) { return } }
      cursor = page.next
    } while cursor != nil
  }

  /// The first and the last id of the newest entries.
  private func newest(_ count: Int64, of id: ConversationID) async throws -> ClosedRange<EntryID>? {
    var left = count
    var cursor: Cursor?
    var bounds: ClosedRange<EntryID>?
    repeat {
      let page = try await storage.scanEntries(
        EntryQuery(conversationId: id),
        PageRequest(limit: Int(min(left, 256)), cursor: cursor, order: .descending)
      )
      guard let first = page.items.first?.id, let last = page.items.last?.id else { break }
      bounds = last...(bounds?.upperBound ?? first)
      left -= Int64(page.items.count)
      cursor = page.next
    } while cursor != nil && left > 0
    return bounds
  }

  /// Returns the tasks of a conversation, or of all, in order.
  public func tasks(of id: ConversationID? = nil) async throws -> [TaskRecord] {
    try await Page.all { try await storage.scanTasks(TaskQuery(conversationId: id), $0) }
  }

  /// Returns the submissions of a conversation, or of all, in order.
  public func submissions(of id: ConversationID? = nil) async throws -> [SubmissionRecord] {
    try await Page.all {
      try await storage.scanSubmissions(SubmissionQuery(conversationId: id), $0)
    }
  }

  /// Returns the value of a conversation's document, or `nil`.
  public func document(_ kind: String, of id: ConversationID) async throws -> JSON? {
    let address = DocumentAddress(kind: JSONString(kind), scope: .conversation(id))
    guard let record = try await storage.findDocument(address, at: nil) else { return nil }
    return try await storage.document(record.id, at: nil)?.value
  }

  /// Returns when an entry or a submission was written, in milliseconds since 1970, if known.
  public func time(ofEntry id: EntryID) async throws -> Int64? {
    try await storage.extra(scope: "entry", id: id.value)?["at"]?.int
  }

  /// Returns a fact kept beside the records.
  public func extra(scope: String, id: Int64) async throws -> JSON? {
    try await storage.extra(scope: scope, id: id)
  }

  /// Releases the store.
  public func close() async { await storage.close() }
}
