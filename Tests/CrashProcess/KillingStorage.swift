import Glibc
import PerdureModel
import PerdureValue
import Synchronization

/// A storage that kills this process with SIGKILL at a chosen call.
final class KillingStorage: Storage {
  /// When the process dies at the chosen call.
  enum Moment: String { case before, after }

  private let base: any Storage
  private let target: Int
  private let moment: Moment
  private let calls = Mutex(0)
  private let applied = Mutex<[Int]>([])

  init(_ base: any Storage, at target: Int, _ moment: Moment) {
    self.base = base
    self.target = target
    self.moment = moment
  }

  /// How many calls there have been.
  var count: Int { calls.withLock { $0 } }

  /// Which of them wrote.
  var groups: [Int] { applied.withLock { $0 } }

  private func call<Result>(
    writes: Bool = false,
    _ body: () async throws -> Result
  ) async throws -> Result {
    let number = calls.withLock { calls in
      calls += 1
      return calls
    }
    if writes { applied.withLock { $0.append(number) } }
    if number == target, moment == .before { die() }
    let result = try await body()
    if number == target, moment == .after { die() }
    return result
  }

  private func die() {
    kill(getpid(), SIGKILL)
    // The signal may reach another thread first.
    while true { pause() }
  }

  func counters() async throws -> StoreCounters { try await call { try await base.counters() } }

  func apply(
    _ group: [Batch],
    expecting expected: StoreCounters,
    nextId: Int64
  ) async throws {
    try await call(writes: true) {
      try await base.apply(group, expecting: expected, nextId: nextId)
    }
  }

  func close() async { await base.close() }

  func conversation(_ id: ConversationID) async throws -> ConversationRecord? {
    try await call { try await base.conversation(id) }
  }

  func scanConversations(
    _ query: ConversationQuery,
    _ page: PageRequest
  ) async throws -> Page<ConversationRecord> {
    try await call { try await base.scanConversations(query, page) }
  }

  func entry(_ id: EntryID) async throws -> EntryLookup? {
    try await call { try await base.entry(id) }
  }

  func entry(
    _ id: EntryID,
    visibleIn conversationId: ConversationID
  ) async throws -> EntryLookup? {
    try await call { try await base.entry(id, visibleIn: conversationId) }
  }

  func latestHeadMarker(
    _ conversationId: ConversationID,
    atOrBefore: EntryID?
  ) async throws -> EntryRecord? {
    try await call { try await base.latestHeadMarker(conversationId, atOrBefore: atOrBefore) }
  }

  func scanEntries(_ query: EntryQuery, _ page: PageRequest) async throws -> Page<EntryRecord> {
    try await call { try await base.scanEntries(query, page) }
  }

  func task(_ id: TaskID) async throws -> TaskRecord? {
    try await call { try await base.task(id) }
  }

  func scanTasks(_ query: TaskQuery, _ page: PageRequest) async throws -> Page<TaskRecord> {
    try await call { try await base.scanTasks(query, page) }
  }

  func submission(_ id: SubmissionID) async throws -> SubmissionRecord? {
    try await call { try await base.submission(id) }
  }

  func submission(
    requestId: JSONString,
    in conversationId: ConversationID
  ) async throws -> SubmissionRecord? {
    try await call { try await base.submission(requestId: requestId, in: conversationId) }
  }

  func scanSubmissions(
    _ query: SubmissionQuery,
    _ page: PageRequest
  ) async throws -> Page<SubmissionRecord> {
    try await call { try await base.scanSubmissions(query, page) }
  }

  func findDocument(_ address: DocumentAddress, at: Int64?) async throws -> DocumentRecord? {
    try await call { try await base.findDocument(address, at: at) }
  }

  func document(_ id: DocumentID, at: Int64?) async throws -> StoredDocument? {
    try await call { try await base.document(id, at: at) }
  }

  func scanDocuments(
    _ query: DocumentQuery,
    _ page: PageRequest
  ) async throws -> Page<DocumentRecord> {
    try await call { try await base.scanDocuments(query, page) }
  }

  func extra(scope: String, id: Int64) async throws -> JSON? {
    try await call { try await base.extra(scope: scope, id: id) }
  }

  func facts(_ needs: BatchNeeds) async throws -> BatchFacts {
    try await call { try await base.facts(needs) }
  }
}
