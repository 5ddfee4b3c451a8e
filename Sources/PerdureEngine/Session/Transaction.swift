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
  private var hasWrittenTable = false
  private(set) var minted: Set<Int64> = []

  /// Conversations and entries in call order.
  private(set) var appended: [StorageWrite] = []
  private(set) var newConversations: [ConversationID: ConversationRecord] = [:]
  var submissionOrder: [SubmissionID] = []
  var submissions: [SubmissionID: SubmissionRecord] = [:]
  var taskOrder: [TaskID] = []
  private(set) var tasks: [TaskID: TaskRecord] = [:]
  var newTasks: [TaskID] = []
  var documentOrder: [DocumentAddress] = []
  var documents: [DocumentAddress: OpenDocument] = [:]
  private(set) var extras: [ExtraWrite] = []
  var facts = BatchFacts()

  struct OpenDocument {
    var definition: DocumentDefinition
    /// What was there before; absent for a document that this commit creates.
    var base: DocumentCache.Revision?
    var draft: DocumentDraft
  }

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

  /// Returns the newest entry that the conversation sees, or `nil`.
  package func newestEntry(in conversation: ConversationID) async throws -> EntryRecord? {
    try check(reading: "scanEntries")
    return try await session.store.scanEntries(
      EntryQuery(conversationId: conversation),
      PageRequest(limit: 1)
    ).items.first
  }

  /// Returns the newest head marker that the conversation sees, or `nil`.
  package func latestHeadMarker(_ conversation: ConversationID) async throws -> EntryRecord? {
    try check(reading: "latestHeadMarker")
    return try await session.store.latestHeadMarker(conversation, atOrBefore: nil)
  }

  // MARK: Table writes

  func mint() throws -> Int64 {
    let id = try session.store.mintId()
    minted.insert(id)
    return id
  }

  private func hasConversation(_ id: ConversationID) async throws -> Bool {
    if newConversations[id] != nil { return true }
    return try await session.store.conversation(id) != nil
  }

  func requireConversation(_ id: ConversationID) async throws {
    guard try await hasConversation(id) else {
      throw PerdureError(.notFound, "conversation \(id) does not exist")
    }
  }

  /// Creates a conversation without an owner, with its built-in documents; `root` asks for id 1.
  package func createConversation(root: Bool = false) async throws -> ConversationRecord {
    try check()
    hasWrittenTable = true
    // Storage would refuse a second root only at the flush, which is too late for one commit.
    if root, try await hasConversation(.root) {
      throw PerdureError(.invalidBatch, "ID 1 already belongs to conversation")
    }
    let id = root ? ConversationID.root : ConversationID.known(try mint())
    minted.insert(id.value)
    let record = ConversationRecord(id: id)
    appended.append(.conversation(record))
    newConversations[id] = record
    for definition in [DocumentDefinition.live, .inbox, .usage, .provider, .agent] {
      try await edit(definition, id) { _ in }
    }
    return record
  }

  /// Appends an entry and returns its record.
  @discardableResult
  package func append(
    _ draft: EntryDraft,
    to conversation: ConversationID
  ) async throws -> EntryRecord {
    try check()
    hasWrittenTable = true
    guard !draft.kind.isEmpty else {
      throw PerdureError(.invalidInput, "an entry has an empty kind")
    }
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
    conversation: ConversationID
  ) async throws -> TaskRecord {
    try check()
    hasWrittenTable = true
    try await requireConversation(conversation)
    let record = TaskRecord(
      id: TaskID.known(try mint()),
      conversationId: conversation,
      kind: definition.name,
      version: definition.version,
      input: input,
      owner: owner,
      state: .pending(checkpoint: definition.initial(input))
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
    put(record)
  }

  /// Creates a submission and returns its record.
  package func createSubmission(
    in conversation: ConversationID,
    requestId: JSONString?,
    kind: SubmissionRecord.Kind,
    state: SubmissionRecord.State
  ) async throws -> SubmissionRecord {
    try check()
    hasWrittenTable = true
    try await requireConversation(conversation)
    let record = SubmissionRecord(
      id: SubmissionID.known(try mint()),
      conversationId: conversation,
      requestId: requestId,
      kind: kind,
      state: state
    )
    submissionOrder.append(record.id)
    submissions[record.id] = record
    extras.append(ExtraWrite(scope: "submission", id: record.id.value, value: ["at": .int(now)]))
    return record
  }

  /// Settles a submission; one that is settled already stays as it is.
  package func settle(
    _ id: SubmissionID,
    _ settlement: (SubmissionRecord) throws -> SubmissionRecord.State
  ) async throws {
    try check()
    hasWrittenTable = true
    let candidate: SubmissionRecord?
    if let staged = submissions[id] {
      candidate = staged
    } else {
      candidate = try await session.store.submission(id)
    }
    guard var record = candidate else {
      throw PerdureError(.notFound, "submission \(id) does not exist")
    }
    if record.isSettled { return }
    record.state = try settlement(record)
    if case .done(_, let answer) = record.state,
      record.kind != .input || candidate?.status != .placed || answer == nil
    {
      throw PerdureError(.invalidBatch, "submission \(id) is no placed input")
    }
    if submissions[id] == nil { submissionOrder.append(id) }
    submissions[id] = record
    if !minted.contains(id.value) { facts.types[id.value] = .submission }
  }

  /// Adds a fact beside the records.
  package func put(extra: ExtraWrite) throws {
    try check()
    extras.append(extra)
  }
}
