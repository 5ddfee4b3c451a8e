package import PerdureModel
package import PerdureValue

/// New conversations and forks, each with its documents.
extension Transaction {
  /// Creates a conversation, with what the session adds to each; `root` asks for id 1.
  package func createConversation(
    root: Bool = false,
    owner: TaskID? = nil
  ) async throws -> ConversationRecord {
    try check()
    hasWrittenTable = true
    // Storage would refuse a second root only at the flush, which is too late for one commit.
    if root, try await hasConversation(.root) {
      throw PerdureError(.invalidBatch, "ID 1 already belongs to conversation")
    }
    let owner = try await ownership(of: owner)
    let id = root ? ConversationID.root : ConversationID.known(try mint())
    claim(id.value)
    let record = ConversationRecord(id: id, owner: owner)
    add(record)
    try await session.onCreation?(self, record)
    return record
  }

  /// Creates a conversation that inherits what `parent` sees up to and including the entry `at`.
  ///
  /// Documents are copied as their stored fork policy says, with the values that they had before
  /// this commit. The commit may therefore change neither a copied document nor one of the parent
  /// with the policy `current`. Throws `notFound` if `parent` does not see the entry.
  package func forkConversation(
    _ parent: ConversationID,
    at entry: EntryID,
    owner: TaskID? = nil
  ) async throws -> ConversationRecord {
    try check()
    let lookup = try await session.visibleEntry(entry, in: parent)
    hasWrittenTable = true
    let owner = try await ownership(of: owner)
    let record = ConversationRecord(
      id: ConversationID.known(try mint()),
      parent: ConversationRecord.Parent(conversationId: parent, at: entry),
      owner: owner
    )
    let ownerOfEntry = lookup.entry.conversationId
    try await copyDocuments(of: ownerOfEntry, at: lookup.commitSequence, .asOf, to: record.id)
    try await copyDocuments(of: parent, at: nil, .current, to: record.id)
    forkedConversations.insert(parent)
    add(record)
    try await session.onCreation?(self, record)
    return record
  }

  /// Changes the choices of a conversation: a value replaces, `null` clears, absent leaves.
  package func configure(_ id: ConversationID, _ change: JSONObject) async throws {
    try await edit(.agent, id) { agent in
      for (key, value) in change {
        guard !PathSegment.unsafeKeys.contains(key) else {
          throw PerdureError(.invalidInput, "'\(key.string)' is no choice of a conversation")
        }
        if !value.isNull {
          try agent.assign([.key(key)], value)
        } else if agent.value[key] != nil {
          try agent.delete([.key(key)])
        }
      }
    }
  }

  private func add(_ record: ConversationRecord) {
    appended.append(.conversation(record))
    newConversations[record.id] = record
  }

  /// Whether the task may own something new is judged at the end of the commit.
  private func ownership(of task: TaskID?) async throws -> ConversationRecord.Owner? {
    guard let task else { return nil }
    guard let record = try await candidate(task) else {
      throw PerdureError(.notFound, "task \(task) does not exist")
    }
    return ConversationRecord.Owner(conversationId: record.conversationId, taskId: task)
  }

  /// Creates the built-in documents of a conversation that this commit creates.
  package func createBuiltInDocuments(of record: ConversationRecord) async throws {
    for definition in [DocumentDefinition.live, .inbox, .usage, .provider] {
      try await edit(definition, record.id) { _ in }
    }
    // A fork has the choices of its parent as they were.
    if places[DocumentDefinition.agent.address(in: record.id)] != nil { return }
    var choices: JSON = [:]
    if record.parent == nil, let owner = record.owner {
      choices = try await value(.agent, owner.conversationId)
    }
    try await edit(.agent, record.id) { try $0.assign([], choices) }
  }

  /// Creates the documents that extensions want each new conversation to have.
  func createDeclaredDocuments(
    of record: ConversationRecord,
    _ extensions: [InstalledExtension]
  ) async throws {
    for declaration in extensions.flatMap(\.documents) where declaration.comesWithConversation {
      let definition = DocumentDefinition(declaration, key: nil, PreparedMigrations())
      // A fork may have brought one.
      if places[definition.address(in: record.id)] != nil { continue }
      try await edit(definition, record.id) { _ in }
    }
  }

  private func copyDocuments(
    of conversation: ConversationID,
    at sequence: Int64?,
    _ policy: DocumentFork,
    to child: ConversationID
  ) async throws {
    let query = DocumentQuery(scope: .conversation(conversation), at: sequence)
    var cursor: Cursor?
    repeat {
      let page = try await session.store.scanDocuments(
        query,
        PageRequest(limit: 256, cursor: cursor)
      )
      for record in page.items where record.fork == policy {
        try await copy(CopySource(id: record.id, at: sequence), record, to: child)
      }
      cursor = page.next
    } while cursor != nil
  }

  private func copy(
    _ source: CopySource,
    _ original: DocumentRecord,
    to child: ConversationID
  ) async throws {
    guard let stored = try await session.store.document(source.id, at: source.at) else {
      throw PerdureError(.storeCorrupt, "document \(source.id) cannot be read for a fork")
    }
    var address = original.address
    address.scope = .conversation(child)
    guard places[address] == nil else {
      throw PerdureError(
        .invalidBatch,
        "a fork selects two documents '\(address.kind.string)' for one address",
        hint: "retire one of them before the fork"
      )
    }
    let record = DocumentRecord(
      id: DocumentID.known(try mint()),
      address: address,
      history: original.history,
      fork: original.fork,
      createdAt: 0
    )
    forkSources.insert(source.id)
    places[address] = opened.count
    opened.append(
      OpenDocument(
        address: address,
        copy: OpenDocument.Copy(record: record, source: source, stored: stored),
        draft: DocumentDraft(base: stored.value)
      )
    )
  }
}
