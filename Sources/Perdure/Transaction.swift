import PerdureEngine
public import PerdureModel
public import PerdureValue

/// One commit in the making: all that it writes is written, or nothing.
///
/// It lives inside the closure of `commit` and is of no use afterwards. Tables are read before the
/// first table write: later reads throw `readAfterWrite`. Documents may be read and changed at any
/// time. The closure must not call the harness: that throws `nestedCommit`.
public struct Transaction {
  let base: PerdureEngine.Transaction

  /// The time of the commit, in milliseconds since 1970.
  public var now: Int64 { base.now }

  // MARK: Reads

  /// Returns the conversation, or `nil`.
  public func conversation(_ id: ConversationID) async throws -> ConversationRecord? {
    try await base.conversation(id)
  }

  /// Returns the entry, or `nil`.
  public func entry(_ id: EntryID) async throws -> EntryRecord? { try await base.entry(id) }

  /// Returns the task, or `nil`.
  public func task(_ id: TaskID) async throws -> TaskRecord? { try await base.task(id) }

  /// Returns the submission that has this request id in the conversation, or `nil`.
  public func submission(
    requestId: String,
    in conversation: ConversationID
  ) async throws -> SubmissionRecord? {
    try await base.submission(requestId: JSONString(requestId), in: conversation)
  }

  /// Visits conversations, ascending by default.
  public func scanConversations(
    _ query: ConversationQuery = ConversationQuery(),
    _ page: PageRequest
  ) async throws -> Page<ConversationRecord> { try await base.scanConversations(query, page) }

  /// Visits the entries that a conversation sees, descending by default.
  public func scanEntries(
    _ query: EntryQuery,
    _ page: PageRequest
  ) async throws -> Page<EntryRecord> { try await base.scanEntries(query, page) }

  /// Visits tasks, ascending by default.
  public func scanTasks(
    _ query: TaskQuery = TaskQuery(),
    _ page: PageRequest
  ) async throws -> Page<TaskRecord> { try await base.scanTasks(query, page) }

  /// Returns the newest head marker that the conversation sees up to an entry, or `nil`.
  public func latestHeadMarker(
    _ conversation: ConversationID,
    atOrBefore entry: EntryID? = nil
  ) async throws -> EntryRecord? {
    try await base.latestHeadMarker(conversation, atOrBefore: entry)
  }

  /// Whether an entry with this head would bring back what a newer head marker left behind.
  ///
  /// `append` does not mind; whoever wrote the head some time ago should ask first.
  public func isStale(
    _ head: EntryDraft.Head?,
    in conversation: ConversationID
  ) async throws -> Bool { try await base.isStale(head, in: conversation) }

  // MARK: Table writes

  /// Creates a conversation; one that a task owns takes over the choices of the task's.
  public func createConversation(ownedBy task: TaskID? = nil) async throws -> ConversationRecord {
    try await base.createConversation(owner: task)
  }

  /// Creates a conversation that inherits what `parent` sees up to and including the entry `at`.
  ///
  /// The entry must have been there before this commit. Documents are copied as their fork policy
  /// says, with the values from before this commit, which may change none of them.
  public func forkConversation(
    _ parent: ConversationID,
    at entry: EntryID,
    ownedBy task: TaskID? = nil
  ) async throws -> ConversationRecord {
    try await base.forkConversation(parent, at: entry, owner: task)
  }

  /// Appends an entry and returns its record.
  @discardableResult
  public func append(
    _ draft: EntryDraft,
    to conversation: ConversationID
  ) async throws -> EntryRecord { try await base.append(draft, to: conversation) }

  // MARK: Documents

  /// Returns a document as this commit sees it, or `nil` if there is none; never creates it.
  public func value<Value>(
    _ document: Document<Value>,
    of scope: DocumentScope = .session,
    key: String? = nil
  ) async throws -> Value? {
    let json = try await base.value(
      document.definition,
      in: scope,
      key: key.map { JSONString($0) }
    )
    return try json.map { try document.form.decode($0) }
  }

