package import PerdureModel
package import PerdureValue

/// One commit in the making: the only thing that writes.
///
/// It lives inside the closure of a commit and cannot leave it. Tables are read before the first
/// table write; documents may be read and changed at any time.
package final class Transaction {
  let session: Session
  /// The conversation of the commit, where it has one.
  package let conversationId: ConversationID?
  /// The task whose runtime commits, which is recorded on the entries it appends.
  package let taskId: TaskID?
  package let now: Int64

  var isSettled = false
  var hasWrittenTable = false
  private(set) var minted: Set<Int64> = []

  /// Conversations and entries in call order.
  var appended: [StorageWrite] = []
  var newConversations: [ConversationID: ConversationRecord] = [:]
  var submissionOrder: [SubmissionID] = []
  var submissions: [SubmissionID: SubmissionRecord] = [:]
  var taskOrder: [TaskID] = []
  private(set) var tasks: [TaskID: TaskRecord] = [:]
  var newTasks: [TaskID] = []
  /// The records of replaced tasks as they were before this commit.
  private(set) var replaced: [TaskID: TaskRecord] = [:]
  /// Every incarnation that this commit has to do with, in the order of the first accesses.
  var opened: [OpenDocument] = []
  /// The newest incarnation at each address, as a place in `opened`.
  var places: [DocumentAddress: Int] = [:]
  var forkedConversations: Set<ConversationID> = []
  var forkSources: Set<DocumentID> = []
  private(set) var extras: [ExtraWrite] = []
  var removals = TransactionRemovals()
  var marks: [ConversationID: ConversationMark] = [:]
  var facts = BatchFacts()

  init(session: Session, conversationId: ConversationID?, taskId: TaskID?, now: Int64) {
    self.session = session
    self.conversationId = conversationId
    self.taskId = taskId
    self.now = now
  }

  // MARK: Reads

  func check(reading method: String? = nil) throws {
    if isSettled {
      throw PerdureError(
        .transactionSettled,
        "a transaction was used after its closure returned"
      )
    }
    if let method, hasWrittenTable {
      throw PerdureError(
        .readAfterWrite,
        "\(method) was read after the transaction had written a table",
        hint: "read tables before the first write"
      )
    }
  }

  /// Returns the conversation, or `nil`.
  package func conversation(_ id: ConversationID) async throws -> ConversationRecord? {
    try check(reading: "conversation")
    return try await session.store.conversation(id)
  }

  /// Returns the entry, or `nil`.
  package func entry(_ id: EntryID) async throws -> EntryRecord? {
    try check(reading: "entry")
    return try await session.store.entry(id)?.entry
  }

  /// Returns the task, or `nil`.
  package func task(_ id: TaskID) async throws -> TaskRecord? {
    try check(reading: "task")
    return try await session.task(id)
  }

  /// Returns the submission with this request id, or `nil`.
  package func submission(
    requestId: JSONString,
    in conversation: ConversationID
  ) async throws -> SubmissionRecord? {
    try check(reading: "submissionByRequest")
    return try await session.store.submission(requestId: requestId, in: conversation)
  }

  /// Visits conversations, ascending by default.
  package func scanConversations(
    _ query: ConversationQuery,
    _ page: PageRequest
  ) async throws -> Page<ConversationRecord> {
    try check(reading: "scanConversations")
    return try await session.store.scanConversations(query, page)
  }

  /// Visits the entries that a conversation sees, descending by default.
  package func scanEntries(
    _ query: EntryQuery,
    _ page: PageRequest
  ) async throws -> Page<EntryRecord> {
    try check(reading: "scanEntries")
    return try await session.store.scanEntries(query, page)
  }

  /// Visits tasks, ascending by default.
  package func scanTasks(
    _ query: TaskQuery,
    _ page: PageRequest
  ) async throws -> Page<TaskRecord> {
    try check(reading: "scanTasks")
    return try await session.store.scanTasks(query, page)
  }

  /// Returns the newest entry that the conversation sees, or `nil`.
  package func newestEntry(in conversation: ConversationID) async throws -> EntryRecord? {
    try check(reading: "scanEntries")
    return try await session.store.scanEntries(
      EntryQuery(conversationId: conversation),
      PageRequest(limit: 1)
    ).items.first
  }

  /// Returns the newest head marker that the conversation sees up to an entry, or `nil`.
  package func latestHeadMarker(
    _ conversation: ConversationID,
    atOrBefore entry: EntryID? = nil
  ) async throws -> EntryRecord? {
    try check(reading: "latestHeadMarker")
    return try await session.store.latestHeadMarker(conversation, atOrBefore: entry)
  }

  // MARK: Table writes

  func mint() throws -> Int64 {
    let id = try session.store.mintId()
    minted.insert(id)
    return id
  }

  /// Remembers that this commit writes a record under an id that was not minted.
  func claim(_ id: Int64) { minted.insert(id) }

  func hasConversation(_ id: ConversationID) async throws -> Bool {
    if newConversations[id] != nil { return true }
    return try await session.store.conversation(id) != nil
  }

  func requireConversation(_ id: ConversationID) async throws {
    if newConversations[id] == nil { try await session.requireConversation(id) }
  }

  /// Appends an entry and returns its record.
  @discardableResult
  package func append(
    _ draft: EntryDraft,
    to conversation: ConversationID
  ) async throws -> EntryRecord {
    try check()
    hasWrittenTable = true
    try draft.check()
    try await requireConversation(conversation)
    let id = EntryID.known(try mint())
    let head: EntryID? =
      switch draft.head {
      case .itself: id
      case .entry(let target): target
      case nil: nil
      }
    let record = EntryRecord(
      id: id,
      conversationId: conversation,
      kind: draft.kind,
      model: draft.model,
      data: draft.data,
      head: head,
      edits: draft.edits,
      byTaskId: taskId
    )
    appended.append(.entry(record))
    extras.append(ExtraWrite(scope: "entry", id: id.value, value: ["at": .int(now)]))
    return record
  }

  /// Creates a pending task and returns its record; the owner's conversation is the task's.
  package func createTask(
    _ definition: TaskDefinition,
    input: JSON,
    owner: TaskID? = nil,
    conversation: ConversationID,
    background: Bool = false,
    abandonOnRestart: Bool = false,
    checkpoint known: JSON? = nil
  ) async throws -> TaskRecord {
    try check()
    hasWrittenTable = true
    try await requireConversation(conversation)
    let checkpoint = try known ?? definition.initial(input)
    try definition.check(checkpoint)
    let record = TaskRecord(
      id: TaskID.known(try mint()),
      conversationId: conversation,
      kind: definition.name,
      version: definition.version,
      input: input,
      owner: owner,
      background: background,
      abandonOnRestart: abandonOnRestart,
      state: .pending(checkpoint: checkpoint)
    )
    put(record)
    newTasks.append(record.id)
    return record
  }

  private func put(_ record: TaskRecord) {
    if tasks[record.id] == nil { taskOrder.append(record.id) }
    tasks[record.id] = record
  }

  /// Replaces a task that is not terminal, and stamps its start and its end.
  package func replace(_ record: TaskRecord) async throws {
    try check()
    hasWrittenTable = true
    var record = record
    let candidate: TaskRecord?
    if let staged = tasks[record.id] {
      candidate = staged
    } else {
      candidate = try await session.task(record.id)
    }
    guard let candidate, candidate.isLive, candidate.conversationId == record.conversationId else {
      throw PerdureError(.invalidBatch, "task \(record.id) is missing, terminal or moved")
    }
    if record.startedAt == nil { record.startedAt = candidate.startedAt }
    switch record.state {
    case .running: if record.startedAt == nil { record.startedAt = now }
    case .terminal: if record.endedAt == nil { record.endedAt = now }
    default: break
    }
    if record.state.outcome != nil {
      record.memos = nil
      record.restarts = nil
    }
    if !minted.contains(record.id.value) { facts.types[record.id.value] = .task }
    if tasks[record.id] == nil { replaced[record.id] = candidate }
    put(record)
  }

  /// Adds a fact beside the records.
  package func put(extra: ExtraWrite) throws {
    try check()
    extras.append(extra)
  }
}
