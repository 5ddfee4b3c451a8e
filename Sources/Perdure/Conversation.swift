import PerdureEngine
public import PerdureModel
public import PerdureValue

/// One conversation of an open store.
public struct Conversation: Sendable {
  public let id: ConversationID
  let engine: Engine

  /// The choices as they are on disk (`pi.agent`).
  public var agent: JSON {
    get async throws { try await engine.session.snapshot(.agent, id) }
  }

  /// Whether the conversation has a run.
  public var isBusy: Bool {
    get async throws { try await engine.session.snapshot(.live, id)["run"] != nil }
  }

  /// The submissions that wait to be placed (`pi.inbox`), as they are on disk, in order.
  public var queue: [JSON] {
    get async throws { try await engine.session.snapshot(.inbox, id)["items"]?.array ?? [] }
  }

  // MARK: Submissions

  /// Submits text to be answered; returns when it is on disk.
  ///
  /// While the conversation has a run, `whenBusy` decides: it follows the run, steers it, or throws
  /// `conversationBusy`. With a `requestId` a repeated call is one submission. `entry` lets it be
  /// placed as an entry of the application's own instead of `pi.user`.
  public func submit(
    _ text: String,
    whenBusy: WhenBusy = .followUp,
    requestId: String? = nil,
    entry: InputEntry? = nil
  ) async throws -> Submission {
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
  ) async throws -> Submission {
    let submission = try await engine.submit(
      content,
      to: id,
      whenBusy: whenBusy,
      requestId: requestId.map { JSONString($0) },
      entry: entry
    )
    return Submission(id: submission, engine: engine)
  }

  /// Submits an entry that asks for no answer; returns when it is on disk.
  ///
  /// One without messages, head and edits is appended at once. Others wait while the conversation
  /// has a run. One whose head lies before the active context by then ends unanswered, as `stale`.
  @discardableResult
  public func write(_ entry: EntryDraft, requestId: String? = nil) async throws -> Submission {
    let submission = try await engine.write(
      entry,
      to: id,
      requestId: requestId.map { JSONString($0) }
    )
    return Submission(id: submission, engine: engine)
  }

  /// Lets the active context begin anew, with a text for the model if there is one.
  ///
  /// Returns when that is on disk. While the conversation has a run it waits for the end of the
  /// round of tools, and then ends the run without an answer.
  @discardableResult
  public func reset(handoff: String? = nil, requestId: String? = nil) async throws -> Submission {
    let submission = try await engine.reset(
      id,
      handoff: handoff.map { JSONString($0) },
      requestId: requestId.map { JSONString($0) }
    )
    return Submission(id: submission, engine: engine)
  }

  // MARK: Work

  /// Begins to replace the older part of what the model is shown by a summary; returns its task once
  /// that is on disk.
  ///
  /// `instructions` say what the summary should dwell on. The summary waits for nothing that runs,
  /// and is placed as any other write. Without an older part the task completes with nothing done.
  /// `waitForIdle` waits for the task, `Harness.reader` gives its outcome.
  public func compact(instructions: String? = nil) async throws -> TaskID {
    try await engine.compact(id, instructions: instructions.map { JSONString($0) })
  }

  /// Withdraws what is queued to be answered, aborts all work and returns when it has ended.
  ///
  /// Work in the background goes on unless `background` is true. Queued writes stay. Cancelling the
  /// calling task ends the wait, not the abort.
  public func abort(background: Bool = false) async throws {
    try await engine.abortAndWait(id, background: background)
  }

  /// Returns when the conversation has no live work but such in the background.
  ///
  /// What its tasks own elsewhere is its work, and so is what sleeps or cannot go on. Cancelling the
  /// calling task ends the wait.
  public func waitForIdle() async throws { try await engine.waitForIdle(id) }
}
