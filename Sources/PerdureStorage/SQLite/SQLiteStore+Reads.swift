import PerdureModel
import PerdureValue

extension SQLiteStore {
  // MARK: Single records

  func conversation(_ id: ConversationID) throws -> ConversationRecord? {
    try record("SELECT record FROM conversations WHERE id = ?", id.value, "conversation") {
      try ConversationRecord(json: $0)
    }
  }

  func entry(_ id: EntryID) throws -> EntryLookup? {
    let row = try connection.first(
      "SELECT record, commit_seq FROM entries WHERE id = ?",
      [
        .int(id.value)
      ]
    ) { ($0.bytes(0), $0.int(1)) }
    guard let (bytes, sequence) = row else { return nil }
    let entry = try EntryRecord(json: try json(bytes, "entry"))
    return EntryLookup(entry: entry, commitSequence: sequence)
  }

  func entry(_ id: EntryID, visibleIn conversationId: ConversationID) throws -> EntryLookup? {
    let segments = try Ancestry.segments(of: conversationId) { try conversation($0) }
    guard let found = try entry(id) else { return nil }
    let isVisible = segments.contains {
      $0.conversationId == found.entry.conversationId && id.value <= $0.upper
    }
    return isVisible ? found : nil
  }

  func task(_ id: TaskID) throws -> TaskRecord? {
    try record("SELECT record FROM tasks WHERE id = ?", id.value, "task") {
      try TaskRecord(json: $0)
    }
  }

  func submission(_ id: SubmissionID) throws -> SubmissionRecord? {
    try record("SELECT record FROM submissions WHERE id = ?", id.value, "submission") {
      try SubmissionRecord(json: $0)
    }
  }

  func submission(
    requestId: JSONString,
    in conversationId: ConversationID
  ) throws -> SubmissionRecord? {
    var filter = Filter()
    filter.add("conversation_id", conversationId.value)
    filter.add("request_id", requestId)
    return try connection.first(
      "SELECT record FROM submissions WHERE \(filter.text) ORDER BY id DESC LIMIT 1",
      filter.values
    ) { try SubmissionRecord(json: try json($0.bytes(0), "submission")) }
  }

  func extra(scope: String, id: Int64) throws -> JSON? {
    guard hasExtras else { return nil }
    return try connection.first(
      "SELECT value FROM perdure_extras WHERE scope = ? AND id = ?",
      [.string(scope), .int(id)]
    ) { try json($0.bytes(0), "fact") }
  }

  private func record<Record>(
    _ sql: String,
    _ id: Int64,
    _ type: String,
    _ make: (JSON) throws -> Record
  ) throws -> Record? {
    try connection.first(sql, [.int(id)]) { try make(try json($0.bytes(0), type)) }
  }

  // MARK: Scans

  func scanConversations(
    _ query: ConversationQuery,
    _ page: PageRequest
  ) throws -> Page<ConversationRecord> {
    var filter = Filter()
    filter.add("owner_conversation_id", query.ownerConversationId?.value)
    filter.add("owner_task_id", query.ownerTaskId?.value)
    return try scan("conversations", filter, page) {
      try ConversationRecord(json: $0)
    } id: {
      $0.id.value
    }
  }

  func scanTasks(_ query: TaskQuery, _ page: PageRequest) throws -> Page<TaskRecord> {
    var filter = Filter()
    filter.add("conversation_id", query.conversationId?.value)
    filter.add("kind", query.kind)
    if let status = query.status {
      filter.add("status", status.rawValue)
      // Says what the index of live tasks covers; SQLite cannot see it from a parameter.
      if status != .terminal { filter.add(text: "status <> 'terminal'") }
    }
    filter.add("abort_requested", query.abortRequested.map { $0 ? 1 : 0 })
    filter.add("background", query.background.map { $0 ? 1 : 0 })
    return try scan("tasks", filter, page) {
      try TaskRecord(json: $0)
    } id: {
      $0.id.value
    }
  }

  func scanSubmissions(
    _ query: SubmissionQuery,
    _ page: PageRequest
  ) throws -> Page<SubmissionRecord> {
    var filter = Filter()
    filter.add("conversation_id", query.conversationId?.value)
    if let status = query.status { filter.add("status", status.rawValue) }
    return try scan("submissions", filter, page) {
      try SubmissionRecord(json: $0)
    } id: {
      $0.id.value
    }
  }

