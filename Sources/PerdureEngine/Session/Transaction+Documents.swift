package import PerdureModel
package import PerdureValue

/// The documents of a commit, and what it comes to in the end.
extension Transaction {
  /// Returns the value of a built-in document as this commit sees it, or its initial value.
  ///
  /// Never creates it.
  package func value(
    _ definition: DocumentDefinition,
    _ conversation: ConversationID
  ) async throws -> JSON {
    try check()
    let address = definition.address(in: conversation)
    if let open = documents[address] { return open.draft.value }
    return try await session.revision(definition, conversation)?.value ?? definition.initial(now)
  }

  /// Opens a built-in document, creating it if it does not exist, and lets `body` change it.
  package func edit<Result>(
    _ definition: DocumentDefinition,
    _ conversation: ConversationID,
    _ body: (inout DocumentDraft) throws -> Result
  ) async throws -> Result {
    try check()
    let address = definition.address(in: conversation)
    var open: OpenDocument
    if let known = documents.removeValue(forKey: address) {
      open = known
    } else {
      let base =
        newConversations[conversation] == nil
        ? try await session.revision(definition, conversation) : nil
      if base == nil { try await requireConversation(conversation) }
      open = OpenDocument(
        definition: definition,
        base: base,
        draft: DocumentDraft(base: base?.value ?? definition.initial(now))
      )
      documentOrder.append(address)
    }
    defer { documents[address] = open }
    return try body(&open.draft)
  }

  // MARK: Assembly

  /// What a document changes to, beside the write that stores it.
  struct DocumentChange {
    var address: DocumentAddress
    /// What it changes; absent for a document that is created.
    var base: DocumentCache.Revision?
    var revision: DocumentCache.Revision
    var operations: [Operation]
    var write: StorageWrite
  }

  func seal() throws -> [DocumentChange] {
    isSettled = true
    var changes: [DocumentChange] = []
    for address in documentOrder {
      guard let open = documents[address] else { continue }
      if let change = try change(at: address, open) { changes.append(change) }
    }
    return changes
  }

  private func change(at address: DocumentAddress, _ open: OpenDocument) throws -> DocumentChange? {
    let definition = open.definition
    let value = open.draft.value
    guard let base = open.base else {
      let record = DocumentRecord(
        id: DocumentID.known(try mint()),
        address: address,
        history: definition.history,
        fork: definition.fork,
        createdAt: 0
      )
      let revision = DocumentCache.Revision(
        record: record,
        version: definition.version,
        value: value,
        deltasSinceBase: 0
      )
      return DocumentChange(
        address: address,
        base: nil,
        revision: revision,
        operations: [],
        write: .createDocument(record, version: definition.version, value: value)
      )
    }
    let operations = open.draft.operations
    guard !operations.isEmpty else { return nil }
    let isBase = definition.storesBase(value)
    let content: DocumentContent =
      isBase
      ? .base(version: definition.version, value: value)
      : .delta(version: definition.version, operations: operations)
    facts.documents[base.record.id] = DocumentHead(record: base.record, version: base.version)
    let revision = DocumentCache.Revision(
      record: base.record,
      version: definition.version,
      value: value,
      deltasSinceBase: isBase ? 0 : base.deltasSinceBase + 1
    )
    return DocumentChange(
      address: address,
      base: base,
      revision: revision,
      operations: operations,
      write: .changeDocument(base.record.id, content)
    )
  }

  /// The table writes in the order that publications and stores see.
  func tableWrites() throws -> [StorageWrite] {
    for id in newTasks {
      guard let owner = tasks[id]?.owner else { continue }
      let candidate = tasks[owner] ?? session.liveTask(owner)
      guard let candidate, candidate.state.outcome == nil, !candidate.abortRequested else {
        throw PerdureError(
          .invalidBatch,
          "task \(id) cannot be owned by task \(owner), which is ending or gone"
        )
      }
    }
    return appended + submissionOrder.compactMap { submissions[$0].map { .submission($0) } }
      + taskOrder.compactMap { tasks[$0].map { .task($0) } }
  }

  /// The documents of the tasks that this commit ends.
  ///
  /// Tasks of this session cannot have any: only older tasks of another program can.
  func taskDocumentsToRetire() async throws -> [DocumentRecord] {
    var retired: [DocumentRecord] = []
    for id in taskOrder where id.value < session.firstOwnId && tasks[id]?.isLive == false {
      var cursor: Cursor?
      repeat {
        let page = try await session.store.scanDocuments(
          DocumentQuery(scope: .task(id)),
          PageRequest(limit: 256, cursor: cursor)
        )
        retired += page.items
        cursor = page.next
      } while cursor != nil
    }
    for record in retired {
      facts.documents[record.id] = DocumentHead(record: record, version: nil)
    }
    return retired
  }
}
