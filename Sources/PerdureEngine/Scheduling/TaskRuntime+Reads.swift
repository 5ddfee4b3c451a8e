package import PerdureModel
package import PerdureValue
import Synchronization

/// What the code of a task may look at and wait for, beside its commits.
///
/// All of it throws `invocationEnded` once the invocation is over.
extension TaskRuntime {
  /// Returns the value that the task keeps under a name, or `nil`.
  package func memo(_ name: JSONString) throws -> JSON? {
    try checkEnd()
    return scheduler.session.liveTask(taskId)?.memos?[name]
  }

  /// Keeps a value under a name unless there is one, in a commit; returns what is kept.
  ///
  /// The first one wins, also over restarts. Memos go with the outcome of the task.
  package func memo(_ name: JSONString, _ candidate: JSON) async throws -> JSON {
    let (kept, _) = try await scheduler.session.stage(
      conversation: conversationId,
      task: taskId
    ) { tx -> JSON in
      var record = try admittedRecord()
      if let winner = record.memos?[name] { return winner }
      record.memos = record.memos ?? JSONObject()
      record.memos?[name] = candidate
      try await tx.replace(record)
      return candidate
    }
    return kept
  }

  /// Returns a task as staged, or `nil`.
  package func task(_ id: TaskID) async throws -> TaskRecord? {
    try checkEnd()
    return try await scheduler.session.line.hold { try await scheduler.session.task(id) }
  }

  /// Returns the record of a task once it is terminal on disk; ends with the invocation.
  package func waitForTask(_ id: TaskID) async throws -> TaskRecord {
    try checkEnd()
    return try await scheduler.wait(for: id)
  }

  /// Returns the live tasks that this one owns, by id.
  package func ownedTasks() async throws -> [TaskRecord] {
    try checkEnd()
    return try await scheduler.session.line.hold {
      try await scheduler.catchUp()
      let own = scheduler.state.withLock { $0.forest.liveTasks }
        .filter { $0.link.parent == .task(taskId) }
      var records: [TaskRecord] = []
      for (id, _) in own {
        if let record = try await scheduler.session.task(id) { records.append(record) }
      }
      return records
    }
  }

  /// Marks a task that this one owns for abort and returns when it is terminal.
  ///
  /// Throws `notFound` for a task that it does not own.
  package func abortOwned(_ id: TaskID) async throws {
    guard let record = try await task(id), record.owner == taskId else {
      throw PerdureError(.notFound, "task \(taskId) owns no task \(id)")
    }
    guard record.isLive else { return }
    _ = try await scheduler.abort(id, keepsRestart: true)
    _ = try await scheduler.wait(for: id)
  }

  /// Returns the outcomes of ended tasks, in the order of `ids`; throws `invalidRequest` if one has
  /// none yet.
  package func outcomes(_ ids: [TaskID]) async throws -> [TaskOutcome] {
    try checkEnd()
    return try await scheduler.session.line.hold {
      var outcomes: [TaskOutcome] = []
      for id in ids {
        guard case .terminal(let outcome)? = try await scheduler.session.task(id)?.state else {
          throw PerdureError(.invalidRequest, "task \(id) has not ended")
        }
        outcomes.append(outcome)
      }
      return outcomes
    }
  }

  /// Returns an entry that the task's conversation sees, or `nil`.
  package func visibleEntry(_ id: EntryID) async throws -> EntryRecord? {
    try checkEnd()
    return try await scheduler.session.line.hold {
      try await scheduler.session.store.entry(id, visibleIn: conversationId)?.entry
    }
  }

  /// Returns the context of a conversation, up to an entry if one is given.
  package func context(
    of conversation: ConversationID,
    at entry: EntryID? = nil
  ) async throws -> ContextView {
    try checkEnd()
    return try await scheduler.session.line.hold {
      let store = scheduler.session.store
      try await scheduler.session.requireConversation(conversation)
      let head = try await store.latestHeadMarker(conversation, atOrBefore: entry)
      let query = EntryQuery(
        conversationId: conversation,
        minEntry: head?.head,
        maxEntry: entry
      )
      let entries = try await Page.all(order: .ascending) {
        try await store.scanEntries(query, $0)
      }
      return ContextView(of: entries)
    }
  }

  /// Returns a document as it is on disk, or `nil` if there is none; never creates it.
  package func snapshot(
    _ definition: DocumentDefinition,
    in scope: DocumentScope,
    key: JSONString? = nil
  ) async throws -> JSON? {
    try checkEnd()
    return try await scheduler.session.snapshot(definition, in: scope, key: key)
  }
}
