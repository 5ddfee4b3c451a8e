import PerdureModel
import PerdureValue

/// What a commit comes to in the end.
extension Transaction {
  /// What becomes of a document, beside the writes that store it.
  struct DocumentChange {
    /// As it was, or without stamps for a document that is created.
    var record: DocumentRecord
    var isNew = false
    var isRetired = false
    /// What it changes, where that is known.
    var base: DocumentCache.Revision?
    /// What it changes to; absent for a document that is only retired.
    var revision: DocumentCache.Revision?
    var operations: [Operation] = []
    /// What it is a copy of, if nobody opened the copy.
    var source: CopySource?
    var writes: [StorageWrite]
  }

  /// Ends the use of the transaction and returns what it did to documents.
  func seal() async throws -> [DocumentChange] {
    isSettled = true
    let ended = Set(taskOrder.filter { tasks[$0]?.isLive == false })
    var changes: [DocumentChange] = []
    for var document in opened {
      if case .task(let id) = document.address.scope, ended.contains(id) {
        document.isRetired = true
      }
      if let change = try change(of: document) { changes.append(change) }
    }
    if !ended.isEmpty { changes += try await retirements(with: ended) }
    try checkForkSources(changes)
    return changes
  }

  private func change(of document: OpenDocument) throws -> DocumentChange? {
    guard let base = document.base else { return try creation(of: document) }
    facts.documents[base.record.id] = DocumentHead(record: base.record, version: base.version)
    var change = DocumentChange(
      record: base.record,
      isRetired: document.isRetired,
      base: base,
      writes: []
    )
    if let definition = document.definition { try fill(&change, base, definition, document.draft) }
    if document.isRetired { change.writes.append(.retireDocument(base.record.id)) }
    return change.writes.isEmpty ? nil : change
  }

  /// Adds the new content, unless an existing document of the same version did not change.
  private func fill(
    _ change: inout DocumentChange,
    _ base: DocumentCache.Revision,
    _ definition: DocumentDefinition,
    _ draft: DocumentDraft
  ) throws {
    let operations = draft.operations
    let isTransition = base.version != definition.version
    guard isTransition || !operations.isEmpty else { return }
    let isBase =
      try isTransition
      || definition.storesBase(
        DocumentDefinition.Change(
          value: draft.value,
          operations: operations,
          deltasSinceBase: base.deltasSinceBase
        )
      )
    let content: DocumentContent =
      isBase
      ? .base(version: definition.version, value: draft.value)
      : .delta(version: definition.version, operations: operations)
    change.writes.append(.changeDocument(base.record.id, content))
    change.revision = DocumentCache.Revision(
      record: base.record,
      version: definition.version,
      value: draft.value,
      deltasSinceBase: isBase ? 0 : base.deltasSinceBase + 1
    )
    // The operations begin at the migrated value, which nobody outside has.
    change.operations =
      !isTransition ? operations : base.value == draft.value ? [] : [.replace(draft.value)]
  }

  private func creation(of document: OpenDocument) throws -> DocumentChange {
    if let copy = document.copy, document.definition == nil { return self.copy(copy, document) }
    guard let definition = document.definition else {
      throw PerdureError(.invalidBatch, "document '\(document.address.kind.string)' has no value")
    }
    let record = try document.copy?.record ?? newRecord(definition, document.address)
    var writes = [
      StorageWrite.createDocument(
        record,
        version: definition.version,
        value: document.draft.value
      )
    ]
    if document.isRetired { writes.append(.retireDocument(record.id)) }
    return DocumentChange(
      record: record,
      isNew: true,
      isRetired: document.isRetired,
      revision: DocumentCache.Revision(
        record: record,
        version: definition.version,
        value: document.draft.value,
        deltasSinceBase: 0
      ),
      writes: writes
    )
  }

  private func copy(_ copy: OpenDocument.Copy, _ document: OpenDocument) -> DocumentChange {
    facts.sources[copy.source] = copy.stored
    var revision = DocumentCache.Revision(copy.stored)
    revision.record = copy.record
    revision.deltasSinceBase = 0
    let write = StorageWrite.copyDocument(
      copy.record,
      source: copy.source.id,
      at: copy.source.at
    )
    return DocumentChange(
      record: copy.record,
      isNew: true,
      isRetired: document.isRetired,
      revision: revision,
      source: copy.source,
      writes: document.isRetired ? [write, .retireDocument(copy.record.id)] : [write]
    )
  }

