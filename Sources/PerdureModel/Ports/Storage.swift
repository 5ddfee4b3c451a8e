public import PerdureValue

/// One write of a batch.
public enum StorageWrite: Sendable, Equatable {
  case conversation(ConversationRecord)
  case entry(EntryRecord)
  /// Replaces the whole record.
  case task(TaskRecord)
  /// Replaces the whole record.
  case submission(SubmissionRecord)
  /// Creates a document with its first base; the store stamps `createdAt`.
  case createDocument(DocumentRecord, version: Int64, value: JSON)
  /// Creates a document as a copy of `source` as it was after the commit `at`, or as it is now
  /// (before this batch) when `at` is absent; the store stamps `createdAt`.
  case copyDocument(DocumentRecord, source: DocumentID, at: Int64?)
  case changeDocument(DocumentID, DocumentContent)
  case retireDocument(DocumentID)
  /// Takes a record away for good, a document with all its revisions.
  ///
  /// What refers to it is the caller's business. Its id is never minted again, and the caller never
  /// writes it again.
  case remove(RecordReference)
}

/// A fact that Perdure keeps beside the records, written atomically with a batch.
public struct ExtraWrite: Sendable, Equatable {
  /// What the fact is about.
  public var scope: String
  /// The record it is about, or 0.
  public var id: Int64
  /// The fact; `nil` removes it.
  public var value: JSON?

  /// Makes a write.
  public init(scope: String, id: Int64, value: JSON?) {
    self.scope = scope
    self.id = id
    self.value = value
  }
}

/// All writes of one commit.
public struct Batch: Sendable {
  /// The commit's sequence number.
  public var sequence: Int64
  public var writes: [StorageWrite]
  public var extras: [ExtraWrite]
  /// When it was staged, in milliseconds since 1970.
  public var at: Int64

  /// Makes a batch.
  public init(
    sequence: Int64,
    writes: [StorageWrite],
    extras: [ExtraWrite] = [],
    at: Int64
  ) {
    self.sequence = sequence
    self.writes = writes
    self.extras = extras
    self.at = at
  }
}

/// The two counters of a store.
public struct StoreCounters: Sendable, Equatable {
  /// The sequence number of the next commit; 1 in a new store.
  public var nextSequence: Int64
  /// The next id to be minted; 2 in a new store, since 1 is the root conversation.
  public var nextId: Int64

  /// Makes counters.
  public init(nextSequence: Int64 = 1, nextId: Int64 = 2) {
    self.nextSequence = nextSequence
    self.nextId = nextId
  }
}

/// In which order a scan visits ids.
public enum ScanOrder: String, Sendable {
  case ascending = "asc"
  case descending = "desc"
}

/// Where a scan goes on; an opaque JSON object that survives a round trip as text.
public struct Cursor: Sendable, Equatable {
  /// The last id that was visited.
  public var after: Int64
  public var order: ScanOrder

  /// Makes a cursor.
  public init(after: Int64, order: ScanOrder) {
    self.after = after
    self.order = order
  }

  /// Reads a cursor; without an order it has `defaultOrder`.
  ///
  /// Throws `invalidRequest`.
  public init(json: JSON, defaultOrder: ScanOrder) throws {
    guard let after = json["after"]?.int, after >= 0 else {
      throw PerdureError(.invalidRequest, "the cursor has no id")
    }
    self.after = after
    guard let order = json["order"] else {
      self.order = defaultOrder
      return
    }
    guard let text = order.text, let value = ScanOrder(rawValue: text) else {
      throw PerdureError(.invalidRequest, "the cursor has no known order")
    }
    self.order = value
  }

  /// The cursor as JSON.
  public var json: JSON { ["after": .int(after), "order": .string(order.rawValue)] }
}

/// A part of a scan.
public struct Page<Item: Sendable>: Sendable {
  public var items: [Item]
  /// Present only if there are more items.
  public var next: Cursor?

  /// Makes a page.
  public init(items: [Item], next: Cursor? = nil) {
    self.items = items
    self.next = next
  }
}

