import PerdureModel
import PerdureValue

extension SQLiteStore {
  /// Writes a group in one transaction, or nothing.
  func apply(_ group: [Batch], expecting expected: StoreCounters, nextId: Int64) throws {
    var writer = GroupWriter(store: self)
    // Taken out, so that a group that fails leaves nothing known.
    swap(&writer.known, &known)
    try connection.transaction {
      if connection.hasMoved { throw SQLiteFailure.moved(path: connection.path) }
      let before = try counters()
      let after = try before.advanced(by: group, expecting: expected, nextId: nextId)
      writer.firstFreshId = before.nextId
      for batch in group { try writer.add(batch, below: nextId) }
      try writer.flush()
      try connection.run(
        "UPDATE durable_metadata SET next_id = ?, next_seq = ? WHERE singleton = 1",
        [.string(String(after.nextId)), .int(after.nextSequence)]
      )
    }
    writer.forgetWhatHasEnded()
    swap(&writer.known, &known)
  }
}

/// What the store holds of the records that may be written again.
///
/// Only this process writes: a group that finds other counters than it expects is refused. So what
/// was written or read once need not be read for every commit.
struct KnownRecords {
  private static let capacity = 4_096

  var types: [Int64: RecordType] = [:]
  var heads: [DocumentID: DocumentHead] = [:]

  /// Forgets everything once it is much; what is needed then is read again.
  mutating func limit() {
    if types.count > Self.capacity { types = [:] }
    if heads.count > Self.capacity { heads = [:] }
  }
}

/// Writes the batches of one group.
///
/// What a later batch of the group replaces is never written: of a task or submission only the last
/// record, of a document that keeps only its newest value only the revisions behind the last base.
private struct GroupWriter {
  /// What is to be done to the revisions of a document.
  struct PendingRevisions {
    var deletesStored = false
    var added: [Revision] = []
  }

  let store: SQLiteStore
  /// No stored record has this id or a greater one.
  var firstFreshId: Int64 = 0
  var known = KnownRecords()
  /// Records that nobody writes again.
  var ended: [Int64] = []
  var current: [DocumentAddress: DocumentID?] = [:]
  var tasks: [TaskID: TaskRecord] = [:]
  var submissions: [SubmissionID: SubmissionRecord] = [:]
  var newDocuments: Set<DocumentID> = []
  var changedDocuments: Set<DocumentID> = []
  var revisions: [DocumentID: PendingRevisions] = [:]

  init(store: SQLiteStore) { self.store = store }

  mutating func forgetWhatHasEnded() {
    for id in ended {
      known.types[id] = nil
      if let id = DocumentID(id) { known.heads[id] = nil }
    }
    known.limit()
  }

  mutating func add(_ batch: Batch, below nextId: Int64) throws {
    let effects = try BatchEffects(batch, try facts(BatchNeeds(batch)))
    try effects.requireIds(below: nextId)
    if !effects.removals.isEmpty { try remove(effects.removals) }
    for record in effects.conversations {
      try claim(record.id.value, .conversation)
      try insert(record)
    }
    for record in effects.entries {
      try claim(record.id.value, .entry)
      try insert(record, at: batch.sequence)
    }
    for record in effects.tasks {
      try claim(record.id.value, .task)
      if !record.isLive { ended.append(record.id.value) }
      tasks[record.id] = record
    }
    for record in effects.submissions {
      try claim(record.id.value, .submission)
      if record.isSettled { ended.append(record.id.value) }
      submissions[record.id] = record
    }
    // Retirements first, so that a successor at the same address is the current one.
    for effect in effects.documents where effect.isRetired { try add(effect, batch.sequence) }
    for effect in effects.documents where !effect.isRetired { try add(effect, batch.sequence) }
    for extra in batch.extras { try write(extra) }
  }

  // MARK: What earlier batches of the group have made of the store

