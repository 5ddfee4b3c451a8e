import Foundation
import Perdure

/// A store in one JSON file that every group replaces as a whole.
///
/// It shows what a storage has to do in the simplest way that is right: it searches where a real
/// one has indexes, and writes everything where a real one writes what changed.
actor OneFileStorage: Storage {
  private let file: URL
  private var state = State()
  private var isClosed = false

  /// Opens the store in a file, which may be missing.
  init(_ file: URL) throws {
    self.file = file
    guard FileManager.default.fileExists(atPath: file.path) else { return }
    guard let tables = try JSON(parsing: [UInt8](try Data(contentsOf: file))).object else {
      throw PerdureError(.storeUnreadable, "\(file.path) is no store")
    }
    state.tables = tables
  }

  func apply(_ group: [Batch], expecting: StoreCounters, nextId: Int64) throws {
    var next = try opened()
    // The rules of every store: what breaks one is refused before anything is written.
    let after = try next.counters.advanced(by: group, expecting: expecting, nextId: nextId)
    for batch in group {
      let effects = try BatchEffects(batch, try next.facts(BatchNeeds(batch)))
      try effects.requireIds(below: nextId)
      next.apply(effects, batch)
    }
    next.counters = after
    // One file takes the place of another at once: a crash leaves all of the group or nothing.
    try Data(JSON.object(next.tables).encoded).write(to: file, options: .atomic)
    state = next
  }

  func facts(_ needs: BatchNeeds) throws -> BatchFacts { try opened().facts(needs) }
  func counters() throws -> StoreCounters { try opened().counters }
  func close() { isClosed = true }

  private func opened() throws -> State {
    if isClosed { throw PerdureError(.closed, "the store is closed") }
    return state
  }

  func conversation(_ id: ConversationID) throws -> ConversationRecord? {
    try opened()["conversation", id].map { try ConversationRecord(json: $0) }
  }

  func scanConversations(
    _ query: ConversationQuery,
    _ page: PageRequest
  ) throws
    -> Page<ConversationRecord>
  {
    let all = try opened().all("conversation") { try ConversationRecord(json: $0) }
    return try page.page(of: all.filter(query.matches)) { $0.id.value }
  }

  func entry(_ id: EntryID) throws -> EntryLookup? {
    try opened()["entry", id].map(State.entry)
  }

  func entry(_ id: EntryID, visibleIn conversation: ConversationID) throws -> EntryLookup? {
    try opened().visible(in: conversation).first { $0.entry.id == id }
  }

  func latestHeadMarker(_ id: ConversationID, atOrBefore limit: EntryID?) throws -> EntryRecord? {
    try opened().visible(in: id).map { $0.entry }
      .filter { $0.head != nil && $0.id <= limit ?? $0.id }.max { $0.id < $1.id }
  }

  func scanEntries(_ query: EntryQuery, _ page: PageRequest) throws -> Page<EntryRecord> {
    let found = try opened().visible(in: query.conversationId).map { $0.entry }
      .filter { $0.id >= query.minEntry ?? $0.id && $0.id <= query.maxEntry ?? $0.id }
    return try page.page(of: found, default: .descending) { $0.id.value }
  }

  func task(_ id: TaskID) throws -> TaskRecord? {
    try opened()["task", id].map { try TaskRecord(json: $0) }
  }

  func scanTasks(_ query: TaskQuery, _ page: PageRequest) throws -> Page<TaskRecord> {
    let all = try opened().all("task") { try TaskRecord(json: $0) }
    return try page.page(of: all.filter(query.matches)) { $0.id.value }
  }

  func submission(_ id: SubmissionID) throws -> SubmissionRecord? {
    try opened()["submission", id].map { try SubmissionRecord(json: $0) }
  }

  func submission(requestId: JSONString, in id: ConversationID) throws -> SubmissionRecord? {
    try opened().all("submission") { try SubmissionRecord(json: $0) }
      .first { $0.requestId == requestId && $0.conversationId == id }
  }

  func scanSubmissions(
    _ query: SubmissionQuery,
    _ page: PageRequest
  ) throws
    -> Page<SubmissionRecord>
  {
    let all = try opened().all("submission") { try SubmissionRecord(json: $0) }
    return try page.page(of: all.filter(query.matches)) { $0.id.value }
  }

  func findDocument(_ address: DocumentAddress, at sequence: Int64?) throws -> DocumentRecord? {
    try opened().all("document") { try State.document($0).record }
      .first { $0.address == address && $0.isAlive(at: sequence) }
  }

  func document(_ id: DocumentID, at sequence: Int64?) throws -> StoredDocument? {
    try opened().document(id, at: sequence)
  }

  func scanDocuments(_ query: DocumentQuery, _ page: PageRequest) throws -> Page<DocumentRecord> {
    let all = try opened().all("document") { try State.document($0).record }
    return try page.page(of: all.filter(query.matches)) { $0.id.value }
  }

  func extra(scope: String, id: Int64) throws -> JSON? {
    try opened()["extra", "\(id) \(scope)"]
  }
}