extension Page {
  /// Returns the items of all pages of a scan, in order; `read` reads one page.
  public static func all(
    order: ScanOrder? = nil,
    pageSize: Int = 256,
    _ read: (PageRequest) async throws -> Page<Item>
  ) async throws -> [Item] {
    var items: [Item] = []
    var cursor: Cursor?
    repeat {
      let page = try await read(PageRequest(limit: pageSize, cursor: cursor, order: order))
      items += page.items
      cursor = page.next
    } while cursor != nil
    return items
  }
}

/// How much of a scan to read, and from where.
public struct PageRequest: Sendable {
  /// The greatest number of items.
  public var limit: Int
  public var cursor: Cursor?
  /// With a cursor it may be left out, but must not differ from the cursor's.
  public var order: ScanOrder?

  /// Makes a request.
  public init(limit: Int, cursor: Cursor? = nil, order: ScanOrder? = nil) {
    self.limit = limit
    self.cursor = cursor
    self.order = order
  }

  /// The order and starting point; throws `invalidRequest` for a limit below 1 or a second order.
  public func start(default defaultOrder: ScanOrder) throws -> (order: ScanOrder, after: Int64?) {
    guard limit > 0 else { throw PerdureError(.invalidRequest, "the page limit is below 1") }
    guard let cursor else { return (order ?? defaultOrder, nil) }
    if let order, order != cursor.order {
      throw PerdureError(.invalidRequest, "the cursor belongs to a scan in the other order")
    }
    return (cursor.order, cursor.after)
  }
}

/// Which conversations to visit; the conditions hold together.
public struct ConversationQuery: Sendable {
  public var ownerConversationId: ConversationID?
  public var ownerTaskId: TaskID?

  /// Makes a query.
  public init(ownerConversationId: ConversationID? = nil, ownerTaskId: TaskID? = nil) {
    self.ownerConversationId = ownerConversationId
    self.ownerTaskId = ownerTaskId
  }
}

/// Which entries of a conversation to visit, inherited ones included; the bounds are inclusive.
public struct EntryQuery: Sendable {
  public var conversationId: ConversationID
  public var minEntry: EntryID?
  public var maxEntry: EntryID?

  /// Makes a query.
  public init(
    conversationId: ConversationID,
    minEntry: EntryID? = nil,
    maxEntry: EntryID? = nil
  ) {
    self.conversationId = conversationId
    self.minEntry = minEntry
    self.maxEntry = maxEntry
  }
}

/// Which tasks to visit; the conditions hold together.
public struct TaskQuery: Sendable {
  public var conversationId: ConversationID?
  public var kind: JSONString?
  public var status: TaskState.Status?
  public var abortRequested: Bool?
  public var background: Bool?

  /// Makes a query.
  public init(
    conversationId: ConversationID? = nil,
    kind: JSONString? = nil,
    status: TaskState.Status? = nil,
    abortRequested: Bool? = nil,
    background: Bool? = nil
  ) {
    self.conversationId = conversationId
    self.kind = kind
    self.status = status
    self.abortRequested = abortRequested
    self.background = background
  }
}

/// Which submissions to visit; the conditions hold together.
public struct SubmissionQuery: Sendable {
  public var conversationId: ConversationID?
  public var status: SubmissionRecord.Status?

  /// Makes a query.
  public init(conversationId: ConversationID? = nil, status: SubmissionRecord.Status? = nil) {
    self.conversationId = conversationId
    self.status = status
  }
}

/// Which documents of exactly one scope to visit, as they were after the commit `at` or as they
/// are.
public struct DocumentQuery: Sendable {
  public var scope: DocumentScope
  public var at: Int64?
  public var kind: JSONString?
  /// Whether the documents of all times are visited; then `at` does not count.
  public var includesRetired: Bool

  /// Makes a query.
  public init(
    scope: DocumentScope,
    at: Int64? = nil,
    kind: JSONString? = nil,
    includesRetired: Bool = false
  ) {
    self.scope = scope
    self.at = at
    self.kind = kind
    self.includesRetired = includesRetired
  }
}

/// An entry with the commit that wrote it.
public struct EntryLookup: Sendable, Equatable {
  public var entry: EntryRecord
  public var commitSequence: Int64

  /// Makes a lookup result.
  public init(entry: EntryRecord, commitSequence: Int64) {
    self.entry = entry
    self.commitSequence = commitSequence
  }
}