  private mutating func facts(_ needs: BatchNeeds) throws -> BatchFacts {
    var facts = BatchFacts()
    for id in needs.ids {
      if known.types[id] == nil, id < firstFreshId {
        known.types[id] = try store.recordType(id)
      }
      facts.types[id] = known.types[id]
    }
    for id in needs.documents {
      if known.heads[id] == nil { known.heads[id] = try store.head(of: id) }
      facts.documents[id] = known.heads[id]
    }
    for address in needs.addresses {
      if current[address] == nil {
        current[address] = .some(try store.findDocument(address, at: nil)?.id)
      }
      facts.current[address] = current[address] ?? nil
    }
    guard !needs.sources.isEmpty else { return facts }
    // The source may have revisions that are not written yet.
    try flush()
    for source in needs.sources { facts.sources[source] = try store.source(source) }
    return facts
  }

  private mutating func claim(_ id: Int64, _ type: RecordType) throws {
    guard known.types[id] == nil else { return }
    known.types[id] = type
    switch type {
    case .conversation, .entry: ended.append(id)
    case .task, .submission, .document: break
    }
    try store.connection.run(
      "INSERT INTO record_ids (id, record_type) VALUES (?, ?)",
      [.int(id), .string(type.rawValue)]
    )
  }

  private mutating func add(_ effect: DocumentEffect, _ sequence: Int64) throws {
    let id = effect.record.id
    if effect.isNew {
      try claim(id.value, .document)
      newDocuments.insert(id)
      if !effect.isRetired { current[effect.record.address] = id }
    } else if effect.isRetired {
      if !newDocuments.contains(id) { changedDocuments.insert(id) }
      current[effect.record.address] = .some(nil)
    }
    if effect.isRetired { ended.append(id.value) }
    var version = known.heads[id]?.version
    var pending = revisions[id] ?? PendingRevisions()
    switch effect.revisions {
    case .untouched: break
    case .appended(let content):
      pending.added.append(Revision(sequence: sequence, content: content))
      version = content.version
    case .replaced(let content):
      pending.deletesStored = !newDocuments.contains(id)
      pending.added = [Revision(sequence: sequence, content: content)]
      version = content.version
    case .cleared:
      pending.deletesStored = !newDocuments.contains(id)
      pending.added = []
      version = nil
    }
    revisions[id] = pending
    known.heads[id] = DocumentHead(record: effect.record, version: version)
  }

  private mutating func remove(_ removals: [Removal]) throws {
    // An earlier batch of the group may have written what goes now.
    try flush()
    for removal in removals {
      let id = removal.reference.id
      try store.delete(removal.reference)
      known.types[id] = nil
      if let record = removal.document {
        known.heads[record.id] = nil
        if record.retiredAt == nil { current[record.address] = .some(nil) }
      }
    }
  }

  // MARK: Writing

  /// Writes all that waits, in the order of ids, so that neighbours share pages.
  mutating func flush() throws {
    for (_, record) in tasks.sorted(by: { $0.key < $1.key }) { try put(record) }
    for (_, record) in submissions.sorted(by: { $0.key < $1.key }) { try put(record) }
    for id in newDocuments.sorted() { try insert(known.heads[id]?.record) }
    for id in changedDocuments.sorted() { try retire(known.heads[id]?.record) }
    for (id, pending) in revisions.sorted(by: { $0.key < $1.key }) { try write(pending, of: id) }
    tasks = [:]
    submissions = [:]
    newDocuments = []
    changedDocuments = []
    revisions = [:]
  }

  private func insert(_ record: ConversationRecord) throws {
    try store.connection.run(
      """
      INSERT INTO conversations (id, owner_conversation_id, owner_task_id, record)
      VALUES (?, ?, ?, ?)
      """,
      [
        .int(record.id.value), .optional(record.owner?.conversationId.value),
        .optional(record.owner?.taskId.value), .text(record.json.encoded),
      ]
    )
  }