  private func newRecord(
    _ definition: DocumentDefinition,
    _ address: DocumentAddress
  ) throws -> DocumentRecord {
    var record = DocumentRecord(
      id: DocumentID.known(try mint()),
      address: address,
      createdAt: 0
    )
    if case .conversation(let history, let fork) = definition.scope {
      record.history = history
      record.fork = fork
    }
    return record
  }

  /// The documents, beside those that are open here, of the tasks that this commit ends.
  private func retirements(with ended: Set<TaskID>) async throws -> [DocumentChange] {
    let known = Set(opened.compactMap { $0.base?.record.id })
    var changes: [DocumentChange] = []
    for id in ended.sorted() {
      for record in try await documents(of: id) where !known.contains(record.id) {
        facts.documents[record.id] = DocumentHead(record: record, version: nil)
        changes.append(
          DocumentChange(
            record: record,
            isRetired: true,
            writes: [.retireDocument(record.id)]
          )
        )
      }
    }
    return changes
  }

  private func documents(of task: TaskID) async throws -> [DocumentRecord] {
    // What this session gave its own tasks it knows; a scan would flush what is staged.
    if task.value >= session.firstOwnId { return session.ownDocuments(of: task) }
    var records: [DocumentRecord] = []
    var cursor: Cursor?
    repeat {
      let page = try await session.store.scanDocuments(
        DocumentQuery(scope: .task(task)),
        PageRequest(limit: 256, cursor: cursor)
      )
      records += page.items
      cursor = page.next
    } while cursor != nil
    return records
  }

  /// A copy has the value from before the commit, so a change beside it would leave it unclear
  /// which one the fork was to have.
  private func checkForkSources(_ changes: [DocumentChange]) throws {
    guard !forkedConversations.isEmpty else { return }
    for change in changes {
      let record = change.record
      let isOfParent =
        if case .conversation(let id) = record.address.scope {
          record.fork == .current && forkedConversations.contains(id)
        } else {
          false
        }
      guard isOfParent || forkSources.contains(record.id) else { continue }
      throw PerdureError(
        .invalidBatch,
        "document '\(record.address.kind.string)' (\(record.id)) is changed in the commit that"
          + " forks its conversation",
        hint: "fork in a commit of its own"
      )
    }
  }

  /// The table writes in the order that publications and stores see.
  func tableWrites() async throws -> [StorageWrite] {
    for case .conversation(let record) in appended {
      if let owner = record.owner?.taskId {
        _ = try await requireOwner(owner, of: "conversation \(record.id)")
      }
    }
    for id in newTasks {
      guard let record = tasks[id], let owner = record.owner else { continue }
      let candidate = try await requireOwner(owner, of: "task \(id)")
      guard candidate.conversationId == record.conversationId, !record.background else {
        throw PerdureError(
          .invalidBatch,
          "task \(id) is in the background or in another conversation than its owner \(owner)"
        )
      }
    }
    let writes =
      appended + submissionOrder.compactMap { submissions[$0].map { StorageWrite.submission($0) } }
      + taskOrder.compactMap { tasks[$0].map { StorageWrite.task($0) } }
    for write in writes { try write.check() }
    return writes
  }

  private func requireOwner(_ owner: TaskID, of owned: String) async throws -> TaskRecord {
    let candidate = try await candidate(owner)
    guard let candidate, candidate.state.outcome == nil, !candidate.abortRequested else {
      throw PerdureError(
        .invalidBatch,
        "\(owned) cannot be owned by task \(owner), which is ending or gone",
        details: ["reason": "owner"]
      )
    }
    return candidate
  }
}

extension EntryDraft {
  /// Throws `invalidInput` for an empty kind or a message that is none.
  func check() throws {
    guard !kind.isEmpty else { throw PerdureError(.invalidInput, "an entry has an empty kind") }
    var messages = model ?? []
    for case .replace(_, let replacement) in edits ?? [] { messages += replacement }
    guard messages.allSatisfy({ MessageRole($0) != .other }) else {
      throw PerdureError(
        .invalidInput,
        "an entry of the kind '\(kind.string)' has a message without a known role",
        hint: "its messages have the role 'user', 'assistant', 'toolResult' or 'system'"
      )
    }
  }
}
