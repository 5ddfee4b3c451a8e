import PerdureEngine
public import PerdureModel
public import PerdureValue

/// A submission whose answer can be waited for.
public struct Submission: Sendable {
  public let id: SubmissionID
  let engine: Engine

  /// Returns the text of the answer, once it is on disk.
  ///
  /// Throws why there is none if the submission ends without an answer: `provider_unavailable`,
  /// `authentication`, `quota`, `overflow`, `no_model`, `aborted`, `reset`, `refused`,
  /// `max_turns`, `budget`, …
  public func answer() async throws -> String {
    switch try await wait().state {
    case .done(_, let answer?):
      return try await engine.session.store.storage.entry(answer)?.entry.text ?? ""
    case .unanswered(let reason, let detail, _):
      throw Unanswered.error(reason: reason, detail: detail, failure: try await failure())
    default:
      throw PerdureError(.notFound, "submission \(id) is a write and has no answer")
    }
  }

  /// Returns the settled record: `done` with the answer, or `unanswered` with the reason.
  ///
  /// The answer is the id of an entry, which `Harness.reader` gives.
  ///
  /// Cancelling the calling task ends the wait, never the work.
  public func wait() async throws -> SubmissionRecord { try await engine.wait(for: id) }

  /// Returns the record as it is on disk.
  public func status() async throws -> SubmissionRecord? { try await engine.submission(id) }

  /// Withdraws it if it is still queued: then it ends unanswered, with the reason `aborted`.
  ///
  /// One that has its entry goes on: `Conversation.abort` ends its run.
  @discardableResult
  public func abort() async throws -> Withdrawal { try await engine.abortSubmission(id) }

  /// What kind of failure left it unanswered: `kind`, `message`, `retryAfterMs`.
  public func failure() async throws -> JSON? { try await engine.failure(of: id) }
}

extension Harness {
  /// Returns the submission of this id, or `nil` if there is none; lets nothing run.
  public func submission(_ id: SubmissionID) async throws -> Submission? {
    guard try await engine.submission(id) != nil else { return nil }
    return Submission(id: id, engine: engine)
  }

  /// Withdraws a submission that is still queued, and says what became of it.
  ///
  /// With a conversation, a submission of another one is not found.
  @discardableResult
  public func abortSubmission(
    _ id: SubmissionID,
    in conversation: ConversationID? = nil
  ) async throws -> Withdrawal { try await engine.abortSubmission(id, in: conversation) }
}
