import PerdureValue

/// What a valid batch does to a store.
///
/// The rules of a store hold for every backend and for the layer that stages commits in front of
/// it, on a database thread as well as in asynchronous code. So the check does no reads itself:
///
///     let needs = BatchNeeds(batch)             // 1. what must be known
///     let facts = try await storage.facts(needs)  // 2. the caller finds it out, its own way
///     let effects = try BatchEffects(batch, facts)  // 3. throws invalidBatch, or says what to do
///
/// `facts` must describe the store right before the batch, with all earlier batches of a group
/// applied. Facts that were not needed do no harm, so a caller may add to what it already knows.
public struct BatchEffects: Sendable {
  public var conversations: [ConversationRecord] = []
  public var entries: [EntryRecord] = []
  /// The last record of each task, in the order of the first writes.
  public var tasks: [TaskRecord] = []
  /// The last record of each submission, in the order of the first writes.
  public var submissions: [SubmissionRecord] = []
  /// One effect for each document, in the order of the first commands.
  public var documents: [DocumentEffect] = []
  /// What is taken away, none of which the batch writes; applied before anything is written.
  public var removals: [Removal] = []
  /// The first id behind all that are written; 1 if none is.
  public var nextId: Int64 = 1

  /// Judges `batch`.
  ///
  /// Throws `invalidBatch` for the first rule that it breaks.
  public init(_ batch: Batch, _ facts: BatchFacts) throws {
    var claims = Claims(facts: facts)
    var commands = DocumentCommands()
    var taskPlaces: [TaskID: Int] = [:]
    var submissionPlaces: [SubmissionID: Int] = [:]
    for write in batch.writes {
      switch write {
      case .conversation(let record):
        try claims.add(record.id.value, .conversation)
        conversations.append(record)
      case .entry(let record):
        try claims.add(record.id.value, .entry)
        entries.append(record)
      case .task(let record):
        try claims.add(record.id.value, .task)
        Self.put(record, record.id, into: &tasks, at: &taskPlaces)
      case .submission(let record):
        try claims.add(record.id.value, .submission)
        Self.put(record, record.id, into: &submissions, at: &submissionPlaces)
      case .createDocument(let record, _, _), .copyDocument(let record, _, _):
        try claims.add(record.id.value, .document)
        try commands.add(write)
      case .changeDocument, .retireDocument: try commands.add(write)
      case .remove(let reference): try claims.remove(reference)
      }
    }
    nextId = claims.greatest + 1
    removals = try claims.removals(commands)
    documents = try commands.effects(at: batch.sequence, facts, removing: removals)
  }

  /// Throws `invalidBatch` if the batch writes an id that would be minted again.
  public func requireIds(below nextId: Int64) throws {
    guard self.nextId <= nextId else {
      throw invalid("ID \(self.nextId - 1) is not below the next id \(nextId)")
    }
  }

  private static func put<Record, ID: Hashable>(
    _ record: Record,
    _ id: ID,
    into records: inout [Record],
    at places: inout [ID: Int]
  ) {
    if let place = places[id] {
      records[place] = record
    } else {
      places[id] = records.count
      records.append(record)
    }
  }
}

/// A record that a batch takes away.
public struct Removal: Sendable {
  public var reference: RecordReference
  /// A document as it was; absent for other records.
  public var document: DocumentRecord?
}

/// What a batch does to one document.
public struct DocumentEffect: Sendable {
  /// What happens to the stored revisions.
  public enum Revisions: Sendable, Equatable {
    case untouched
    /// The content follows the revisions before.
    case appended(DocumentContent)
    /// The content is all that is kept.
    case replaced(DocumentContent)
    /// Nothing is kept, because nothing can read it any more.
    case cleared
  }

  /// The record as the batch leaves it, with the stamps of the store.
  public var record: DocumentRecord
  /// Whether the batch created it.
  public var isNew: Bool
  /// Whether the batch retired it.
  public var isRetired: Bool
  /// What was written, a copy as the base that it is; also present where nothing of it is kept.
  public var content: DocumentContent?

