public import PerdureValue

/// What a conversation's choices come to, by name.
public struct AgentInfo: Sendable, Equatable {
  public var model: ModelReference?
  /// `off`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`.
  public var thinkingLevel: String
  /// The selected extensions in order.
  public var extensions: [String]
  /// The tools that the model is offered, in order.
  public var tools: [String]
  /// The tools that the model could be offered and that nobody has loaded.
  public var deferred: [String]
  /// The tools that other tools may call.
  public var callable: [String]
  public var instructions: String?
  /// The folder in which tools work.
  public var cwd: String?

  /// Makes a description.
  public init(
    model: ModelReference? = nil,
    thinkingLevel: String = "off",
    extensions: [String] = [],
    tools: [String] = [],
    deferred: [String] = [],
    callable: [String] = [],
    instructions: String? = nil,
    cwd: String? = nil
  ) {
    self.model = model
    self.thinkingLevel = thinkingLevel
    self.extensions = extensions
    self.tools = tools
    self.deferred = deferred
    self.callable = callable
    self.instructions = instructions
    self.cwd = cwd
  }
}

/// What a section of a prompt is made from.
public struct PromptInput: Sendable {
  public var conversationId: ConversationID
  public var agent: AgentInfo
  /// The texts that the model has been shown already, by key, with their tags.
  public var shown: [String: String]
  /// Reads of what is on disk; it stops answering when the section has been rendered.
  public var read: any ContributionReads
  /// The files of the conversation; absent where the host has none for it.
  public var env: (any Environment)?

  /// Makes an input.
  public init(
    conversationId: ConversationID,
    agent: AgentInfo,
    shown: [String: String],
    read: any ContributionReads
  ) {
    self.conversationId = conversationId
    self.agent = agent
    self.shown = shown
    self.read = read
  }
}

/// A part of the prompt, made anew before each request.
///
/// The model is told of it only when its text has changed, so a text that changes each time costs
/// the provider's cache. The last section is always that of the conversation's instructions.
public struct PromptSection: Sendable {
  /// Makes the text; `nil` leaves the section out.
  ///
  /// What was shown stays if it throws or takes too long.
  public typealias Render = @Sendable (PromptInput) async throws -> String?

  /// A lower-case letter, then lower-case letters, digits, `_` and `-`; not `instructions`.
  public var key: String
  /// Whether the text stands between `<key>` and `</key>`.
  public var isTagged: Bool
  /// How long it may take.
  public var deadline: Duration
  public var render: Render
  /// Whether it ends in time by itself, so that nobody has to watch it.
  package var endsInTime = false
  /// Says, after it failed, whether no prompt may be sent without it; `nil`: it may be.
  package var failsClosed: (@Sendable () -> Bool)?

  /// Makes a section; by default it is tagged and has two seconds.
  public init(
    _ key: String,
    isTagged: Bool = true,
    deadline: Duration = .seconds(2),
    render: @escaping Render
  ) {
    self.key = key
    self.isTagged = isTagged
    self.deadline = deadline
    self.render = render
  }

  /// Makes a section whose text never changes.
  public init(_ key: String, isTagged: Bool = true, text: String) {
    self.init(key, isTagged: isTagged) { _ in text }
  }
}
