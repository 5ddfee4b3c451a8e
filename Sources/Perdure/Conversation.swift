import PerdureEngine
public import PerdureModel
public import PerdureValue

/// One conversation of an open store.
public struct Conversation: Sendable {
  public let id: ConversationID
  let engine: Engine

  /// A change of a conversation's choices; what is absent stays as it is.
  public struct AgentChange: Sendable {
    public var model: ModelReference?
    /// `off`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`.
    public var thinkingLevel: String?
    /// The names of the extensions, in order.
    public var extensions: [String]?
    /// The names of the tools, in order.
    public var tools: [String]?

    /// Makes a change.
    public init(
      model: ModelReference? = nil,
      thinkingLevel: String? = nil,
      extensions: [String]? = nil,
      tools: [String]? = nil
    ) {
      self.model = model
      self.thinkingLevel = thinkingLevel
      self.extensions = extensions
      self.tools = tools
    }

    var json: JSONObject {
      var object = JSONObject()
      if let model { object["model"] = model.json }
      if let thinkingLevel { object["thinkingLevel"] = .string(thinkingLevel) }
      if let extensions { object["extensions"] = .array(extensions.map { .string($0) }) }
      if let tools { object["tools"] = .array(tools.map { .string($0) }) }
      return object
    }
  }

  /// Changes model, extensions or tools from the next request on.
  ///
  /// Until then a conversation has no model, and all extensions with all their tools.
  public func configure(_ change: AgentChange) async throws {
    try await engine.configure(id, change.json)
  }

  /// The choices as they are on disk (`pi.agent`).
  public var agent: JSON {
    get async throws { try await engine.session.snapshot(.agent, id) }
  }

  /// Whether the conversation has a run.
  public var isBusy: Bool {
    get async throws { try await engine.session.snapshot(.live, id)["run"] != nil }
  }

  /// Submits text to be answered; returns when it is on disk.
  ///
  /// With a `requestId` a repeated call is one submission. Throws `conversationBusy` if the
  /// conversation has a run.
  public func submit(_ text: String, requestId: String? = nil) async throws -> Submission {
    let submission = try await engine.submit(
      .string(text),
      to: id,
      requestId: requestId.map { JSONString($0) }
    )
    return Submission(id: submission, engine: engine)
  }

  /// Marks the conversation's work for abort; its tasks write what became of them.
  public func abort() async throws { try await engine.abort(id) }
}

/// A submission whose answer can be waited for.
public struct Submission: Sendable {
  public let id: SubmissionID
  let engine: Engine

  /// Returns the text of the answer, once it is on disk.
  ///
  /// Throws why there is none if the submission ends without an answer: `provider_unavailable`,
  /// `authentication`, `quota`, `overflow`, `no_model`, `aborted`, …
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

  /// What kind of failure left it unanswered: `kind`, `message`, `retryAfterMs`.
  public func failure() async throws -> JSON? { try await engine.failure(of: id) }
}
