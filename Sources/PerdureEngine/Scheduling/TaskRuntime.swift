package import PerdureModel
import PerdureValue
import Synchronization

/// What every task may use: choices, models and time, but neither the session nor the store.
struct TaskSurroundings: Sendable {
  var registry: Registry
  var settings: @Sendable () -> Settings
  var models: any ModelProvider
  var contexts: ContextStore
  var clock: any HostClock
  var report: @Sendable (Report) -> Void
  /// Makes the environments of conversations; absent: there are none.
  var environment: EnvironmentMaker?
  /// The engine that owns all this, for code that is more than an effect.
  var engine = EngineReference()
  /// Which calls of tools must not run beside each other.
  var lanes = CallLanes()
  var agents = AgentCache()
}

/// Leads from what an engine owns back to it.
final class EngineReference: Sendable {
  private struct State {
    weak var engine: Engine?
  }

  private let state = Mutex(State())

  var engine: Engine? {
    get { state.withLock { $0.engine } }
    set { state.withLock { $0.engine = newValue } }
  }
}

/// Why an invocation is over before its code is.
final class InvocationSignal: Sendable {
  private struct State {
    var reason: CancelReason?
    var task: Task<Void, Never>?
    var hasEnded = false
    var joining: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())
  /// What ends with the invocation.
  let scope = InvocationScope()

  /// Why it is cancelled, or `nil`.
  var reason: CancelReason? { state.withLock { $0.reason } }

  var hasEnded: Bool { state.withLock { $0.hasEnded } }

  func cancel(_ reason: CancelReason) {
    let task = state.withLock { state in
      if state.reason == nil { state.reason = reason }
      return state.task
    }
    task?.cancel()
  }

  func attach(_ task: Task<Void, Never>) {
    let isCancelled = state.withLock { state in
      if !state.hasEnded { state.task = task }
      return state.reason != nil
    }
    if isCancelled { task.cancel() }
  }

  func end() {
    let joining = state.withLock { state in
      state.hasEnded = true
      state.task = nil
      defer { state.joining = [] }
      return state.joining
    }
    scope.end()
    for continuation in joining { continuation.resume() }
  }

  /// Returns when the invocation has ended.
  func joined() async {
    await withCheckedContinuation { continuation in
      let hasEnded = state.withLock { state in
        if !state.hasEnded { state.joining.append(continuation) }
        return state.hasEnded
      }
      if hasEnded { continuation.resume() }
    }
  }
}