/// Reads of a store; all see what the last applied group left.
///
/// A request that cannot be read (unknown conversation, cursor of the other order, historical read
/// of a document that keeps only its newest value) throws `invalidRequest`. Any other error means
/// that the store failed.
public protocol StorageReads: Sendable {
  /// Returns the conversation, or `nil`.
  func conversation(_ id: ConversationID) async throws -> ConversationRecord?
  /// Visits conversations, ascending by default.
  func scanConversations(
    _ query: ConversationQuery,
    _ page: PageRequest
  ) async throws -> Page<ConversationRecord>
  /// Returns the entry, whether or not a conversation sees it.
  func entry(_ id: EntryID) async throws -> EntryLookup?
  /// Returns the entry if the conversation sees it; an unknown conversation is `invalidRequest`.
  func entry(_ id: EntryID, visibleIn conversationId: ConversationID) async throws -> EntryLookup?
  /// Returns the newest visible head marker with an id of at most `atOrBefore`.
  func latestHeadMarker(
    _ conversationId: ConversationID,
    atOrBefore: EntryID?
  ) async throws -> EntryRecord?
  /// Visits the entries that the conversation sees, descending by default.
  func scanEntries(_ query: EntryQuery, _ page: PageRequest) async throws -> Page<EntryRecord>
  /// Returns the task, or `nil`.
  func task(_ id: TaskID) async throws -> TaskRecord?
  /// Visits tasks, ascending by default.
  func scanTasks(_ query: TaskQuery, _ page: PageRequest) async throws -> Page<TaskRecord>
  /// Returns the submission, or `nil`.
  func submission(_ id: SubmissionID) async throws -> SubmissionRecord?
  /// Returns the submission with this request id, or `nil`.
  func submission(
    requestId: JSONString,
    in conversationId: ConversationID
  ) async throws -> SubmissionRecord?
  /// Visits submissions, ascending by default.
  func scanSubmissions(
    _ query: SubmissionQuery,
    _ page: PageRequest
  ) async throws -> Page<SubmissionRecord>
  /// Returns the incarnation that lived at the address after the commit `at`, or lives now.
  func findDocument(_ address: DocumentAddress, at: Int64?) async throws -> DocumentRecord?
  /// Returns the value of that incarnation after the commit `at`, or now; `nil` if it did not live.
  func document(_ id: DocumentID, at: Int64?) async throws -> StoredDocument?
  /// Visits the documents of a scope, ascending.
  func scanDocuments(
    _ query: DocumentQuery,
    _ page: PageRequest
  ) async throws -> Page<DocumentRecord>
  /// Returns the fact kept under this scope and id.
  func extra(scope: String, id: Int64) async throws -> JSON?
}

/// A durable store behind the staging layer.
///
/// The caller serialises calls of `apply`; reads may come at any time, from any task. An
/// implementation keeps no reference to the engine and may live on another machine.
public protocol Storage: StorageReads {
  /// Finds out what must be known to judge a batch (see `BatchEffects`), all of one moment.
  func facts(_ needs: BatchNeeds) async throws -> BatchFacts

  /// Returns the counters as the store holds them now.
  func counters() async throws -> StoreCounters

  /// Writes `group`, all or nothing, with one flush to disk, and sets the next id to `nextId`.
  ///
  /// The store's counters must equal `expected`, else `foreignWriter` is thrown and nothing is
  /// written. The batches carry the sequence numbers `expected.nextSequence`, +1, …; afterwards
  /// the next sequence is the one behind the last batch. A batch that breaks a rule of the store
  /// throws `invalidBatch`, and nothing of the group is written.
  func apply(_ group: [Batch], expecting expected: StoreCounters, nextId: Int64) async throws

  /// Releases the store after calls under way; later calls throw `closed`.
  func close() async
}

/// A storage that can give back the space of what was removed.
public protocol CompactingStorage: Storage {
  /// Rewrites what the store occupies to what it holds; no record, sequence number or id changes.
  ///
  /// May be called while groups are applied, and then comes before or after each of them. A crash
  /// leaves a whole store. Throws `storeBusy`, with nothing done, if somebody reads the store in a
  /// way that forbids it now.
  func compact() async throws
}