  private func insert(_ record: EntryRecord, at sequence: Int64) throws {
    try store.connection.run(
      "INSERT INTO entries (id, conversation_id, head, commit_seq, record) VALUES (?, ?, ?, ?, ?)",
      [
        .int(record.id.value), .int(record.conversationId.value), .optional(record.head?.value),
        .int(sequence), .text(record.json.encoded),
      ]
    )
  }

  private func put(_ record: TaskRecord) throws {
    try store.connection.run(
      """
      INSERT INTO tasks (id, conversation_id, kind, status, abort_requested, background, record)
      VALUES (?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT (id) DO UPDATE SET conversation_id = excluded.conversation_id,
        kind = excluded.kind, status = excluded.status,
        abort_requested = excluded.abort_requested, background = excluded.background,
        record = excluded.record
      """,
      [
        .int(record.id.value), .int(record.conversationId.value),
        .string(record.kind.asciiLiteral), .string(record.state.status.rawValue),
        .int(record.abortRequested ? 1 : 0), .int(record.background ? 1 : 0),
        .text(record.json.encoded),
      ]
    )
  }

  private func put(_ record: SubmissionRecord) throws {
    try store.connection.run(
      """
      INSERT INTO submissions (id, conversation_id, request_id, status, record)
      VALUES (?, ?, ?, ?, ?)
      ON CONFLICT (id) DO UPDATE SET conversation_id = excluded.conversation_id,
        request_id = excluded.request_id, status = excluded.status, record = excluded.record
      """,
      [
        .int(record.id.value), .int(record.conversationId.value),
        record.requestId.map { .string($0.asciiLiteral) } ?? .null,
        .string(record.status.rawValue), .text(record.json.encoded),
      ]
    )
  }

  private func insert(_ record: DocumentRecord?) throws {
    guard let record else { return }
    let address = record.address
    try store.connection.run(
      """
      INSERT INTO documents (id, kind, family, key_value, scope_kind, owner_id, created_at,
        retired_at, record)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
      """,
      [
        .int(record.id.value), .string(address.kind.asciiLiteral),
        .int(address.key == nil ? 0 : 1), .string((address.key ?? "").asciiLiteral),
        .string(address.scope.kind), .int(address.scope.ownerId), .int(record.createdAt),
        .optional(record.retiredAt), .text(record.json.encoded),
      ]
    )
  }

  private func retire(_ record: DocumentRecord?) throws {
    guard let record else { return }
    try store.connection.run(
      "UPDATE documents SET retired_at = ?, record = ? WHERE id = ?",
      [.optional(record.retiredAt), .text(record.json.encoded), .int(record.id.value)]
    )
  }

  private func write(_ pending: PendingRevisions, of id: DocumentID) throws {
    if pending.deletesStored {
      try store.connection.run(
        "DELETE FROM document_revisions WHERE document_id = ?",
        [.int(id.value)]
      )
    }
    for revision in pending.added {
      let (kind, content): (String, JSON) =
        switch revision.content {
        case .base(_, let value): ("base", value)
        case .delta(_, let operations): ("delta", .array(operations.map { $0.json }))
        }
      try store.connection.run(
        """
        INSERT INTO document_revisions (document_id, seq, kind, version, content)
        VALUES (?, ?, ?, ?, ?)
        """,
        [
          .int(id.value), .int(revision.sequence), .string(kind),
          .int(revision.content.version), .text(content.encoded),
        ]
      )
    }
  }

  private func write(_ extra: ExtraWrite) throws {
    guard let value = extra.value else {
      try store.connection.run(
        "DELETE FROM perdure_extras WHERE scope = ? AND id = ?",
        [.string(extra.scope), .int(extra.id)]
      )
      return
    }
    try store.connection.run(
      """
      INSERT INTO perdure_extras (scope, id, value) VALUES (?, ?, ?)
      ON CONFLICT (scope, id) DO UPDATE SET value = excluded.value
      """,
      [.string(extra.scope), .int(extra.id), .text(value.encoded)]
    )
  }
}