/// All that the code of a task gets: it can commit, wait and look around; it has no session.
package struct TaskRuntime: Sendable {
  /// Which handler runs.
  package enum Mode: Sendable { case run, abort }

  package let taskId: TaskID
  package let conversationId: ConversationID
  package let mode: Mode
  let signal: InvocationSignal
  let surroundings: TaskSurroundings
  /// The extensions that were installed when this phase began.
  let extensions: [InstalledExtension]
  let scheduler: Scheduler
  private let extensionName: String?

  init(
    record: TaskRecord,
    mode: Mode,
    signal: InvocationSignal,
    surroundings: TaskSurroundings,
    scheduler: Scheduler,
    extensionName: String? = nil
  ) {
    taskId = record.id
    conversationId = record.conversationId
    self.mode = mode
    self.signal = signal
    self.surroundings = surroundings
    extensions = surroundings.registry.snapshot
    self.scheduler = scheduler
    self.extensionName = extensionName
  }

  /// The settings as they are now.
  package var settings: Settings { surroundings.settings() }

  /// Milliseconds since 1970.
  package var now: Int64 { surroundings.clock.now() }

  /// What ends with the invocation.
  package var scope: InvocationScope { signal.scope }

  /// Whether the invocation is over or is to end.
  package var isCancelled: Bool { signal.reason != nil || signal.hasEnded }

  /// Resolves the agent of this task's conversation, with the extensions of this phase.
  package func agent() async throws -> Agent {
    let stored = try await scheduler.session.line.hold {
      try await scheduler.session.value(.agent, conversationId)
    }
    return surroundings.agents.agent(
      stored,
      registry: extensions,
      defaults: settings.extensions,
      current: surroundings.registry
    )
  }

  /// Returns the context of this task's conversation up to `cutoff`, for a request.
  func context(upTo cutoff: EntryID) async throws -> RequestContext {
    try await surroundings.contexts.request(of: conversationId, upTo: cutoff)
  }

  /// Returns the entry as staged, or `nil`.
  func entry(_ id: EntryID) async throws -> EntryRecord? {
    try await surroundings.contexts.entry(id, in: conversationId)
  }

  /// Returns the staged value of a built-in document of this task's conversation.
  func value(_ definition: DocumentDefinition) async throws -> JSON {
    try await scheduler.session.line.hold {
      try await scheduler.session.value(definition, conversationId)
    }
  }

  /// The engine, as long as it is there; for code that runs on its terms.
  package var engine: Engine? { surroundings.engine.engine }

  /// Throws `invocationEnded` if the invocation is cancelled.
  package func checkSignal() throws {
    if isCancelled {
      throw PerdureError(.invocationEnded, "task \(taskId) was cancelled")
    }
  }

  /// Throws `invocationEnded` once the invocation is over.
  func checkEnd() throws {
    if signal.hasEnded { throw PerdureError(.invocationEnded, "task \(taskId) no longer runs") }
  }

  /// Runs `body` in a commit bound to this task; the state it returns replaces the task's.
  ///
  /// The commit is staged when this returns. A terminal state is held while work below the task is
  /// live. Throws `invocationEnded` if the invocation is over, the task no longer runs, the host is
  /// closing (unless the commit may not wait for the next opening), or, outside the abort handler,
  /// the task carries an abort mark; and `invalidInput` for a state that a task cannot take.
  package func commit(
    whileClosing: Bool = false,
    _ body: (Transaction, TaskRecord) async throws -> TaskState?
  ) async throws {
    try await scheduler.session.stage(conversation: conversationId, task: taskId) { tx in
      let record = try admittedRecord(whileClosing: whileClosing)
      guard let state = try await body(tx, record) else { return }
      try await check(state, record, tx)
      // What `body` wrote into the record, such as memos, stays.
      let current = tx.tasks[taskId] ?? record
      try await tx.replace(try await scheduler.advance(current, to: state, tx))
    }
  }

  /// Runs `body` in a commit bound to this task, which keeps its state, and returns what it returns.
  ///
  /// Staged and refused as `commit` is.
  package func commitValue<Result>(
    _ body: (Transaction, TaskRecord) async throws -> Result
  ) async throws -> Result {
    try await scheduler.session.stage(conversation: conversationId, task: taskId) { tx in
      try await body(tx, try admittedRecord())
    }.result
  }

  func admittedRecord(whileClosing: Bool = false) throws -> TaskRecord {
    guard !signal.hasEnded, whileClosing || !scheduler.isClosing,
      let record = scheduler.session.liveTask(taskId),
      record.state.status == .running, mode == .abort || !record.abortRequested
    else {
      throw PerdureError(.invocationEnded, "task \(taskId) no longer runs")
    }
    return record
  }

  func check(_ state: TaskState, _ record: TaskRecord, _ tx: Transaction) async throws {
    func refuse(_ message: String) -> PerdureError {
      PerdureError(.invalidInput, "task \(taskId) \(message)")
    }
    switch state {
    case .pending, .completing: throw refuse("cannot commit the state '\(state.status.rawValue)'")
    case .running, .terminal: break
    case .waiting(_, let on, let policy):
      if mode == .abort { throw refuse("cannot wait in its abort handler") }
      try await scheduler.check(record, waitsOn: on, policy, tx)
    case .sleeping(_, let until):
      if mode == .abort { throw refuse("cannot sleep in its abort handler") }
      if until < 0 { throw refuse("cannot sleep until \(until), which is no time") }
    }
  }

  /// Returns when everything staged so far is on disk.
  package func barrier() async throws { try await scheduler.session.barrier() }

  /// Sends a report about this task.
  package func report(_ message: String, type: String = "task_error") {
    surroundings.report(
      Report(type: type, message: message, task: taskId, extensionName: extensionName)
    )
  }
}