  /// Lets `body` change a document, which is created if there is none.
  ///
  /// What differs afterwards is stored. It costs a comparison of the whole document; `edit` does
  /// not. The first access to an absent document decides with its `seed` what that begins with.
  @discardableResult
  public func update<Value, Result>(
    _ document: Document<Value>,
    of scope: DocumentScope = .session,
    key: String? = nil,
    seed: JSON? = nil,
    _ body: (inout Value) throws -> Result
  ) async throws -> Result {
    let form = document.form
    return try await edit(document, of: scope, key: key, seed: seed) { editor in
      var value = try form.decode(editor.value)
      let result = try body(&value)
      try editor.assign([], try form.encode(value))
      return result
    }
  }

  /// Lets `body` change a document member by member; it is created if there is none.
  @discardableResult
  public func edit<Value, Result>(
    _ document: Document<Value>,
    of scope: DocumentScope = .session,
    key: String? = nil,
    seed: JSON? = nil,
    _ body: (inout DocumentEditor) throws -> Result
  ) async throws -> Result {
    let definition = document.definition
    let key = key.map { JSONString($0) }
    return try await base.edit(definition, in: scope, key: key, seed: seed) { draft in
      // The draft leaves its place while it is changed, so that it is not copied.
      var editor = DocumentEditor(kind: definition.kind, draft: draft)
      draft = DocumentDraft(base: .null)
      defer { draft = editor.draft }
      return try body(&editor)
    }
  }

  /// Retires a document; opening it afterwards creates a new one.
  ///
  /// Without one nothing happens.
  public func retire<Value>(
    _ document: Document<Value>,
    of scope: DocumentScope = .session,
    key: String? = nil
  ) async throws {
    try await base.retire(document.definition, in: scope, key: key.map { JSONString($0) })
  }
}

extension Harness {
  /// Runs `body` as one commit and returns its result once that is on disk.
  ///
  /// If `body` throws, nothing is written.
  @discardableResult
  public func commit<Result>(
    _ body: (Transaction) async throws -> Result
  ) async throws -> Result {
    try await engine.session.commit { try await body(Transaction(base: $0)) }
  }

  /// Returns a document as it is on disk, or `nil` if there is none; never creates it.
  public func value<Value>(
    _ document: Document<Value>,
    of scope: DocumentScope = .session,
    key: String? = nil
  ) async throws -> Value? {
    let json = try await engine.session.snapshot(
      document.definition,
      in: scope,
      key: key.map { JSONString($0) }
    )
    return try json.map { try document.form.decode($0) }
  }
}

extension Conversation {
  /// Runs `body` as one commit and returns its result once that is on disk.
  ///
  /// If `body` throws, nothing is written.
  @discardableResult
  public func commit<Result>(
    _ body: (Transaction) async throws -> Result
  ) async throws -> Result {
    try await engine.session.commit(conversation: id) { try await body(Transaction(base: $0)) }
  }

  /// Creates a conversation that inherits what this one sees up to and including an entry.
  ///
  /// It goes on from there as if nothing had followed. Throws `notFound` if this conversation does
  /// not see the entry.
  ///
  /// The choices of `agent` are changed on top of those of then, and `body` may add to the commit.
  /// A live task may own it.
  public func fork(
    at entry: EntryID,
    ownedBy task: TaskID? = nil,
    agent: AgentChange = .init(),
    _ body: Harness.Beginning? = nil
  ) async throws -> Conversation {
    let fork = try await engine.fork(
      id,
      at: entry,
      ownedBy: task,
      configure: agent.object(),
      body.map(Harness.beginning)
    )
    return Conversation(id: fork, engine: engine)
  }

  /// Returns a document as it was at the end of the commit that wrote an entry, or `nil`.
  ///
  /// The document needs the history `rewindable`.
  public func value<Value>(
    _ document: Document<Value>,
    asOf entry: EntryID,
    key: String? = nil
  ) async throws -> Value? {
    let json = try await engine.session.snapshot(
      document.definition,
      in: id,
      asOf: entry,
      key: key.map { JSONString($0) }
    )
    return try json.map { try document.form.decode($0) }
  }
}
