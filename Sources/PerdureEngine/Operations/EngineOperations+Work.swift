package import PerdureModel
package import PerdureValue

/// Work that calls may have done.
extension EngineOperations {
  package func submit(
    _ content: JSON,
    to conversation: ConversationID,
    whenBusy: WhenBusy,
    requestId: JSONString?,
    entry: InputEntry?
  ) async throws -> SubmissionRecord {
    let engine = try engine()
    return try await scope.run {
      let id = try await engine.submit(
        content,
        to: conversation,
        whenBusy: whenBusy,
        requestId: requestId,
        entry: entry
      )
      guard let record = try await engine.submission(id) else {
        throw PerdureError(.notFound, "submission \(id) does not exist")
      }
      return record
    }
  }

  package func wait(for submission: SubmissionID) async throws -> SubmissionRecord {
    let engine = try engine()
    guard let record = try await self.submission(submission, nil) else {
      throw PerdureError(.notFound, "submission \(submission) does not exist")
    }
    try await requireBelow(record.conversationId, "submission \(submission)")
    return try await scope.run { try await engine.wait(for: submission) }
  }

  package func withdraw(_ submission: SubmissionID) async throws -> Withdrawal {
    let engine = try engine()
    return try await scope.run { try await engine.abortSubmission(submission) }
  }

  package func waitForIdle(_ conversation: ConversationID, background: Bool) async throws {
    let engine = try engine()
    try await requireBelow(conversation, "conversation \(conversation)")
    try await scope.run {
      try await engine.waitForIdle(conversation)
      guard background else { return }
      while let task = try await engine.liveTasks(below: conversation).first {
        _ = try await engine.waitForTask(task)
      }
    }
  }

  package func abort(_ conversation: ConversationID, background: Bool) async throws {
    let engine = try engine()
    try await requireBelow(conversation, "conversation \(conversation)")
    try await scope.run { try await engine.abortAndWait(conversation, background: background) }
  }

  package func wait(for task: TaskID) async throws -> TaskRecord {
    let scheduler = scheduler
    guard let record = try await self.task(task, nil) else { throw Scheduler.missing(task) }
    guard record.isLive else { return record }
    guard let taskId else { return try await scope.run { try await scheduler.wait(for: task) } }
    try await requireNoCycle(task, taskId)
    let leave = scheduler.callWaits.add(taskId, task)
    defer { leave() }
    return try await scope.run { try await scheduler.wait(for: task) }
  }

  package func abortOwned(_ task: TaskID) async throws {
    guard let runtime else { throw CallRefusal(.notHere, "the call has no task") }
    try scope.check()
    guard let record = try await self.task(task, nil), record.owner == runtime.taskId else {
      throw CallRefusal(.owner, "task \(runtime.taskId) owns no task \(task)")
    }
    guard record.isLive else { return }
    try await scope.run { try await runtime.abortOwned(task) }
  }

  package func callHooks(
    _ name: String,
    _ arguments: JSON,
    from: Int,
    limit: Int?
  ) async throws -> (replies: [HookListing], more: Bool) {
    guard let runtime else { throw CallRefusal(.notHere, "the call has no task") }
    try scope.check()
    return try await runtime.callHooks(name, arguments: arguments, from: from, limit: limit)
  }

  // MARK: Waits that would never end

  /// Throws if a conversation is that of the call, or one of which its work is a part.
  private func requireBelow(_ conversation: ConversationID, _ what: String) async throws {
    var path: [ConversationID] = []
    var next = conversationId
    while let id = next {
      path.append(id)
      if id == conversation {
        let text = path.map { "\($0)" }.joined(separator: " -> ")
        throw CallRefusal(
          .waitCycle,
          "\(what) waits for the call that would wait for it (conversations \(text))"
        )
      }
      next = try await self.conversation(id, nil)?.owner?.conversationId
    }
  }

  private func requireNoCycle(_ task: TaskID, _ own: TaskID) async throws {
    let cycle = try await read { session in
      try await scheduler.callCycle(from: task, to: own, session)
    }
    guard let cycle else { return }
    let text = ([own] + cycle).map { "\($0)" }.joined(separator: " -> ")
    throw CallRefusal(
      .waitCycle,
      "task \(own) cannot wait for task \(task): the tasks \(text) would wait for each other"
    )
  }
}

extension Engine {
  /// The live tasks of a conversation and below, also those in the background.
  func liveTasks(below conversation: ConversationID) async throws -> [TaskID] {
    try await session.line.hold {
      try await scheduler.catchUp()
      return try await scheduler.tasks(below: .conversation(conversation), crossingBackground: true)
    }
  }
}
