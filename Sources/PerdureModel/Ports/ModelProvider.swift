public import PerdureValue

/// The name of a model at a provider.
public struct ModelReference: Sendable, Hashable {
  public var provider: String
  public var modelId: String

  /// Makes a reference.
  public init(provider: String, modelId: String) {
    self.provider = provider
    self.modelId = modelId
  }

  /// Reads the persisted form.
  public init?(json: JSON?) {
    guard let provider = json?["provider"]?.text, let modelId = json?["modelId"]?.text else {
      return nil
    }
    self.init(provider: provider, modelId: modelId)
  }

  /// The persisted form.
  public var json: JSON { ["provider": .string(provider), "modelId": .string(modelId)] }
}

/// What is known of a model.
public struct ModelInfo: Sendable, Equatable {
  public var reference: ModelReference
  /// The wire dialect, as assistant messages record it.
  public var api: String
  /// Tokens of input and output together; 0 = unknown.
  public var contextWindow: Int
  /// Tokens of one answer; 0 = unknown.
  public var maxTokens: Int

  /// Makes a description.
  public init(reference: ModelReference, api: String, contextWindow: Int, maxTokens: Int) {
    self.reference = reference
    self.api = api
    self.contextWindow = contextWindow
    self.maxTokens = maxTokens
  }
}

/// One request to a model.
public struct ModelRequest: Sendable {
  /// What the answer is for.
  public enum Purpose: String, Sendable {
    /// It continues a conversation.
    case answer
    /// It takes the place of the older part of a conversation.
    case summary
  }

  public var model: ModelInfo
  public var purpose: Purpose
  /// The messages in their persisted form; system messages say which tools are offered
  /// (`PromptState` replays them).
  public var messages: [JSON]
  /// The durable attempt, from 1.
  public var attempt: Int
  /// Identity of the conversation towards the provider.
  public var sessionId: String?
  /// The thinking level; absent means off.
  public var reasoning: String?
  /// The `stream` setting, such as `timeoutMs` and `headers`; `maxTokens` bounds the answer.
  public var streamOptions: JSONObject

  /// Makes a request.
  public init(
    model: ModelInfo,
    messages: [JSON],
    attempt: Int,
    sessionId: String? = nil,
    reasoning: String? = nil,
    streamOptions: JSONObject = [:],
    purpose: Purpose = .answer
  ) {
    self.model = model
    self.purpose = purpose
    self.messages = messages
    self.attempt = attempt
    self.sessionId = sessionId
    self.reasoning = reasoning
    self.streamOptions = streamOptions
  }
}

/// What kind of block an answer consists of.
public enum AnswerBlock: Sendable, Equatable {
  case text
  case thinking
  /// A call of a tool; the arguments arrive as JSON text.
  case toolCall(id: JSONString, name: JSONString)
}

/// One piece of news of an answer.
///
/// Blocks are numbered from 0 in the order of their starts.
public enum ModelEvent: Sendable, Equatable {
  case blockStart(index: Int, AnswerBlock)
  /// Text of a text or thinking block, or a piece of the JSON text of a call's arguments.
  case delta(index: Int, String)
  /// The block is complete. For a call `arguments` may carry the parsed value, which replaces the
  /// text so far; `members` are further members of the block (signatures and the like).
  case blockEnd(index: Int, arguments: JSON? = nil, members: JSONObject = [:])
  /// Token counts so far; the last one counts.
  case usage(Usage)
  /// The answer is complete. Always last.
  case finished(StopReason)
  /// The answer comes later and is fetched with this handle, an object; `pollAfterMs` in it says
  /// when to ask. Always last.
  case deferred(handle: JSON)
  /// The request failed; what arrived before stays. Always last.
  case failed(ProviderFailure)
}

/// Why an answer ended.
public enum StopReason: String, Sendable {
  case stop, length, toolUse, error, aborted, deferred
}

/// A failed request, classified where the status code is still known.
public struct ProviderFailure: Error, Sendable, Equatable {
  /// What can be done.
  public enum Action: String, Sendable {
    /// The same request may succeed after a while.
    case retry
    /// The key is missing or refused.
    case authentication
    /// Money, quota or budget is used up.
    case quota
    /// The context is too long for the model.
    case overflow
    /// The request itself is wrong, or the answer cannot be understood.
    case stop
  }

  public var action: Action
  /// One sentence for people: status, and what the provider said.
  public var message: String
  /// What the provider asked to wait, in milliseconds.
  public var retryAfterMs: Int64?

  /// Makes a failure.
  public init(_ action: Action, _ message: String, retryAfterMs: Int64? = nil) {
    self.action = action
    self.message = message
    self.retryAfterMs = retryAfterMs
  }
}

/// An answer that is arriving.
///
/// One task reads it.
public protocol ModelStream: Sendable {
  /// Returns the events that have arrived since the last call, in order and at least one; waits
  /// for the first. After `finished` or `failed` it returns none. When the calling task is
  /// cancelled, the request ends and the last event is `failed` or nothing.
  func next() async -> [ModelEvent]

  /// Ends the request; idempotent.
  func cancel()
}

/// A source of model answers.
///
/// Its failures are events, not errors.
public protocol ModelProvider: Sendable {
  /// The models that the provider can name by itself; there may be others.
  var catalogue: [ModelInfo] { get }

  /// Returns what is known of the model, or `nil` if this provider does not serve it.
  func model(_ reference: ModelReference) -> ModelInfo?

  /// Starts a request and returns at once.
  func stream(_ request: ModelRequest) -> any ModelStream

  /// Asks for an answer that was deferred, and returns at once.
  ///
  /// It arrives, or is deferred again.
  func fetchDeferred(_ handle: JSON, of model: ModelInfo) -> any ModelStream

  /// Tells the provider that nobody will ask for a deferred answer any more.
  func cancelDeferred(_ handle: JSON, of model: ModelInfo) async throws
}

extension ModelProvider {
  /// None: not every provider knows its models.
  public var catalogue: [ModelInfo] { [] }

  /// Fails: a provider that defers nothing has nothing to fetch.
  public func fetchDeferred(_ handle: JSON, of model: ModelInfo) -> any ModelStream {
    NoDeferredAnswer(provider: model.reference.provider)
  }

  /// Does nothing.
  public func cancelDeferred(_ handle: JSON, of model: ModelInfo) async throws {}
}

/// The end of a request for a deferred answer that nobody holds.
private struct NoDeferredAnswer: ModelStream {
  let provider: String

  func next() async -> [ModelEvent] {
    [.failed(ProviderFailure(.stop, "the provider \(provider) defers no answers"))]
  }

  func cancel() {}
}
