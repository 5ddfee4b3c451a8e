public import PerdureValue

/// A request to a model that is about to be sent.
public struct PendingRequest: Sendable {
  /// The durable attempt, from 1.
  public var attempt: Int
  public var model: ModelReference
  public var thinkingLevel: String
  /// The names of the tools that the model is offered.
  public var tools: [String]
  public var messages: [JSON]

  /// Makes a description.
  public init(
    attempt: Int,
    model: ModelReference,
    thinkingLevel: String,
    tools: [String],
    messages: [JSON]
  ) {
    self.attempt = attempt
    self.model = model
    self.thinkingLevel = thinkingLevel
    self.tools = tools
    self.messages = messages
  }
}

/// What becomes of a request.
public enum RequestDecision: Sendable, Equatable {
  case proceed
  /// These messages are sent instead, this time.
  case change(messages: [JSON])
  /// No request is sent; the run ends, its inputs unanswered with the reason `refused`.
  case refuse(String)
}

/// A call of a tool as hooks see it.
public struct HookedCall: Sendable, Equatable {
  /// The call of another tool within which this one was made.
  public struct Parent: Sendable, Equatable {
    public var taskId: TaskID
    public var callId: JSONString

    /// Makes a reference.
    public init(taskId: TaskID, callId: JSONString) {
      self.taskId = taskId
      self.callId = callId
    }
  }

  /// A question about the call that was answered with yes.
  public struct Consent: Sendable, Equatable {
    /// The key of the question.
    public var key: String
    /// The task of the question.
    public var taskId: TaskID
    /// The id of the choice.
    public var choice: String
    public var note: String?

    /// Makes a consent.
    public init(key: String, taskId: TaskID, choice: String, note: String? = nil) {
      self.key = key
      self.taskId = taskId
      self.choice = choice
      self.note = note
    }
  }

  /// The provider's id of the call; not unique in a store.
  public var id: JSONString
  public var name: JSONString
  public var arguments: JSON
  public var parent: Parent?
  /// The extension that brings the tool, or the last one that wraps it; absent if the tool is gone.
  public var extensionName: String?
  public var replay: ReplayPolicy
  /// The questions about the call that were answered so far, before it is made.
  public var consents: [Consent] = []
  /// How long the call took, once it was made.
  public var durationMs: Int64?

  /// Makes a description.
  public init(
    id: JSONString,
    name: JSONString,
    arguments: JSON,
    parent: Parent? = nil,
    extensionName: String? = nil,
    replay: ReplayPolicy = .unsafe
  ) {
    self.id = id
    self.name = name
    self.arguments = arguments
    self.parent = parent
    self.extensionName = extensionName
    self.replay = replay
  }
}

/// What becomes of a call of a tool; a denial weighs more than a question, a question more than
/// consent.
public enum CallDecision: Sendable, Equatable {
  case proceed
  /// The call is made with these arguments, if the tool accepts them.
  case change(arguments: JSON)
  /// The call is not made; the model gets an error result `blocked` with this reason.
  case deny(String)
  /// Somebody has to say yes first.
  case ask(ApprovalQuestion)
}

/// What becomes of a result.
public enum ResultDecision: Sendable, Equatable {
  case proceed
  case change(ToolResult)
  /// The model gets an error result `blocked` with this reason instead; the call was made.
  case deny(String)
}

/// A context that is about to be compacted.
public struct PendingCompaction: Sendable {
  /// `manual`, `threshold` or `overflow`.
  public var reason: String
  /// The entries that the summary is to replace.
  public var entries: [EntryRecord]
  /// The messages that the summary is to replace.
  public var messages: [JSON]
  /// The first entry that stays.
  public var firstKept: EntryID
  /// What the one who asked wants of the summary.
  public var instructions: String?

  /// Makes a description.
  public init(
    reason: String,
    entries: [EntryRecord],
    messages: [JSON],
    firstKept: EntryID,
    instructions: String?
  ) {
    self.reason = reason
    self.entries = entries
    self.messages = messages
    self.firstKept = firstKept
    self.instructions = instructions
  }
}

/// What becomes of a compaction.
public enum CompactionDecision: Sendable, Equatable {
  case proceed
  /// Nothing is compacted.
  case decline
  /// This text takes the place of a summary by the model.
  case summary(String)
  /// Nothing is compacted, for this reason.
  case deny(String)
}

/// What a hook at a point of a task type answers.
public enum HookAnswer: Sendable, Equatable {
  case proceed
  case value(JSON)
  case deny(String)
}
