package import PerdureModel
package import PerdureValue

/// What is asked of conversations from outside, and what becomes of it.
extension Engine {
  /// Takes user content, a string or content items; returns when that is on disk.
  ///
  /// In an idle conversation it is placed and its run started; in a busy one `whenBusy` decides. A
  /// `requestId` that the conversation has seen returns the submission it stands for and writes
  /// nothing. Throws `conversationBusy` for an input that is to be rejected while there is a run.
  package func submit(
    _ content: JSON,
    to id: ConversationID,
    whenBusy: WhenBusy = .followUp,
    requestId: JSONString? = nil,
    entry: InputEntry? = nil
  ) async throws -> SubmissionID {
    try await take(
      .input(content: content, whenBusy: whenBusy, entry: entry),
      into: id,
      requestId: requestId
    )
  }

  /// Takes a passive entry, which never starts a run; returns when that is on disk.
  ///
  /// One that changes nothing of what a model is shown is placed at once, others when no run would
  /// be disturbed.
  package func write(
    _ entry: EntryDraft,
    to id: ConversationID,
    requestId: JSONString? = nil
  ) async throws -> SubmissionID {
    try await take(.write(entry), into: id, requestId: requestId)
  }

  /// Lets the active context begin anew, with a text for the model if there is one.
  ///
  /// It is a write: in a busy conversation it waits, and then ends the run without an answer.
  package func reset(
    _ id: ConversationID,
    handoff: JSONString? = nil,
    requestId: JSONString? = nil
  ) async throws -> SubmissionID {
    let reset = EntryDraft.reset(handoff: handoff.map { .string($0) }, at: session.clock.now())
    return try await write(reset, to: id, requestId: requestId)
  }

  private func take(
    _ draft: SubmissionDraft,
    into id: ConversationID,
    requestId: JSONString?
  ) async throws -> SubmissionID {
    try draft.check()
    try scheduler.enable()
    try await features.conversation(id)
    return try await session.commit(conversation: id) { tx in
      let modes = options.settings().queueModes
      return try await tx.admit(draft, to: id, requestId: requestId, modes)
    }
  }

  /// Returns the submission as it is on disk, or `nil`.
  package func submission(_ id: SubmissionID) async throws -> SubmissionRecord? {
    try await session.store.flushedSubmission(id)
  }

  /// Returns the submission once it is settled on disk.
  ///
  /// One that is settled is returned even while the host closes. Cancelling the calling task ends
  /// the wait and nothing else.
  package func wait(for id: SubmissionID) async throws -> SubmissionRecord {
    let store = session.store
    do {
      try scheduler.enable()
    } catch {
      if scheduler.refusal == nil, let record = try await store.flushedSubmission(id),
        record.isSettled
      {
        return record
      }
      throw error
    }
    try await session.waits.wait(for: id) {
      guard let record = try await store.submission(id) else {
        throw PerdureError(.notFound, "submission \(id) does not exist")
      }
      // It may have been settled, in a commit that nobody asked to flush, before this wait.
      if record.isSettled { try await store.flush() }
      return record.isSettled
    }
    guard let record = try await store.flushedSubmission(id) else {
      throw PerdureError(.notFound, "submission \(id) does not exist")
    }
    return record
  }

  /// Withdraws a submission that is still queued, and says what became of it.
  ///
  /// With a conversation, a submission of another one is not found.
  package func abortSubmission(
    _ id: SubmissionID,
    in conversation: ConversationID? = nil
  ) async throws -> Withdrawal {
    if let refusal = scheduler.refusal { throw refusal }
    return try await session.commit { try await $0.withdraw(id, from: conversation) }
  }

  /// Why an unanswered submission got no answer, with the kind of failure, if that is known.
  package func failure(of id: SubmissionID) async throws -> JSON? {
    try await session.store.extra(scope: "failure", id: id.value)
  }
}

extension Engine {
  /// Returns what a model would be shown now, or was to be shown at an entry; all of it is on disk.
  ///
  /// Throws `notFound` if the conversation does not see the entry, and `conversationDeleted`.
  package func context(
    of id: ConversationID,
    at entry: EntryID? = nil
  ) async throws -> ContextView {
    if let entry {
      _ = try await session.visibleEntry(entry, in: id)
    } else {
      try await session.requireConversation(id)
    }
    let view = try await contexts.view(of: id, upTo: entry)
    try await session.barrier()
    return view
  }
}