  /// What happens to the stored revisions.
  public var revisions: Revisions {
    if isRetired && record.isCurrentOnly { return .cleared }
    guard let content else { return .untouched }
    if case .base = content, record.isCurrentOnly { return .replaced(content) }
    return .appended(content)
  }
}

extension StoreCounters {
  /// Returns the counters after `group`, or throws why it may not follow a store with these ones.
  ///
  /// Throws `foreignWriter` unless they equal `expected`, and `invalidBatch` if the batches do not
  /// carry the next sequence numbers or `nextId` goes back.
  public func advanced(
    by group: [Batch],
    expecting expected: StoreCounters,
    nextId: Int64
  ) throws -> StoreCounters {
    guard self == expected else {
      throw PerdureError(
        .foreignWriter,
        "another program wrote to the store while it was open",
        hint: "stop the other program and open the store again",
        details: ["expected": expected.json, "found": json]
      )
    }
    guard nextId >= self.nextId else {
      throw invalid("the next id may not go back from \(self.nextId) to \(nextId)")
    }
    var sequence = nextSequence
    for batch in group {
      guard batch.sequence == sequence else {
        throw invalid("a batch has the sequence number \(batch.sequence) in place of \(sequence)")
      }
      sequence += 1
    }
    // The next one must be a number that every program can read.
    guard sequence <= EntryID.greatest else { throw invalid("sequence space is exhausted") }
    return StoreCounters(nextSequence: sequence, nextId: nextId)
  }

  private var json: JSON {
    ["nextSequence": .int(nextSequence), "nextId": .int(nextId)]
  }
}

private func invalid(_ message: String, cause: String? = nil) -> PerdureError {
  PerdureError(.invalidBatch, message, cause: cause)
}

/// Who claims which id within a batch.
private struct Claims {
  let facts: BatchFacts
  var claimed: [Int64: RecordType] = [:]
  var removed: [RecordReference] = []
  var removedIds: Set<Int64> = []
  var greatest: Int64 = 0

  init(facts: BatchFacts) { self.facts = facts }

  mutating func add(_ id: Int64, _ type: RecordType) throws {
    let existing = facts.types[id]
    let earlier = claimed[id]
    let isReplaceable = type == .task || type == .submission
    if let existing, !isReplaceable || existing != type {
      throw invalid("ID \(id) already belongs to \(existing.rawValue)")
    }
    if let earlier, earlier != type { throw invalid("ID \(id) is written as two record types") }
    if earlier != nil, !isReplaceable { throw invalid("ID \(id) is written more than once") }
    claimed[id] = type
    greatest = max(greatest, id)
  }

  mutating func remove(_ reference: RecordReference) throws {
    guard facts.types[reference.id] == reference.type else {
      throw invalid("unknown \(reference) cannot be removed")
    }
    guard removedIds.insert(reference.id).inserted else {
      throw invalid("\(reference) is removed more than once")
    }
    removed.append(reference)
  }

  /// What is removed, once all writes are known.
  func removals(_ commands: DocumentCommands) throws -> [Removal] {
    try removed.map { reference in
      let document = DocumentID(reference.id).flatMap { reference.type == .document ? $0 : nil }
      guard claimed[reference.id] == nil, document.map({ commands.commands[$0] == nil }) ?? true
      else { throw invalid("\(reference) is written and removed") }
      guard let document else { return Removal(reference: reference) }
      guard let head = facts.documents[document] else {
        throw invalid("unknown \(reference) cannot be removed")
      }
      return Removal(reference: reference, document: head.record)
    }
  }
}

/// The document commands of a batch, gathered by document.
private struct DocumentCommands {
  struct Command {
    var created: DocumentRecord?
    var source: CopySource?
    var content: DocumentContent?
    var retires = false

    var hasContent: Bool { source != nil || content != nil }
  }

  var order: [DocumentID] = []
  var commands: [DocumentID: Command] = [:]

