import PerdureEngine
public import PerdureModel
public import PerdureValue

/// A conversation as the code of a task or a tool has it, for as long as that code runs.
///
/// Afterwards everything throws `invocationEnded`, also what is waited for at that moment. What was
/// submitted stays.
public struct BoundConversation: Sendable {
  public let id: ConversationID
  let engine: Engine
  let scope: InvocationScope

  /// Submits text to be answered; returns when it is on disk.
  ///
  /// Code that may run again gives a `requestId` made of its task, so that it submits once.
  public func submit(
    _ text: String,
    whenBusy: WhenBusy = .followUp,
    requestId: String? = nil,
    entry: InputEntry? = nil
  ) async throws -> BoundSubmission {
    try await submit(
      content: .string(text),
      whenBusy: whenBusy,
      requestId: requestId,
      entry: entry
    )
  }

  /// Submits content to be answered: a string, or a list of text and image items.
  public func submit(
    content: JSON,
    whenBusy: WhenBusy = .followUp,
    requestId: String? = nil,
    entry: InputEntry? = nil
  ) async throws -> BoundSubmission {
    let conversation = Conversation(id: id, engine: engine)
    let submission = try await scope.run {
      try await conversation.submit(
        content: content,
        whenBusy: whenBusy,
        requestId: requestId,
        entry: entry
      )
    }
    return BoundSubmission(id: submission.id, engine: engine, scope: scope)
  }

  /// Aborts the work of the conversation as `Conversation.abort` does.
  public func abort(background: Bool = false) async throws {
    let conversation = Conversation(id: id, engine: engine)
    try await scope.wait { try await conversation.abort(background: background) }
  }

  /// Returns when the conversation has no live work but such in the background.
  ///
  /// The code that waits is work of its own conversation, so it must not wait for that.
  public func waitForIdle() async throws {
    let conversation = Conversation(id: id, engine: engine)
    try await scope.wait { try await conversation.waitForIdle() }
  }
}

/// A submission as the code of a task or a tool has it, for as long as that code runs.
public struct BoundSubmission: Sendable {
  public let id: SubmissionID
  let engine: Engine
  let scope: InvocationScope

  private var submission: Submission { Submission(id: id, engine: engine) }

  /// Returns the text of the answer; throws why there is none, as `Submission.answer` does.
  public func answer() async throws -> String {
    let submission = submission
    return try await scope.wait { try await submission.answer() }
  }

  /// Returns the settled record: `done` with the answer, or `unanswered` with the reason.
  public func wait() async throws -> SubmissionRecord {
    let submission = submission
    return try await scope.wait { try await submission.wait() }
  }

  /// Returns the record as it is on disk.
  public func status() async throws -> SubmissionRecord? {
    let submission = submission
    return try await scope.run { try await submission.status() }
  }

  /// Withdraws it if it is still queued.
  @discardableResult
  public func abort() async throws -> Withdrawal {
    let submission = submission
    return try await scope.run { try await submission.abort() }
  }
}
