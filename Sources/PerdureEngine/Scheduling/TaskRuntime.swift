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
  var decideCompaction: CompactionTask.Decide?
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
  private let scheduler: Scheduler

  init(
    record: TaskRecord,
    mode: Mode,
    signal: InvocationSignal,
    surroundings: TaskSurroundings,
    scheduler: Scheduler
  ) {
    taskId = record.id
    conversationId = record.conversationId
    self.mode = mode
    self.signal = signal
    self.surroundings = surroundings
    self.scheduler = scheduler
  }

  /// The settings as they are now.
  var settings: Settings { surroundings.settings() }

  /// Milliseconds since 1970.
  var now: Int64 { surroundings.clock.now() }

  /// Resolves the agent of this task's conversation as it is now.
  func agent() async throws -> Agent {
    let stored = try await scheduler.session.line.hold {
      try await scheduler.session.value(.agent, conversationId)
    }
    return Agent(stored, registry: surroundings.registry.snapshot)
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

  /// Throws `invocationEnded` if the invocation is cancelled.
  func checkSignal() throws {
    if signal.reason != nil {
      throw PerdureError(.invocationEnded, "task \(taskId) was cancelled")
    }
  }

  /// Runs `body` in a commit bound to this task; the state it returns replaces the task's.
  ///
  /// Throws `invocationEnded` if the invocation is over, the task no longer runs, the host is
  /// closing (unless the commit may not wait for the next opening), or, outside the abort handler,
  /// the task carries an abort mark.
  func commit(
    whileClosing: Bool = false,
    _ body: (Transaction, TaskRecord) async throws -> TaskState?
  ) async throws {
    try await scheduler.session.stage(conversation: conversationId, task: taskId) { tx in
      let record = try admittedRecord(whileClosing: whileClosing)
      guard let state = try await body(tx, record) else { return }
      try await tx.replace(scheduler.advance(record, to: state, tx))
    }
  }

  private func admittedRecord(whileClosing: Bool) throws -> TaskRecord {
    guard !signal.hasEnded, whileClosing || !scheduler.isClosing,
      let record = scheduler.session.liveTask(taskId),
      record.state.status == .running, mode == .abort || !record.abortRequested
    else {
      throw PerdureError(.invocationEnded, "task \(taskId) no longer runs")
    }
    return record
  }

  /// Returns when everything staged so far is on disk.
  func barrier() async throws { try await scheduler.session.barrier() }

  /// Sends a report about this task.
  func report(_ message: String, type: String = "task_error") {
    surroundings.report(Report(type: type, message: message, task: taskId))
  }
}
