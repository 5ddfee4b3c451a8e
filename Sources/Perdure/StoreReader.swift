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

  /// Calls `body` with the entries that a conversation sees, oldest first, until it returns `false`,
  /// and returns for each one that cannot be read the error that names it.
  ///
  /// With `last` these are only the newest so many. Memory does not grow with the conversation;
  /// entries that are appended meanwhile are left out where `last` is given.
  @discardableResult
  public func forEachReadableEntry(
    of id: ConversationID,
    last: Int64? = nil,
    _ body: (EntryRecord) async throws -> Bool
  ) async throws -> [PerdureError] {
    var query = EntryQuery(conversationId: id)
    var newer: [PerdureError] = []
    if let last {
      let found = try await newest(last, of: id)
      newer = found.damages
      guard let bounds = found.bounds else { return newer }
      (query.minEntry, query.maxEntry) = (bounds.lowerBound, bounds.upperBound)
    }
    var damages: [PerdureError] = []
    try await forEachPage(query, .ascending, &damages) { page in
      for entry in page { if try await !body(entry) { return false } }
      return true
    }
    return damages + newer
  }

  /// The first and the last id of the newest entries that can be read, and the damage behind them.
  private func newest(
    _ count: Int64,
    of id: ConversationID
  ) async throws -> (bounds: ClosedRange<EntryID>?, damages: [PerdureError]) {
    var left = count
    var bounds: ClosedRange<EntryID>?
    var damages: [PerdureError] = []
    let query = EntryQuery(conversationId: id)
    try await forEachPage(query, .descending, limit: Int(min(left, 256)), &damages) { page in
      let page = page.prefix(Int(min(left, 256)))
      guard let first = page.first?.id, let last = page.last?.id else { return true }
      bounds = last...(bounds?.upperBound ?? first)
      left -= Int64(page.count)
      return left > 0
    }
    // What is damaged between them is met again when they are read.
    let newer = damages.filter { damage in
      guard let bounds, let id = EntryID(damage.details?["id"]) else { return true }
      return id > bounds.upperBound
    }
    return (bounds, newer.reversed())
  }

  /// Reads page after page, and goes on behind an entry that cannot be read.
  private func forEachPage(
    _ query: EntryQuery,
    _ order: ScanOrder,
    limit: Int = 256,
    _ damages: inout [PerdureError],
    _ body: ([EntryRecord]) async throws -> Bool
  ) async throws {
    var rest = query
    // What lies before damage that was met is read by itself.
    var halves: [EntryQuery] = []
    while true {
      do {
        let page = try await storage.scanEntries(rest, PageRequest(limit: limit, order: order))
        if try await !body(page.items) { return }
        if page.next != nil, let last = page.items.last?.id {
          rest = rest.behind(last, order) ?? rest
        } else if let next = halves.popLast() {
          rest = next
        } else {
          return
        }
      } catch let error as PerdureError where error.code == .storeCorrupt {
        guard error.details?["type"] == "entry", let broken = EntryID(error.details?["id"]),
          !damages.contains(where: { $0.details?["id"] == broken.json })
        else { throw error }
        damages.append(error)
        if let behind = rest.behind(broken, order) { halves.append(behind) }
        guard let before = rest.before(broken, order) ?? halves.popLast() else { return }
        rest = before
      }
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

extension EntryQuery {
  /// The part that is visited after `id`, or `nil` if there is no greater or smaller id.
  fileprivate func behind(_ id: EntryID, _ order: ScanOrder) -> EntryQuery? {
    order == .ascending ? above(id) : below(id)
  }

  /// The part that is visited before `id`.
  fileprivate func before(_ id: EntryID, _ order: ScanOrder) -> EntryQuery? {
    order == .ascending ? below(id) : above(id)
  }

  private func above(_ id: EntryID) -> EntryQuery? {
    guard let next = EntryID(id.value + 1), maxEntry.map({ next <= $0 }) ?? true else { return nil }
    var query = self
    query.minEntry = max(next, minEntry ?? next)
    return query
  }

  private func below(_ id: EntryID) -> EntryQuery? {
    guard let next = EntryID(id.value - 1), minEntry.map({ next >= $0 }) ?? true else { return nil }
    var query = self
    query.maxEntry = min(next, maxEntry ?? next)
    return query
  }
}
