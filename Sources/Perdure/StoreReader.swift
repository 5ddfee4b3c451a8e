public import PerdureModel
import PerdureStorage
public import PerdureValue

/// Reads a store, also one that another process owns; it repairs and writes nothing.
public struct StoreReader: Sendable {
  let storage: any Storage
  /// Damage that was found when a JSONL store was opened, and passed over: what these errors name is
  /// absent from every answer.
  ///
  /// A SQLite store tells of damage when it is asked for what is damaged.
  public let damages: [PerdureError]

  init(storage: any Storage, damages: [PerdureError] = []) {
    self.storage = storage
    self.damages = damages
  }

  /// Opens the SQLite store at `path` for reading; a missing file throws `notFound`.
  public static func open(sqliteAt path: String) async throws -> StoreReader {
    StoreReader(storage: try await SQLiteStorage.open(path: path, readOnly: true))
  }

  /// Opens the JSONL store in the folder at `path` for reading, as it is now; a missing one throws
  /// `notFound`.
  public static func open(jsonlAt path: String) async throws -> StoreReader {
    let storage = try await JSONLStorage.open(path: path, readOnly: true, passesOverDamage: true)
    return StoreReader(storage: storage, damages: storage.damages)
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

  /// Returns what can be read of the entries that a conversation sees, oldest first, and for each
  /// that cannot the error that names it.
  public func readableEntries(
    of id: ConversationID
  ) async throws -> (entries: [EntryRecord], damages: [PerdureError]) {
    var entries: [EntryRecord] = []
    var damages: [PerdureError] = []
    var lower: EntryID? = .known(1)
    while let first = lower {
      do {
        entries += try await self.entries(of: id, from: first, through: nil)
        lower = nil
      } catch let error as PerdureError where error.code == .storeCorrupt {
        guard error.details?["type"] == "entry", let broken = EntryID(error.details?["id"]),
          broken >= first
        else { throw error }
        damages.append(error)
        if let before = EntryID(broken.value - 1), before >= first {
          entries += try await self.entries(of: id, from: first, through: before)
        }
        lower = EntryID(broken.value + 1)
      }
    }
    return (entries, damages)
  }

  private func entries(
    of id: ConversationID,
    from first: EntryID,
    through last: EntryID?
  ) async throws -> [EntryRecord] {
    let query = EntryQuery(conversationId: id, minEntry: first, maxEntry: last)
    return try await Page.all(order: .ascending) { try await storage.scanEntries(query, $0) }
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
