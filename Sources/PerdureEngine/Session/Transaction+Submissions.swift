package import PerdureModel
package import PerdureValue

/// The submissions of a commit.
extension Transaction {
  /// Creates a submission and returns its record.
  package func createSubmission(
    in conversation: ConversationID,
    requestId: JSONString?,
    kind: SubmissionRecord.Kind,
    state: SubmissionRecord.State
  ) async throws -> SubmissionRecord {
    try check()
    hasWrittenTable = true
    try await requireConversation(conversation)
    try await session.mark(of: conversation).requireOpen(conversation)
    let record = SubmissionRecord(
      id: SubmissionID.known(try mint()),
      conversationId: conversation,
      requestId: requestId,
      kind: kind,
      state: state
    )
    submissionOrder.append(record.id)
    submissions[record.id] = record
    try put(
      extra: ExtraWrite(scope: "submission", id: record.id.value, value: ["at": .int(now)])
    )
    return record
  }

  /// Settles a submission; one that is settled already stays as it is.
  package func settle(
    _ id: SubmissionID,
    _ settlement: (SubmissionRecord) throws -> SubmissionRecord.State
  ) async throws {
    try check()
    hasWrittenTable = true
    let candidate = try await requireSubmission(id)
    if candidate.isSettled { return }
    var record = candidate
    record.state = try settlement(record)
    if case .done(_, let answer) = record.state,
      record.kind != .input || candidate.status != .placed || answer == nil
    {
      throw PerdureError(.invalidBatch, "submission \(id) is no placed input")
    }
    put(record)
  }

  /// Notes that the entry of a queued submission was appended: an input waits for its answer now,
  /// a write is done.
  package func place(_ id: SubmissionID, entry: EntryID) async throws {
    try check()
    hasWrittenTable = true
    var record = try await requireSubmission(id)
    guard record.status == .queued else {
      throw PerdureError(.invalidBatch, "submission \(id) is not queued")
    }
    record.state = record.kind == .input ? .placed(entry: entry) : .done(entry: entry, answer: nil)
    put(record)
  }

  /// Appends the entry of a queued write and settles it; a stale one is settled without its entry,
  /// as unanswered with the reason `stale`.
  ///
  /// `start` is where the active context begins, which is read before the first table write; a head
  /// that is placed moves it, so that the next write of the same commit is judged by it.
  @discardableResult
  package func placeWrite(
    _ id: SubmissionID,
    _ draft: EntryDraft,
    after start: inout EntryID?
  ) async throws -> EntryRecord? {
    try check()
    hasWrittenTable = true
    let record = try await requireSubmission(id)
    guard record.kind == .write, record.status == .queued else {
      throw PerdureError(.invalidBatch, "submission \(id) is no queued write")
    }
    if Self.isStale(draft.head, after: start) {
      try await settle(id) { _ in .unanswered(reason: "stale", detail: nil, entry: nil) }
      return nil
    }
    let entry = try await append(draft, to: record.conversationId)
    if let head = entry.head { start = head }
    try await place(id, entry: entry.id)
    return entry
  }

  /// Returns the submission as this commit has it, or `nil`.
  func submissionCandidate(_ id: SubmissionID) async throws -> SubmissionRecord? {
    try check()
    if let staged = submissions[id] { return staged }
    return try await session.store.submission(id)
  }

  private func requireSubmission(_ id: SubmissionID) async throws -> SubmissionRecord {
    guard let record = try await submissionCandidate(id) else {
      throw PerdureError(.notFound, "submission \(id) does not exist")
    }
    return record
  }

  private func put(_ record: SubmissionRecord) {
    if submissions[record.id] == nil { submissionOrder.append(record.id) }
    submissions[record.id] = record
    if !minted.contains(record.id.value) { facts.types[record.id.value] = .submission }
  }

  // MARK: Staleness

  /// Whether an entry with this head would begin the active context before it begins now.
  ///
  /// Such a write is stale: it would bring back what a newer marker had left behind.
  package func isStale(
    _ head: EntryDraft.Head?,
    in conversation: ConversationID
  ) async throws -> Bool {
    guard case .entry = head else { return false }
    return Self.isStale(head, after: try await latestHeadMarker(conversation)?.head)
  }

  static func isStale(_ head: EntryDraft.Head?, after start: EntryID?) -> Bool {
    guard case .entry(let target) = head, let start else { return false }
    return target < start
  }
}
