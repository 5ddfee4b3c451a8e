import PerdureModel
import PerdureValue

extension SQLiteStore {
  // MARK: Single records

  func conversation(_ id: ConversationID) throws -> ConversationRecord? {
    try single("SELECT record, id FROM conversations WHERE id = ?", id.value)
  }

  func entry(_ id: EntryID) throws -> EntryLookup? {
    try connection.first(
      "SELECT record, id, commit_seq FROM entries WHERE id = ?",
      [.int(id.value)]
    ) { EntryLookup(entry: try record($0), commitSequence: $0.int(2)) }
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
    try single("SELECT record, id FROM tasks WHERE id = ?", id.value)
  }

  func submission(_ id: SubmissionID) throws -> SubmissionRecord? {
    try single("SELECT record, id FROM submissions WHERE id = ?", id.value)
  }

  func submission(
    requestId: JSONString,
    in conversationId: ConversationID
  ) throws -> SubmissionRecord? {
    var filter = Filter()
    filter.add("conversation_id", conversationId.value)
    filter.add("request_id", requestId)
    return try connection.first(
      "SELECT record, id FROM submissions WHERE \(filter.text) ORDER BY id DESC LIMIT 1",
      filter.values
    ) { try record($0) }
  }

  func extra(scope: String, id: Int64) throws -> JSON? {
    guard hasExtras else { return nil }
    return try connection.first(
      "SELECT value FROM perdure_extras WHERE scope = ? AND id = ?",
      [.string(scope), .int(id)]
    ) { try json($0.bytes(0), "the fact \(scope) \(id)") }
  }

  private func single<Record: TableRecord>(_ sql: String, _ id: Int64) throws -> Record? {
    try connection.first(sql, [.int(id)]) { try record($0) }
  }

  // MARK: Scans

  func scanConversations(
    _ query: ConversationQuery,
    _ page: PageRequest
  ) throws -> Page<ConversationRecord> {
    var filter = Filter()
    filter.add("owner_conversation_id", query.ownerConversationId?.value)
    filter.add("owner_task_id", query.ownerTaskId?.value)
    return try scan("conversations", filter, page)
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
    return try scan("tasks", filter, page)
  }

  func scanSubmissions(
    _ query: SubmissionQuery,
    _ page: PageRequest
  ) throws -> Page<SubmissionRecord> {
    var filter = Filter()
    filter.add("conversation_id", query.conversationId?.value)
    if let status = query.status { filter.add("status", status.rawValue) }
    return try scan("submissions", filter, page)
  }

  func scanDocuments(_ query: DocumentQuery, _ page: PageRequest) throws -> Page<DocumentRecord> {
    var filter = Filter()
    filter.add("owner_id", query.scope.ownerId)
    filter.add("scope_kind", query.scope.kind)
    filter.add("kind", query.kind)
    if !query.includesRetired { filter.add(aliveAt: query.at) }
    return try scan("documents", filter, page)
  }

  func scanEntries(_ query: EntryQuery, _ page: PageRequest) throws -> Page<EntryRecord> {
    try Ancestry.page(
      query,
      page,
      lookup: { try conversation($0) },
      visit: { conversation, bounds, order, limit in
        try connection.rows(
          """
          SELECT record, id FROM entries WHERE conversation_id = ? AND id BETWEEN ? AND ?
          ORDER BY id \(order == .ascending ? "ASC" : "DESC") LIMIT ?
          """,
          [
            .int(conversation.value), .int(bounds.lowerBound), .int(bounds.upperBound),
            .int(Int64(limit)),
          ]
        ) { try record($0) }
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
        SELECT record, id FROM entries WHERE conversation_id = ? AND head IS NOT NULL AND id <= ?
        ORDER BY id DESC LIMIT 1
        """,
        [.int(segment.conversationId.value), .int(segment.upper)]
      ) { try record($0) as EntryRecord }
      if let head { return head }
    }
    return nil
  }

  private func scan<Record: TableRecord & Sendable>(
    _ table: String,
    _ filter: Filter,
    _ page: PageRequest
  ) throws -> Page<Record> {
    let (order, after) = try page.start(default: .ascending)
    var filter = filter
    if let after { filter.add(text: order == .ascending ? "id > ?" : "id < ?", .int(after)) }
    let direction = order == .ascending ? "ASC" : "DESC"
    let condition = filter.text.isEmpty ? "" : "WHERE \(filter.text) "
    let items: [Record] = try connection.rows(
      "SELECT record, id FROM \(table) \(condition)ORDER BY id \(direction) LIMIT ?",
      filter.values + [.int(Int64(page.wanted))]
    ) { try record($0) }
    return Page(items, limit: page.limit, order: order) { $0.number }
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
