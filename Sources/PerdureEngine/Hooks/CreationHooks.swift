package import PerdureModel
package import PerdureValue
import Synchronization

/// Calls the hooks `conversationCreated`, in the background and at most once.
final class CreationHooks: Sendable {
  private struct State {
    var tasks: [ConversationID: Task<Void, Never>] = [:]
    var isClosed = false
  }

  private let session: Session
  private let surroundings: TaskSurroundings
  private let state = Mutex(State())

  init(_ session: Session, _ surroundings: TaskSurroundings) {
    self.session = session
    self.surroundings = surroundings
  }

  /// Begins the calls for the conversations that a staged commit creates.
  func observe(_ publication: Publication) {
    guard surroundings.registry.hasHooks(.conversationCreated) else { return }
    for change in publication.changes {
      if case .conversation(let record) = change { begin(record) }
    }
  }

  private func begin(_ record: ConversationRecord) {
    state.withLock { state in
      if state.isClosed { return }
      // Ends at the latest with the engine, which cancels it and waits for it.
      state.tasks[record.id] = Task.detached { [self] in
        await call(record)
        self.state.withLock { _ = $0.tasks.removeValue(forKey: record.id) }
      }
    }
  }

  private func call(_ record: ConversationRecord) async {
    do {
      // Called after the commit: nobody sees what a crash could still take back.
      try await session.barrier()
      let registry = surroundings.registry.snapshot
      let stored = try await session.line.hold { try await session.value(.agent, record.id) }
      let agent = Agent(
        stored,
        registry: registry,
        defaults: surroundings.settings().extensions
      )
      let hooks = agent.hooks.filter { $0.hook.point == .conversationCreated }
      let sorted = ContributionSort.sorted(hooks) {
        ContributionSort.Item(extensionName: $0.extensionName, order: $0.hook.order)
      }
      for installed in sorted where !Task.isCancelled {
        await call(installed, record, agent.info)
      }
    } catch {
      // A session that has ended calls nobody.
    }
  }

  private func call(
    _ installed: InstalledHook,
    _ record: ConversationRecord,
    _ info: AgentInfo
  ) async {
    guard case .conversationCreated(let body) = installed.hook.handler else { return }
    let name = installed.extensionName
    let call = CreationCall(session, surroundings, record.id, extensionName: name)
    defer { call.end() }
    let end = await TimedCall<Void>.run(
      surroundings.clock,
      deadline: installed.hook.endsInTime ? nil : installed.hook.deadline
    ) { try await body(record, info, call) }
    if Task.isCancelled { return }
    let message: String
    switch end {
    case .returned: return
    case .threw(let text): message = text
    case .late: message = "it did not answer within \(installed.hook.deadline)"
    }
    surroundings.report(
      Report(
        type: "extension_error",
        message: "the observer conversationCreated of \(name) failed: \(message)",
        extensionName: name
      )
    )
  }

  /// Cancels the calls that are under way and waits for them; begins no more.
  func close() async {
    let tasks = state.withLock { state in
      state.isClosed = true
      return Array(state.tasks.values)
    }
    for task in tasks { task.cancel() }
    for task in tasks { await task.value }
  }
}

/// The engine's side of one call for a new conversation: reads, until the call is over.
package final class CreationCall: ContributionReads, ContributionPort, OffersOperations {
  package let conversationId: ConversationID
  private let session: Session
  private let surroundings: TaskSurroundings
  private let extensionName: String
  private let isOver = Mutex(false)
  /// What ends with the call.
  private let scope = InvocationScope()

  init(
    _ session: Session,
    _ surroundings: TaskSurroundings,
    _ conversationId: ConversationID,
    extensionName: String
  ) {
    self.session = session
    self.surroundings = surroundings
    self.conversationId = conversationId
    self.extensionName = extensionName
  }

  /// From now on everything throws.
  func end() {
    isOver.withLock { $0 = true }
    scope.end()
  }

  package var operations: (any CallOperations)? {
    surroundings.engine.engine.map {
      EngineOperations($0, conversationId, scope, extensionName: extensionName)
    }
  }

  private func check() throws {
    guard isOver.withLock({ $0 }) else { return }
    throw PerdureError(
      .invocationEnded,
      "a call of the extension \(extensionName) for conversation \(conversationId) is over"
    )
  }

  private func read<Value>(_ body: (Session) async throws -> Value) async throws -> Value {
    try check()
    let value = try await session.line.hold { try await body(session) }
    try await session.barrier()
    return value
  }

  /// The engine, as long as it is there; for code that runs on its terms.
  package var engine: Engine? { surroundings.engine.engine }
  package var isCancelled: Bool { Task.isCancelled || isOver.withLock { $0 } }
  // Nothing but the end of the host ends such a call.
  package var cancelReason: CancelReason? { isCancelled ? .closing : nil }
  package func tasksAbove() async throws -> Set<TaskID> { [] }
  package func now() -> Int64 { surroundings.clock.now() }

  package func settings() throws -> JSON {
    try check()
    return surroundings.settings().json
  }

  package func model(_ reference: ModelReference) throws -> ModelInfo? {
    try check()
    return surroundings.models.model(reference)
  }

  package func entry(_ id: EntryID) async throws -> EntryRecord? {
    try await read { try await $0.store.entry(id, visibleIn: conversationId)?.entry }
  }

  package func task(_ id: TaskID) async throws -> TaskRecord? {
    try await read { try await $0.task(id) }
  }

  package func messages() async throws -> [JSON] {
    try check()
    let messages = try await surroundings.contexts.read(conversationId) { $0.messages() }
    try await session.barrier()
    return messages
  }

  package func document(
    _ kind: JSONString,
    of scope: DocumentScope,
    key: JSONString?
  ) async throws -> JSON? {
    try await read { session in
      try await session.revision(at: DocumentAddress(kind: kind, scope: scope, key: key))?.value
    }
  }

  package func durable() async throws {
    try check()
    try await session.barrier()
  }

  package func report(_ message: String) {
    surroundings.report(
      Report(type: "extension_error", message: message, extensionName: extensionName)
    )
  }
}
