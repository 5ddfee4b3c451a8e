package import PerdureModel
package import PerdureValue

extension Transaction {
  /// Takes a submission: places it, queues it, or finds the one that it repeats.
  ///
  /// In an idle conversation an input starts a run. Throws `conversationBusy`, with nothing
  /// written, for an input that is to be rejected then.
  package func admit(
    _ draft: SubmissionDraft,
    to conversation: ConversationID,
    requestId: JSONString? = nil,
    _ modes: QueueModes
  ) async throws -> SubmissionID {
    try draft.check()
    if let requestId, let known = try await submission(requestId: requestId, in: conversation) {
      let id = try Self.repeated(known, draft, requestId)
      try await Self.requireKept(known, session.mark(of: conversation))
      return id
    }
    if let entry = draft.write, entry.isDisplayOnly,
      try await !inboxItems(conversation).contains(where: { $0.isReset })
    {
      return try await placeAtOnce(entry, in: conversation, requestId)
    }
    if try await value(.live, conversation)["run"] != nil {
      if case .input(_, .reject, _) = draft { throw Self.busy(conversation) }
      return try await enqueue(draft, in: conversation, requestId).id
    }
    var boundary = try await prepareBoundary(conversation, modes, beside: draft.write)
    if boundary.items.isEmpty {
      return try await placeInIdle(draft, boundary, requestId)
    }
    let item = try await enqueue(draft, in: conversation, requestId)
    // Behind a reset, which only waits for the next input or write that matters.
    if draft.isDisplayOnly { return item.id }
    boundary.items.append(item)
    let placed = try await boundary.apply(.final, self)
    if !placed.users.isEmpty {
      try await startRun(conversation, inputs: placed.users, definition: GenerationTask.definition)
    }
    return item.id
  }

  private static func repeated(
    _ known: SubmissionRecord,
    _ draft: SubmissionDraft,
    _ requestId: JSONString
  ) throws -> SubmissionID {
    guard known.kind == draft.kind else {
      let article = known.kind == .input ? "an" : "a"
      throw PerdureError(
        .requestIdConflict,
        "request id '\(requestId.string)' belongs to \(article) \(known.kind.rawValue)",
        hint: "give each request an id of its own"
      )
    }
    return known.id
  }

  /// Whoever repeats a submission to a conversation that is gone learns that it was not lost.
  private static func requireKept(_ known: SubmissionRecord, _ mark: ConversationMark) throws {
    guard case .deleted = mark else { return }
    throw PerdureError(
      .conversationDeleted,
      "conversation \(known.conversationId) was deleted after this submission was settled",
      details: [
        "conversation": known.conversationId.json, "submission": known.id.json,
        "status": .string(known.status.rawValue),
      ]
    )
  }

  private static func busy(_ conversation: ConversationID) -> PerdureError {
    PerdureError(
      .conversationBusy,
      "conversation \(conversation) has unfinished work",
      details: ["conversation": conversation.json]
    )
  }

  private func enqueue(
    _ draft: SubmissionDraft,
    in conversation: ConversationID,
    _ requestId: JSONString?
  ) async throws -> InboxItem {
    let record = try await createSubmission(
      in: conversation,
      requestId: requestId,
      kind: draft.kind,
      state: .queued
    )
    let item = InboxItem(id: record.id, draft)
    try await edit(.inbox, conversation) { inbox in
      let count = inbox.value["items"]?.array?.count ?? 0
      try inbox.splice(["items"], at: count, remove: 0, insert: [item.json])
    }
    return item
  }

  /// Places a submission where nothing runs and nothing is queued.
  private func placeInIdle(
    _ draft: SubmissionDraft,
    _ boundary: Boundary,
    _ requestId: JSONString?
  ) async throws -> SubmissionID {
    let conversation = boundary.conversation
    switch draft {
    case .write(let entry) where boundary.isStale(entry):
      return try await createSubmission(
        in: conversation,
        requestId: requestId,
        kind: .write,
        state: .unanswered(reason: "stale", detail: nil, entry: nil)
      ).id
    case .write(let entry):
      return try await placeAtOnce(entry, in: conversation, requestId)
    case .input(let content, _, let entry):
      let placed = try await appendInput(content, entry, to: conversation)
      let submission = try await createSubmission(
        in: conversation,
        requestId: requestId,
        kind: .input,
        state: .placed(entry: placed.id)
      )
      try await startRun(
        conversation,
        inputs: [submission.id],
        definition: GenerationTask.definition
      )
      return submission.id
    }
  }

  private func placeAtOnce(
    _ draft: EntryDraft,
    in conversation: ConversationID,
    _ requestId: JSONString?
  ) async throws -> SubmissionID {
    let entry = try await append(draft, to: conversation)
    return try await createSubmission(
      in: conversation,
      requestId: requestId,
      kind: .write,
      state: .done(entry: entry.id, answer: nil)
    ).id
  }
}