  mutating func add(_ write: StorageWrite) throws {
    switch write {
    case .createDocument(let record, let version, let value):
      try setContent(record.id) {
        $0.created = record
        $0.content = .base(version: version, value: value)
      }
    case .copyDocument(let record, let source, let at):
      try setContent(record.id) {
        $0.created = record
        $0.source = CopySource(id: source, at: at)
      }
    case .changeDocument(let id, let content): try setContent(id) { $0.content = content }
    case .retireDocument(let id):
      try change(id) {
        if $0.retires { throw invalid("document \(id) is retired more than once") }
        $0.retires = true
      }
    case .conversation, .entry, .task, .submission, .remove: break
    }
  }

  private mutating func setContent(_ id: DocumentID, _ body: (inout Command) -> Void) throws {
    try change(id) {
      if $0.hasContent { throw invalid("document \(id) has more than one content command") }
      body(&$0)
    }
  }

  private mutating func change(_ id: DocumentID, _ body: (inout Command) throws -> Void) throws {
    if commands[id] == nil { order.append(id) }
    try body(&commands[id, default: Command()])
  }

  func effects(
    at sequence: Int64,
    _ facts: BatchFacts,
    removing removals: [Removal]
  ) throws -> [DocumentEffect] {
    var effects: [DocumentEffect] = []
    for id in order {
      guard let command = commands[id] else { continue }
      effects.append(try effect(of: command, id, at: sequence, facts))
    }
    try checkAddresses(effects, facts, removing: removals)
    return effects
  }

  private func effect(
    of command: Command,
    _ id: DocumentID,
    at sequence: Int64,
    _ facts: BatchFacts
  ) throws -> DocumentEffect {
    let head = facts.documents[id]
    var record: DocumentRecord
    if let created = command.created {
      if head != nil { throw invalid("document \(id) already exists") }
      record = created
      record.createdAt = sequence
      record.retiredAt = nil
    } else {
      guard let head else { throw invalid("unknown document \(id)") }
      if head.record.retiredAt != nil { throw invalid("document \(id) is retired") }
      record = head.record
    }
    var content = command.content
    if let source = command.source { content = try copied(source, to: record, facts) }
    if case .delta(let version, _) = content {
      guard let newest = head?.version else { throw invalid("document \(id) delta has no base") }
      if newest != version {
        throw invalid("document \(id) version transition requires a base")
      }
    }
    if command.retires { record.retiredAt = sequence }
    return DocumentEffect(
      record: record,
      isNew: command.created != nil,
      isRetired: command.retires,
      content: content
    )
  }

  /// The base that a copy starts from; sources are read as they were before the batch.
  private func copied(
    _ source: CopySource,
    to record: DocumentRecord,
    _ facts: BatchFacts
  ) throws -> DocumentContent {
    func rejected(_ cause: String) -> PerdureError {
      invalid("document copy \(record.id) was rejected", cause: cause)
    }
    if commands[source.id] != nil {
      throw rejected("source document \(source.id) is changed in the same batch")
    }
    guard let stored = facts.sources[source] else {
      throw rejected("source document \(source.id) cannot be read")
    }
    let from = stored.record
    guard case .conversation = from.address.scope, case .conversation = record.address.scope else {
      throw rejected("source document \(source.id) or its copy belongs to no conversation")
    }
    guard from.address.kind == record.address.kind, from.address.key == record.address.key,
      from.history == record.history, from.fork == record.fork
    else { throw rejected("source document \(source.id) does not match the copied record") }
    return .base(version: stored.version, value: stored.value)
  }

  private func checkAddresses(
    _ effects: [DocumentEffect],
    _ facts: BatchFacts,
    removing removals: [Removal]
  ) throws {
    var live: [DocumentAddress: Int] = [:]
    for record in removals.compactMap({ $0.document })
    where facts.current[record.address] == record.id {
      live[record.address] = 0
    }
    for effect in effects {
      let address = effect.record.address
      if effect.isNew {
        let before = facts.current[address] == nil ? 0 : 1
        live[address, default: before] += effect.isRetired ? 0 : 1
      } else if effect.isRetired {
        // Counted from the facts, because a caller may not have asked for this address.
        live[address, default: 1] -= 1
      }
    }
    for address in effects.map({ $0.record.address }) where live[address, default: 0] > 1 {
      throw invalid("document address already has a current incarnation (\(address.kind.string))")
    }
  }
}
