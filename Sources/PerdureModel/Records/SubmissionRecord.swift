public import PerdureValue

/// A durable request from outside.
public struct SubmissionRecord: Sendable, Equatable {
  /// What is submitted.
  public enum Kind: String, Sendable {
    /// User content that must be answered.
    case input
    /// A passive entry.
    case write
  }

  /// How far it is, as stores index it.
  public enum Status: String, Sendable, CaseIterable {
    case queued, placed, done, unanswered
  }

  /// How far it is.
  public enum State: Sendable, Equatable {
    case queued
    /// An input whose entry is in the transcript.
    case placed(entry: EntryID)
    /// Settled; `answer` is present for inputs.
    case done(entry: EntryID, answer: EntryID?)
    /// Settled without an answer; `entry` is kept if an input had been placed.
    case unanswered(reason: String, detail: JSON?, entry: EntryID?)
  }

  public var id: SubmissionID
  public var conversationId: ConversationID
  /// The caller's own id, which makes a repeated submission one.
  public var requestId: JSONString?
  public var kind: Kind
  public var state: State

  /// Makes a record.
  public init(
    id: SubmissionID,
    conversationId: ConversationID,
    requestId: JSONString? = nil,
    kind: Kind,
    state: State
  ) {
    self.id = id
    self.conversationId = conversationId
    self.requestId = requestId
    self.kind = kind
    self.state = state
  }

  /// The status.
  public var status: Status {
    switch state {
    case .queued: .queued
    case .placed: .placed
    case .done: .done
    case .unanswered: .unanswered
    }
  }

  /// Whether it is final.
  public var isSettled: Bool { status == .done || status == .unanswered }

  /// The entry of the submission, once it is placed.
  public var entry: EntryID? {
    switch state {
    case .queued: nil
    case .placed(let entry), .done(let entry, _): entry
    case .unanswered(_, _, let entry): entry
    }
  }

  /// Reads the persisted form.
  public init(json: JSON) throws {
    let reader = try RecordReader(json, "submission")
    id = try reader.id("id")
    conversationId = try reader.id("conversationId")
    requestId = try reader.optionalString("requestId")
    guard let kind = Kind(rawValue: try reader.string("type").string) else {
      throw reader.fail("type", "'input' or 'write'")
    }
    self.kind = kind
    switch Status(rawValue: try reader.string("status").string) {
    case .queued: state = .queued
    case .placed: state = .placed(entry: try reader.id("entry"))
    case .done:
      state = .done(entry: try reader.id("entry"), answer: try reader.optionalId("answer"))
    case .unanswered:
      state = .unanswered(
        reason: try reader.string("reason").string,
        detail: reader.optional("detail"),
        entry: try reader.optionalId("entry")
      )
    case nil: throw reader.fail("status", "a submission status")
    }
  }

  /// The persisted form.
  public var json: JSON {
    var object: JSONObject = ["id": id.json, "conversationId": conversationId.json]
    if let requestId { object["requestId"] = .string(requestId) }
    object["type"] = .string(kind.rawValue)
    object["status"] = .string(status.rawValue)
    if let entry { object["entry"] = entry.json }
    switch state {
    case .done(_, let answer?): object["answer"] = answer.json
    case .unanswered(let reason, let detail, _):
      object["reason"] = .string(reason)
      if let detail { object["detail"] = detail }
    default: break
    }
    return .object(object)
  }
}
