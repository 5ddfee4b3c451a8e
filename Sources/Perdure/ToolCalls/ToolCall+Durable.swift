import PerdureEngine
public import PerdureModel
public import PerdureValue

/// One running call, under the name that other wrappers of the tool api use.
public typealias ToolCallContext = ToolCall

/// What the choices of a conversation come to for a running call, with the tools themselves.
public struct ResolvedAgent: Sendable {
  public var model: ModelReference?
  /// `off`, `minimal`, `low`, `medium`, `high`, `xhigh`, `max`.
  public var thinkingLevel: String
  /// The selected extensions in order.
  public var extensions: [String]
  /// The tools that the model is offered, in order.
  public var tools: [Tool]
  /// The tools that the model could be offered and that nobody has loaded.
  public var deferred: [Tool]
  /// The tools that other tools may call.
  public var callable: [Tool]

  init(_ agent: Agent) {
    model = agent.model
    thinkingLevel = agent.thinkingLevel
    extensions = agent.extensions
    tools = agent.tools.map { $0.tool }
    deferred = agent.deferred.map { $0.tool }
    callable = agent.callable.map { $0.tool }
  }
}

/// What a tool may do durably while it runs.
///
/// All of it throws `invocationEnded` once the call is over, and `unsupportedFeature` for a call that
/// no engine makes. A call that is aborted can commit no more.
extension ToolCall {
  private func durable() throws -> ToolInvocation {
    guard let invocation = invocation as? ToolInvocation else {
      throw PerdureError(
        .unsupportedFeature,
        "the call '\(callId.string)' has no engine that could keep anything for it",
        hint: "call the tool through a harness"
      )
    }
    try invocation.scope.check()
    return invocation
  }

  private func bound() throws -> Invocation {
    let invocation = try durable()
    return Invocation(runtime: invocation.runtime, scope: invocation.scope)
  }

  /// Returns what the choices of the conversation came to when the call was made.
  public func agent() async throws -> ResolvedAgent {
    ResolvedAgent(try await durable().agent())
  }

  // MARK: Commits

  /// Runs `body` as one commit and returns its result once that is on disk.
  ///
  /// What it creates may be owned by the task of the call, and then ends with the call at the
  /// latest. A call that runs again after a crash finds what earlier runs committed.
  @discardableResult
  public func commit<Result>(
    _ body: (Transaction) async throws -> Result
  ) async throws -> Result {
    let runtime = try durable().runtime
    let result = try await runtime.commitValue { tx, _ in try await body(Transaction(base: tx)) }
    try await runtime.barrier()
    return result
  }

  /// Returns the value that the call keeps under a name, or `nil`.
  public func memo<Value: Decodable>(_ name: String, as type: Value.Type) throws -> Value? {
    try durable().runtime.memo(JSONString(name)).map { try decode($0, name) }
  }

  /// Keeps a value under a name unless there is one; returns the kept one once it is on disk.
  ///
  /// The first one wins, also over restarts; memos go with the call.
  public func memo<Value: Codable>(_ name: String, _ candidate: Value) async throws -> Value {
    let runtime = try durable().runtime
    let json: JSON
    do {
      json = try JSON(encoding: candidate)
    } catch {
      throw PerdureError(
        .invalidInput,
        "the memo '\(name)' of task \(taskId) cannot be stored",
        cause: "\(error)"
      )
    }
    let kept = try await runtime.memo(JSONString(name), json)
    try await runtime.barrier()
    return try decode(kept, name)
  }

  private func decode<Value: Decodable>(_ json: JSON, _ name: String) throws -> Value {
    do {
      return try json.decoded(as: Value.self)
    } catch {
      throw PerdureError(
        .documentMismatch,
        "the memo '\(name)' of task \(taskId) does not have the form of \(Value.self)",
        cause: "\(error)"
      )
    }
  }

  // MARK: Tasks

  /// Creates a task in a commit of its own and returns its id; without options the call owns it.
  ///
  /// What a call that is not run again owns is aborted, too, when a crash cuts it off, unless the
  /// options say otherwise. Throws as `Transaction.createTask` does.
  @discardableResult
  public func createTask<Input, Checkpoint, Outcome>(
    _ type: TaskType<Input, Checkpoint, Outcome>,
    _ input: Input,
    _ options: TaskOptions? = nil
  ) async throws -> TaskID {
    var options = options ?? TaskOptions(owner: .task(taskId))
    if case .task = options.owner, options.abandonsOnRestart == nil {
      options.abandonsOnRestart = try durable().replay != .safe
    }
    let chosen = options
    return try await commit { try await $0.createTask(type, input, chosen) }
  }

  /// Returns a task, or `nil`.
  public func task(_ id: TaskID) async throws -> TaskRecord? {
    try await durable().runtime.task(id)
  }

  /// Returns a task's record once it has ended, whatever its outcome.
  public func waitForTask(_ id: TaskID) async throws -> TaskRecord {
    let invocation = try durable()
    let runtime = invocation.runtime
    return try await invocation.scope.wait { try await runtime.waitForTask(id) }
  }

  // MARK: Conversations and documents

  /// Returns a conversation, as long as this call lasts, or `nil` if there is none.
  public func conversation(_ id: ConversationID) async throws -> BoundConversation? {
    try await bound().conversation(id)
  }

  /// Returns a document as it is on disk, or `nil` if there is none; never creates it.
  public func value<Value>(
    _ document: Document<Value>,
    of scope: DocumentScope = .session,
    key: String? = nil
  ) async throws -> Value? { try await bound().value(document, of: scope, key: key) }

  /// Returns a document of the call's conversation as it was at the end of the commit that wrote an
  /// entry, or `nil`.
  public func value<Value>(
    _ document: Document<Value>,
    asOf entry: EntryID,
    key: String? = nil
  ) async throws -> Value? { try await bound().value(document, asOf: entry, key: key) }

  /// A document as it is, and then every change of it, or `nil` if there is none; it ends with the
  /// call.
  public func changes<Value>(
    of document: Document<Value>,
    in scope: DocumentScope = .session,
    key: String? = nil
  ) async throws -> Updates<Change>? {
    try await bound().changes(of: document, in: scope, key: key)
  }

  /// Returns the state of a document, or `nil` if there is none; it ends with the call and keeps its
  /// last value.
  public func state<Value>(
    of document: Document<Value>,
    in scope: DocumentScope = .session,
    key: String? = nil
  ) async throws -> DocumentState<Value>? {
    try await bound().state(of: document, in: scope, key: key)
  }
}
