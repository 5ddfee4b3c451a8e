package import PerdureModel

/// Work that is to end, and work that is waited for.
extension Engine {
  /// Withdraws the queued inputs of a conversation and marks its work for abort, in one commit;
  /// returns the tasks that it reached when that is on disk.
  ///
  /// The work of conversations below it is its work; background work only with `background`.
  @discardableResult
  package func abort(_ id: ConversationID, background: Bool = false) async throws -> [TaskID] {
    try scheduler.enable()
    return try await scheduler.abort(id, background: background)
  }

  /// Aborts the work of a conversation and returns when it has ended and that is on disk.
  package func abortAndWait(_ id: ConversationID, background: Bool = false) async throws {
    let reached = try await abort(id, background: background)
    if background {
      for task in reached { _ = try await scheduler.wait(for: task) }
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
    try await scheduler.waitForIdle(id)
  }
}
