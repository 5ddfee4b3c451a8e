import Perdure

/// A store as one JSON object: tables by name, records by id.
struct State: Sendable {
  var tables: JSONObject = [:]

  subscript(table: JSONString, key: Any) -> JSON? {
    get { tables[table]?[JSONString("\(key)")] }
    set {
      var members = tables[table]?.object ?? [:]
      members[JSONString("\(key)")] = newValue
      tables[table] = .object(members)
    }
  }

  func all<Record>(_ table: JSONString, _ make: (JSON) throws -> Record) throws -> [Record] {
    try (tables[table]?.object?.values ?? []).map(make)
  }

  var counters: StoreCounters {
    get {
      let (sequence, id) = (self["counters", "sequence"]?.int, self["counters", "id"]?.int)
      return StoreCounters(nextSequence: sequence ?? 1, nextId: id ?? 2)
    }
    set {
      self["counters", "sequence"] = .int(newValue.nextSequence)
      self["counters", "id"] = .int(newValue.nextId)
    }
  }

  mutating func apply(_ effects: BatchEffects, _ batch: Batch) {
    let stamp = JSON.int(batch.sequence)
    for gone in effects.removals.map({ $0.reference }) {
      self[JSONString(gone.type.rawValue), gone.id] = nil
    }
    for record in effects.conversations { self["conversation", record.id] = record.json }
    for record in effects.entries { self["entry", record.id] = [stamp, record.json] }
    for record in effects.tasks { self["task", record.id] = record.json }
    for record in effects.submissions { self["submission", record.id] = record.json }
    for effect in effects.documents {
      var revisions = self["document", effect.record.id]?.array?.last?.array ?? []
      switch effect.revisions {
      case .untouched: break
      case .appended(let content): revisions.append([stamp, content.json])
      case .replaced(let content): revisions = [[stamp, content.json]]
      case .cleared: revisions = []
      }
      self["document", effect.record.id] = [effect.record.json, .array(revisions)]
    }
    for extra in batch.extras { self["extra", "\(extra.id) \(extra.scope)"] = extra.value }
  }

  /// What must be known to judge a batch.
  func facts(_ needs: BatchNeeds) throws -> BatchFacts {
    var facts = BatchFacts()
    for id in needs.ids {
      facts.types[id] = RecordType.allCases.first { self[JSONString($0.rawValue), id] != nil }
    }
    for (record, revisions) in try all("document", Self.document) {
      let head = DocumentHead(record: record, version: revisions.last?.content.version)
      facts.documents[record.id] = head
      if record.retiredAt == nil { facts.current[record.address] = record.id }
    }
    for source in needs.sources { facts.sources[source] = try? document(source.id, at: source.at) }
    return facts
  }

  /// The entries of a conversation and of its ancestors up to where each fork left.
  func visible(in id: ConversationID) throws -> [EntryLookup] {
    let all = try all("entry", Self.entry)
    var visible: [EntryLookup] = []
    var (next, cap) = (id, EntryID.greatest)
    while let json = self["conversation", next] {
      visible += all.filter { $0.entry.conversationId == next && $0.entry.id.value <= cap }
      guard let parent = try ConversationRecord(json: json).parent else { return visible }
      (next, cap) = (parent.conversationId, min(cap, parent.at.value))
    }
    throw PerdureError(.invalidRequest, "unknown conversation \(next)")
  }

  func document(_ id: DocumentID, at sequence: Int64?) throws -> StoredDocument? {
    guard let (record, revisions) = try self["document", id].map(Self.document) else { return nil }
    try record.requireHistory(at: sequence)
    guard record.isAlive(at: sequence) else { return nil }
    let visible = revisions.filter { $0.sequence <= sequence ?? .max }
    return try StoredDocument(record: record, replaying: visible)
  }

  static func entry(_ json: JSON) throws -> EntryLookup {
    let (stamp, record) = try pair(json)
    return EntryLookup(entry: try EntryRecord(json: record), commitSequence: stamp.int ?? 0)
  }

  static func document(_ json: JSON) throws -> (record: DocumentRecord, revisions: [Revision]) {
    let (record, revisions) = try pair(json)
    let read = try (revisions.array ?? []).map { revision in
      let (stamp, content) = try pair(revision)
      return Revision(sequence: stamp.int ?? 0, content: try DocumentContent(json: content))
    }
    return (try DocumentRecord(json: record), read)
  }

  private static func pair(_ json: JSON) throws -> (JSON, JSON) {
    guard let first = json.array?.first, let last = json.array?.last else {
      throw PerdureError(.storeCorrupt, "a record of the file cannot be read")
    }
    return (first, last)
  }
}
