// What a backend without indexes of its own needs to answer queries.

extension ConversationQuery {
  /// Whether all conditions hold for a record.
  public func matches(_ record: ConversationRecord) -> Bool {
    (ownerConversationId.map { $0 == record.owner?.conversationId } ?? true)
      && (ownerTaskId.map { $0 == record.owner?.taskId } ?? true)
  }
}

extension TaskQuery {
  /// Whether all conditions hold for a record.
  public func matches(_ record: TaskRecord) -> Bool {
    (conversationId.map { $0 == record.conversationId } ?? true)
      && (kind.map { $0 == record.kind } ?? true)
      && (status.map { $0 == record.state.status } ?? true)
      && (abortRequested.map { $0 == record.abortRequested } ?? true)
      && (background.map { $0 == record.background } ?? true)
  }
}

extension SubmissionQuery {
  /// Whether all conditions hold for a record.
  public func matches(_ record: SubmissionRecord) -> Bool {
    (conversationId.map { $0 == record.conversationId } ?? true)
      && (status.map { $0 == record.status } ?? true)
  }
}

extension DocumentQuery {
  /// Whether a record is of this scope and kind and lived at that point.
  public func matches(_ record: DocumentRecord) -> Bool {
    record.address.scope == scope && (includesRetired || record.isAlive(at: at))
      && (kind.map { $0 == record.address.kind } ?? true)
  }
}

extension PageRequest {
  /// Returns the part of `records` that this request asks for, whatever their order.
  ///
  /// Throws `invalidRequest` as `start` does.
  public func page<Record>(
    of records: some Sequence<Record>,
    default defaultOrder: ScanOrder = .ascending,
    id: (Record) -> Int64
  ) throws -> Page<Record> {
    let (order, after) = try start(default: defaultOrder)
    let isUpward = order == .ascending
    let behind = records.filter { record in
      after.map { isUpward ? id(record) > $0 : id(record) < $0 } ?? true
    }
    let sorted = behind.sorted { isUpward ? id($0) < id($1) : id($0) > id($1) }
    guard sorted.count > limit else { return Page(items: sorted) }
    let items = Array(sorted.prefix(limit))
    return Page(items: items, next: items.last.map { Cursor(after: id($0), order: order) })
  }
}
