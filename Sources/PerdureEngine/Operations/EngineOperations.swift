package import PerdureModel
package import PerdureValue
import Synchronization

/// The engine behind the operations of one call.
package struct EngineOperations: CallOperations {
  let session: Session
  let surroundings: TaskSurroundings
  let scheduler: Scheduler
  /// Absent for a call that no task makes.
  let runtime: TaskRuntime?
  let phase: PhaseAgent?
  /// What ends with the call.
  let scope: InvocationScope
  let registry: [InstalledExtension]
  let extensionName: String?
  /// For a tool: what becomes of what it owns when a crash cuts it off.
  var replay: ReplayPolicy?
  package let conversationId: ConversationID?

  /// Makes the operations of a call that a task makes.
  init(_ phase: PhaseAgent, _ scope: InvocationScope, extensionName: String? = nil) {
    let runtime = phase.runtime
    self.runtime = runtime
    self.phase = phase
    self.scope = scope
    self.extensionName = extensionName
    session = runtime.scheduler.session
    surroundings = runtime.surroundings
    scheduler = runtime.scheduler
    registry = runtime.extensions
    conversationId = runtime.conversationId
  }

  /// Makes the operations of a call about a conversation that no task makes.
  package init(
    _ engine: Engine,
    _ conversation: ConversationID,
    _ scope: InvocationScope,
    extensionName: String?
  ) {
    runtime = nil
    phase = nil
    self.scope = scope
    self.extensionName = extensionName
    session = engine.session
    surroundings = engine.scheduler.surroundings
    scheduler = engine.scheduler
    registry = engine.registry.snapshot
    conversationId = conversation
  }

  package var store: ObjectIdentifier { ObjectIdentifier(session) }
  package var taskId: TaskID? { runtime?.taskId }
  package var models: any ModelProvider { surroundings.models }

  package func clock() -> (now: Int64, monotonic: Int64) {
    (surroundings.clock.now(), surroundings.clock.monotonic())
  }

  package func report(_ message: String) {
    surroundings.report(
      Report(
        type: runtime == nil ? "extension_error" : "task_error",
        message: message,
        task: taskId,
        extensionName: extensionName
      )
    )
  }

  package func settings() throws -> JSON {
    try scope.check()
    return surroundings.settings().json
  }

  package func environment() async throws -> (any Environment)? {
    try scope.check()
    return try await runtime?.environment()
  }

  package func barrier() async throws {
    try scope.check()
    try await session.barrier()
  }

  package func standingStill<Result: Sendable>(
    _ body: @Sendable () async throws -> Result
  ) async rethrows -> Result { try await scope.waitingForHost(body) }

  /// The engine itself, as long as it is there.
  func engine() throws -> Engine {
    try scope.check()
    guard let engine = surroundings.engine.engine else {
      throw PerdureError(.closed, "the host is closed")
    }
    return engine
  }

  // MARK: Extensions and agents

  package func extensions() throws -> [ExtensionListing] {
    try scope.check()
    return registry.map { installed in
      ExtensionListing(
        name: installed.name,
        version: installed.version,
        tools: installed.tools.map { $0.tool.name },
        sections: installed.sections.map { $0.key },
        hooks: installed.hooks.map { $0.point.text },
        wraps: installed.wraps.map { wrap in
          switch wrap.target {
          case .tool(let name, _): "tool:\(name)"
          case .section(let key, _): "section:\(key)"
          }
        },
        tasks: installed.tasks.map { ($0.name.string, $0.version) }
      )
    }
  }

  private func resolved(_ conversation: ConversationID?) async throws -> Agent {
    try scope.check()
    if let phase, conversation == nil || conversation == conversationId {
      return try await phase.get()
    }
    guard let id = conversation ?? conversationId else {
      throw CallRefusal(.notHere, "the call has no conversation whose agent it could be asked")
    }
    let stored = try await read { session in
      try await session.requireConversation(id)
      return try await session.value(.agent, id)
    }
    return Agent(stored, registry: registry, defaults: surroundings.settings().extensions)
  }

  package func agent(of conversation: ConversationID?) async throws -> AgentInfo {
    try await resolved(conversation).info
  }

  package func tools(_ set: ToolSet) async throws -> [(tool: Tool, extensionName: String)] {
    let agent = try await resolved(nil)
    var tools: [InstalledTool]
    switch set {
    case .offered: tools = agent.tools
    case .callable: tools = agent.callable
    case .deferred: tools = agent.deferred
    case .all:
      tools = agent.tools + agent.deferred
      let known = Set(tools.map { JSONString($0.tool.name) })
      tools += agent.callable.filter { !known.contains(JSONString($0.tool.name)) }
    }
    return tools.map { ($0.tool, $0.extensionName) }
  }

  // MARK: Memos

  private static let memoLimit = 256

  package func memo(_ name: JSONString) async throws -> JSON? {
    guard let taskId else { throw CallRefusal(.notHere, "only tasks keep memos") }
    return try await read { $0.liveTask(taskId)?.memos?[name] }
  }

  package func memo(_ name: JSONString, _ candidate: JSON) async throws -> JSON {
    guard let runtime else { throw CallRefusal(.notHere, "only tasks keep memos") }
    try scope.check()
    let kept = Mutex(candidate)
    try await runtime.commit { tx, record in
      if let winner = record.memos?[name] {
        kept.withLock { $0 = winner }
        return nil
      }
      guard (record.memos?.count ?? 0) < Self.memoLimit else {
        throw CallRefusal(.limit, "task \(record.id) keeps \(Self.memoLimit) memos already")
      }
      var record = record
      record.memos = record.memos ?? [:]
      record.memos?[name] = candidate
      try await tx.replace(record)
      return nil
    }
    // What was decided is to hold before anybody acts on it.
    try await session.barrier()
    return kept.withLock { $0 }
  }

  package func beginTracking() throws -> any ReadTracking {
    try scope.check()
    return session.reads.begin()
  }

  package func commit(
    _ request: CommitRequest,
    _ tracking: (any ReadTracking)?
  ) async throws -> CommitReceipt {
    try scope.check()
    return try await CommitExecutor(operations: self, request: request)
      .run(tracking as? TrackedReads)
  }
}

extension ToolInvocation {
  package var operations: (any CallOperations)? {
    var operations = EngineOperations(phase, scope)
    operations.replay = replay
    return operations
  }
}
