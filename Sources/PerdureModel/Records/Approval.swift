public import PerdureValue

/// A question about a call that waits, or waited, for a person.
public struct Approval: Sendable, Equatable, Identifiable {
  /// What was answered.
  public struct Answer: Sendable, Equatable {
    /// Whether the call may be made.
    public var isAllowed: Bool
    /// The id of what was chosen: `allow`, `deny`, or one of the question's own; `expired` if nobody
    /// answered in time.
    public var choice: String
    /// Who answered, if that was said.
    public var by: String?
    /// A remark of the one who answered; the model sees it if the call is denied.
    public var note: String?
    /// Milliseconds since 1970.
    public var at: Int64
  }

  /// What became of a question.
  public enum Status: Sendable, Equatable {
    case pending
    case answered(Answer)
    /// The call was aborted before anybody answered.
    case withdrawn
  }

  /// The kind of its task.
  public static let kind: JSONString = "perdure.approval"

  /// The task that waits for the answer; what `approve` and `deny` name.
  public var id: TaskID
  public var conversationId: ConversationID
  /// The task of the call.
  public var owner: TaskID?
  /// Tells the questions about one call apart.
  public var key: String
  public var title: String
  public var body: String?
  /// What can be chosen; absent: yes and no.
  public var choices: [ApprovalQuestion.Choice]?
  /// The name of the tool.
  public var tool: String?
  /// The provider's id of the call; not unique in a store.
  public var callId: JSONString?
  /// What the call would be made with.
  public var arguments: JSON?
  /// Milliseconds since 1970.
  public var askedAt: Int64?
  /// When the call is denied if nobody has answered, in milliseconds since 1970; absent: never.
  public var expiresAt: Int64?
  public var status: Status

  /// Reads the task of a question; `nil` for another kind of task or one of another form.
  public init?(_ record: TaskRecord) {
    guard record.kind == Self.kind, let title = record.input["title"]?.text else { return nil }
    id = record.id
    conversationId = record.conversationId
    owner = record.owner
    self.title = title
    body = record.input["body"]?.text
    choices = record.input["choices"]?.array?.compactMap { choice in
      guard let id = choice["id"]?.text, let label = choice["label"]?.text else { return nil }
      return .init(id: id, label: label, allows: choice["effect"] == "allow")
    }
    let subject = record.input["subject"]
    key = subject?["key"]?.text ?? ""
    tool = subject?["tool"]?.text
    callId = subject?["callId"]?.string
    arguments = subject?["arguments"]
    askedAt = record.input["askedAt"]?.int
    if let askedAt, let expires = record.input["expiresMs"]?.int {
      let (at, overflow) = askedAt.addingReportingOverflow(max(0, expires))
      expiresAt = overflow ? nil : at
    }
    status = Self.status(of: record)
  }

  private static func status(of record: TaskRecord) -> Status {
    switch record.state.outcome {
    case nil: return record.abortRequested ? .withdrawn : .pending
    case .completed(let result)?:
      guard let effect = result["effect"]?.text else { return .withdrawn }
      return .answered(
        Answer(
          isAllowed: effect == "allow",
          choice: result["choice"]?.text ?? effect,
          by: result["by"]?.text,
          note: result["note"]?.text,
          at: result["at"]?.int ?? record.endedAt ?? 0
        )
      )
    default: return .withdrawn
    }
  }
}

extension Approval.Answer {
  /// The persisted form: the result of the task.
  package var json: JSON {
    var object: JSONObject = [
      "choice": .string(choice), "effect": isAllowed ? "allow" : "deny", "at": .int(at),
    ]
    if let by { object["by"] = .string(by) }
    if let note { object["note"] = .string(note) }
    return .object(object)
  }

  /// Makes an answer.
  package init(isAllowed: Bool, choice: String, by: String?, saying note: String?, at: Int64) {
    self.isAllowed = isAllowed
    self.choice = choice
    self.by = by
    self.note = note
    self.at = at
  }
}
