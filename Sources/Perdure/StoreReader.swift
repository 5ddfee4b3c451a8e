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

  /// Returns all conversations in order, also what is left of deleted ones (`status(of:)`).
  public func conversations() async throws -> [ConversationRecord] {
    try await Page.all { try await storage.scanConversations(ConversationQuery(), $0) }
  }

  /// Returns the entries that a conversation sees, oldest first.
  public func entries(of id: ConversationID) async throws -> [EntryRecord] {
    try await Page.all(order: .ascending) {
      try await storage.scanEntries(EntryQuery(conversationId: id), $0)
    }
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
