import PerdureModel
import PerdureValue
import Synchronization

/// The engine's side of one call of a hook or section: reads and memos, until the call is over.
final class ContributionCall: HookContext, ContributionPort, OffersOperations {
  let agent: AgentInfo
  private let runtime: TaskRuntime
  private let extensionName: String
  private let isOver = Mutex(false)
  /// What ends with the call.
  private let scope = InvocationScope()

  init(_ runtime: TaskRuntime, agent: AgentInfo, extensionName: String) {
    self.runtime = runtime
    self.agent = agent
    self.extensionName = extensionName
  }

  /// From now on everything throws.
  func end() {
    isOver.withLock { $0 = true }
    scope.end()
  }

  var operations: (any CallOperations)? {
    EngineOperations(PhaseAgent(runtime), scope, extensionName: extensionName)
  }

  private func check() throws {
    if isOver.withLock({ $0 }) {
      throw PerdureError(
        .invocationEnded,
        "a call of the extension \(extensionName) at task \(taskId) is over"
      )
    }
    try runtime.checkSignal()
  }

  private func read<Value>(_ body: (Session) async throws -> Value) async throws -> Value {
    try check()
    let session = runtime.scheduler.session
    let value = try await session.line.hold { try await body(session) }
    // Nobody outside sees what a crash could still take back.
    try await runtime.barrier()
    return value
  }

  var conversationId: ConversationID { runtime.conversationId }
  var taskId: TaskID { runtime.taskId }
  var isCancelled: Bool {
    Task.isCancelled || runtime.signal.reason != nil || isOver.withLock { $0 }
  }

  var cancelReason: CancelReason? { runtime.signal.reason }

  func tasksAbove() async throws -> Set<TaskID> { try await runtime.tasksAbove() }

  func now() -> Int64 { runtime.now }

  func settings() throws -> JSON {
    try check()
    return runtime.settings.json
  }

  func model(_ reference: ModelReference) throws -> ModelInfo? {
    try check()
    return runtime.surroundings.models.model(reference)
  }

  func entry(_ id: EntryID) async throws -> EntryRecord? {
    try await read { try await $0.store.entry(id, visibleIn: conversationId)?.entry }
  }

  func task(_ id: TaskID) async throws -> TaskRecord? { try await read { try await $0.task(id) } }

  func messages() async throws -> [JSON] {
    try check()
    let messages = try await runtime.surroundings.contexts.read(conversationId) { $0.messages() }
    try await runtime.barrier()
    return messages
  }

  func document(
    _ kind: JSONString,
    of scope: DocumentScope,
    key: JSONString?
  ) async throws -> JSON? {
    try await read { session in
      try await session.revision(at: DocumentAddress(kind: kind, scope: scope, key: key))?.value
    }
  }

  func environment() async throws -> (any Environment)? {
    try check()
    return try await runtime.environment(of: agent)
  }

  func durable() async throws {
    try check()
    try await runtime.barrier()
  }

  func report(_ message: String) {
    runtime.surroundings.report(
      Report(
        type: "extension_error",
        message: message,
        task: taskId,
        extensionName: extensionName
      )
    )
  }

  func memo(_ name: JSONString) async throws -> JSON? {
    try await read { $0.liveTask(taskId)?.memos?[name] }
  }

  func memo(_ name: JSONString, _ candidate: JSON) async throws -> JSON {
    try check()
    let kept = Mutex<JSON>(candidate)
    try await runtime.commit { tx, record in
      if let winner = record.memos?[name] {
        kept.withLock { $0 = winner }
        return nil
      }
      var record = record
      record.memos = record.memos ?? [:]
      record.memos?[name] = candidate
      try await tx.replace(record)
      return nil
    }
    // The decision is to hold before anybody acts on it.
    try await runtime.barrier()
    return kept.withLock { $0 }
  }
}
