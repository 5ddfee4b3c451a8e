package import PerdureModel

/// Work that is to end, and work that is waited for.
extension Engine {
  /// What an abort of a conversation, or a wait for it, is about.
  struct WorkScope {
    /// The conversations whose queued inputs are withdrawn.
    var conversations: [ConversationID]
    /// The live tasks, by id.
    var tasks: [TaskRecord]
  }

  /// The live work of a conversation, or of all; background work belongs to it only if it is asked
  /// for.
  ///
  /// The one place that knows which tasks and conversations lie below a conversation.
  func workScope(of conversation: ConversationID?, background: Bool) -> WorkScope {
    let live = session.liveTasks
    let tasks = live.values.filter { record in
      (conversation == nil || record.conversationId == conversation)
        && (background || !isInBackground(record, live))
    }
    return WorkScope(
      conversations: conversation.map { [$0] } ?? [],
      tasks: tasks.sorted { $0.id < $1.id }
    )
  }

  /// Whether the task, or one that owns it, is background work.
  private func isInBackground(_ record: TaskRecord, _ live: [TaskID: TaskRecord]) -> Bool {
    var next: TaskRecord? = record
    var seen: Set<TaskID> = []
    while let current = next, seen.insert(current.id).inserted {
      if current.background { return true }
      next = current.owner.flatMap { live[$0] }
    }
    return false
  }

  /// Withdraws the queued inputs of a conversation and marks its work for abort, in one commit;
  /// returns the tasks that it reached when that is on disk.
  @discardableResult
  package func abort(_ id: ConversationID, background: Bool = false) async throws -> [TaskID] {
    try scheduler.enable()
    return try await session.commit(conversation: id) { tx in
      guard try await tx.conversation(id) != nil else {
        throw PerdureError(.notFound, "conversation \(id) does not exist")
      }
      let scope = workScope(of: id, background: background)
      // A mark that a restart left gives way to a request.
      for var record in scope.tasks where !record.abortRequested || record.abortReason != nil {
        record.abortRequested = true
        record.abortReason = nil
        record.restarts = nil
        try await tx.replace(record)
      }
      for conversation in scope.conversations {
        try await tx.withdrawInputs(of: conversation, reason: "aborted")
      }
      return scope.tasks.map { $0.id }
    }
  }

  /// Aborts the work of a conversation and returns when it has ended and that is on disk.
  package func abortAndWait(_ id: ConversationID, background: Bool = false) async throws {
    let reached = try await abort(id, background: background)
    let session = session
    if background {
      try await idle.wait { reached.allSatisfy { session.liveTask($0) == nil } }
    }
    try await waitForIdle(id)
  }

  /// Returns when a conversation, or all of them, have no live work but such in the background.
  ///
  /// Work that waits, sleeps or cannot go on is live. Cancelling the calling task ends the wait.
  package func waitForIdle(_ id: ConversationID? = nil) async throws {
    try scheduler.enable()
    if let id, try await session.store.conversation(id) == nil {
      throw PerdureError(.notFound, "conversation \(id) does not exist")
    }
    try await idle.wait { [weak self] in
      self?.workScope(of: id, background: false).tasks.isEmpty ?? true
    }
    try await session.barrier()
  }
}
