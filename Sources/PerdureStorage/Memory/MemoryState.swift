import PerdureModel
import PerdureValue

/// Everything a store in memory holds, with the indexes that its queries need.
package struct MemoryState {
  struct Document {
    var record: DocumentRecord
    var revisions: [Revision]
  }

  /// A record as it is kept.
  enum Record {
    case conversation(ConversationRecord)
    case entry(EntryLookup)
    case task(TaskRecord)
    case submission(SubmissionRecord)
    case document(Document)
  }

  struct RequestKey: Hashable {
    let conversationId: ConversationID
    let requestId: JSONString
  }

  struct ExtraKey: Hashable {
    let scope: String
    let id: Int64

    // Two spellings of one letter are two scopes, as in the other backends.
    static func == (left: ExtraKey, right: ExtraKey) -> Bool {
      left.id == right.id && left.scope.utf8.elementsEqual(right.scope.utf8)
    }

    func hash(into hasher: inout Hasher) {
      for byte in scope.utf8 { hasher.combine(byte) }
      hasher.combine(id)
    }
  }

  var counters = StoreCounters()
  var types: [Int64: RecordType] = [:]
  var conversations: [ConversationID: ConversationRecord] = [:]
  var conversationIds = SortedIds()
  var conversationsByOwner: [ConversationID: SortedIds] = [:]
  var conversationsByTask: [TaskID: SortedIds] = [:]
  var entries: [EntryID: EntryLookup] = [:]
  var entryIds: [ConversationID: SortedIds] = [:]
  var headIds: [ConversationID: SortedIds] = [:]
  var tasks: [TaskID: TaskRecord] = [:]
  var taskIds = SortedIds()
  var liveTaskIds = SortedIds()
  var submissions: [SubmissionID: SubmissionRecord] = [:]
  var submissionIds = SortedIds()
  var openSubmissionIds = SortedIds()
  var requests: [RequestKey: SubmissionID] = [:]
  var documents: [DocumentID: Document] = [:]
  var incarnations: [DocumentAddress: SortedIds] = [:]
  var current: [DocumentAddress: DocumentID] = [:]
  var documentIds: [DocumentScope: SortedIds] = [:]
  var extras: [ExtraKey: JSON] = [:]
}

// MARK: - Single changes, each of which can be taken back

extension MemoryState {
  mutating func set(_ write: ExtraWrite) {
    extras[ExtraKey(scope: write.scope, id: write.id)] = write.value
  }

  mutating func add(_ record: ConversationRecord) {
    let id = record.id.value
    types[id] = .conversation
    conversations[record.id] = record
    conversationIds.insert(id)
    guard let owner = record.owner else { return }
    conversationsByOwner[owner.conversationId, default: SortedIds()].insert(id)
    conversationsByTask[owner.taskId, default: SortedIds()].insert(id)
  }

  mutating func remove(_ record: ConversationRecord) {
    let id = record.id.value
    types[id] = nil
    conversations[record.id] = nil
    conversationIds.remove(id)
    if entryIds[record.id]?.values.isEmpty == true { entryIds[record.id] = nil }
    if headIds[record.id]?.values.isEmpty == true { headIds[record.id] = nil }
    guard let owner = record.owner else { return }
    conversationsByOwner[owner.conversationId]?.remove(id)
    conversationsByTask[owner.taskId]?.remove(id)
  }

  mutating func add(_ record: EntryRecord, at sequence: Int64) {
    let id = record.id.value
    types[id] = .entry
    entries[record.id] = EntryLookup(entry: record, commitSequence: sequence)
    entryIds[record.conversationId, default: SortedIds()].insert(id)
    if record.head != nil { headIds[record.conversationId, default: SortedIds()].insert(id) }
  }

  mutating func remove(_ record: EntryRecord) {
    let id = record.id.value
    types[id] = nil
    entries[record.id] = nil
    entryIds[record.conversationId]?.remove(id)
    headIds[record.conversationId]?.remove(id)
  }

  mutating func set(_ id: TaskID, _ record: TaskRecord?) {
    tasks[id] = record
    guard let record else {
      types[id.value] = nil
      taskIds.remove(id.value)
      liveTaskIds.remove(id.value)
      return
    }
    types[id.value] = .task
    taskIds.insert(id.value)
    if record.isLive { liveTaskIds.insert(id.value) } else { liveTaskIds.remove(id.value) }
  }

  mutating func set(_ id: SubmissionID, _ record: SubmissionRecord?) {
    if let old = submissions[id], let requestId = old.requestId {
      let key = RequestKey(conversationId: old.conversationId, requestId: requestId)
      if requests[key] == id { requests[key] = nil }
    }
    submissions[id] = record
    guard let record else {
      types[id.value] = nil
      submissionIds.remove(id.value)
      openSubmissionIds.remove(id.value)
      return
    }
    types[id.value] = .submission
    submissionIds.insert(id.value)
    if record.isSettled {
      openSubmissionIds.remove(id.value)
    } else {
      openSubmissionIds.insert(id.value)
    }
    if let requestId = record.requestId {
      requests[RequestKey(conversationId: record.conversationId, requestId: requestId)] = id
    }
  }

  mutating func set(_ id: DocumentID, _ document: Document?) {
    if let old = documents[id], document == nil {
      types[id.value] = nil
      let (address, scope) = (old.record.address, old.record.address.scope)
      incarnations[address]?.remove(id.value)
      if incarnations[address]?.values.isEmpty == true { incarnations[address] = nil }
      documentIds[scope]?.remove(id.value)
      if documentIds[scope]?.values.isEmpty == true { documentIds[scope] = nil }
    }
    if let old = documents[id], current[old.record.address] == id {
      current[old.record.address] = nil
    }
    documents[id] = document
    guard let document else { return }
    let address = document.record.address
    types[id.value] = .document
    incarnations[address, default: SortedIds()].insert(id.value)
    documentIds[address.scope, default: SortedIds()].insert(id.value)
    if document.record.retiredAt == nil { current[address] = id }
  }
}

// MARK: - Removal

extension MemoryState {
  /// Takes a record away and returns it; `nil` if there is none.
  mutating func remove(_ reference: RecordReference) -> Record? {
    let id = reference.id
    switch reference.type {
    case .conversation:
      guard let record = ConversationID(id).flatMap({ conversations[$0] }) else { return nil }
      remove(record)
      return .conversation(record)
    case .entry:
      guard let found = EntryID(id).flatMap({ entries[$0] }) else { return nil }
      remove(found.entry)
      return .entry(found)
    case .task:
      guard let record = TaskID(id).flatMap({ tasks[$0] }) else { return nil }
      set(record.id, nil as TaskRecord?)
      return .task(record)
    case .submission:
      guard let record = SubmissionID(id).flatMap({ submissions[$0] }) else { return nil }
      set(record.id, nil as SubmissionRecord?)
      return .submission(record)
    case .document:
      guard let document = DocumentID(id).flatMap({ documents[$0] }) else { return nil }
      set(document.record.id, nil as Document?)
      return .document(document)
    }
  }

  /// Takes a record away, whatever it is; nothing happens if there is none.
  mutating func remove(_ id: Int64) {
    if let type = types[id] { _ = remove(RecordReference(type, id)) }
  }

  /// Puts back what was taken away.
  mutating func restore(_ record: Record) {
    switch record {
    case .conversation(let record): add(record)
    case .entry(let found): add(found.entry, at: found.commitSequence)
    case .task(let record): set(record.id, record)
    case .submission(let record): set(record.id, record)
    case .document(let document): set(document.record.id, document)
    }
  }
}