  func scanDocuments(_ query: DocumentQuery, _ page: PageRequest) throws -> Page<DocumentRecord> {
    var filter = Filter()
    filter.add("owner_id", query.scope.ownerId)
    filter.add("scope_kind", query.scope.kind)
    filter.add("kind", query.kind)
    if !query.includesRetired { filter.add(aliveAt: query.at) }
    return try scan("documents", filter, page) {
      try DocumentRecord(json: $0)
    } id: {
      $0.id.value
    }
  }

  func scanEntries(_ query: EntryQuery, _ page: PageRequest) throws -> Page<EntryRecord> {
    try Ancestry.page(
      query,
      page,
      lookup: { try conversation($0) },
      visit: { conversation, bounds, order, limit in
        try connection.rows(
          """
          SELECT record FROM entries WHERE conversation_id = ? AND id BETWEEN ? AND ?
          ORDER BY id \(order == .ascending ? "ASC" : "DESC") LIMIT ?
          """,
          [
            .int(conversation.value), .int(bounds.lowerBound), .int(bounds.upperBound),
            .int(Int64(limit)),
          ]
        ) { try EntryRecord(json: try json($0.bytes(0), "entry")) }
      }
    )
  }

  func latestHeadMarker(
    _ conversationId: ConversationID,
    atOrBefore: EntryID?
  ) throws -> EntryRecord? {
    let segments = try Ancestry.segments(
      of: conversationId,
      upper: atOrBefore?.value ?? EntryID.greatest
    ) { try conversation($0) }
    for segment in segments {
      let head = try connection.first(
        """
        SELECT record FROM entries WHERE conversation_id = ? AND head IS NOT NULL AND id <= ?
        ORDER BY id DESC LIMIT 1
        """,
        [.int(segment.conversationId.value), .int(segment.upper)]
      ) { try EntryRecord(json: try json($0.bytes(0), "entry")) }
      if let head { return head }
    }
    return nil
  }

  private func scan<Record>(
    _ table: String,
    _ filter: Filter,
    _ page: PageRequest,
    _ make: (JSON) throws -> Record,
    id: (Record) -> Int64
  ) throws -> Page<Record> {
    let (order, after) = try page.start(default: .ascending)
    var filter = filter
    if let after { filter.add(text: order == .ascending ? "id > ?" : "id < ?", .int(after)) }
    let direction = order == .ascending ? "ASC" : "DESC"
    let condition = filter.text.isEmpty ? "" : "WHERE \(filter.text) "
    let items = try connection.rows(
      "SELECT record FROM \(table) \(condition)ORDER BY id \(direction) LIMIT ?",
      filter.values + [.int(Int64(page.wanted))]
    ) { try make(try json($0.bytes(0), "record in \(table)")) }
    return Page(items, limit: page.limit, order: order, id: id)
  }
}

/// Conditions of a query, all of which must hold.
struct Filter {
  private var conditions: [String] = []
  private(set) var values: [SQLValue] = []

  var text: String { conditions.joined(separator: " AND ") }

  mutating func add(text: String, _ values: SQLValue...) {
    conditions.append(text)
    self.values += values
  }

  mutating func add(_ column: String, _ value: Int64?) {
    if let value { add(text: "\(column) = ?", .int(value)) }
  }

  mutating func add(_ column: String, _ value: String) {
    add(text: "\(column) = ?", .string(value))
  }

  /// An identity, which the JavaScript original of pi-durable may have written unescaped.
  mutating func add(_ column: String, _ value: JSONString?) {
    guard let value else { return }
    let (ascii, raw) = (value.asciiLiteral, value.literal)
    if ascii == raw {
      add(text: "\(column) = ?", .string(ascii))
    } else {
      add(text: "\(column) IN (?, ?)", .string(ascii), .string(raw))
    }
  }

  mutating func add(address: DocumentAddress) {
    add("owner_id", address.scope.ownerId)
    add("scope_kind", address.scope.kind)
    add("kind", address.kind)
    add("key_value", address.key ?? "")
    add("family", address.key == nil ? 0 : 1)
  }

  mutating func add(aliveAt sequence: Int64?) {
    guard let sequence else {
      add(text: "retired_at IS NULL")
      return
    }
    add(
      text: "created_at <= ? AND (retired_at IS NULL OR retired_at > ?)",
      .int(sequence),
      .int(sequence)
    )
  }
}
