import PerdureEngine
public import PerdureModel
public import PerdureValue

/// The next state of a task, as its code commits it.
public enum TaskStep<Checkpoint: Sendable, Outcome: Sendable>: Sendable {
  /// It goes on at another position; the same one again is no progress, and a fault.
  case running(Checkpoint)
  /// It goes on at this position when all of these tasks have ended.
  ///
  /// With `failFast`, which is for tasks that it owns, the others are aborted as soon as one does
  /// not complete.
  case waiting(Checkpoint, on: [TaskID], policy: JoinPolicy = .allSettled)
  /// It goes on at this position at a time, in milliseconds since 1970.
  case sleeping(Checkpoint, until: Int64)
  case completed(Outcome)
  case failed(String, detail: JSON? = nil, result: Outcome? = nil)
  case aborted(reason: String? = nil, result: Outcome? = nil)
}

/// One run of a task's code: what it works on, and all that it may do.
///
/// Everything throws `invocationEnded` once the run is over: the task was aborted, ended, replaced
/// by other code, or the harness closes. Code that is cancelled so simply returns or throws; what
/// becomes of the task is decided elsewhere.
public struct TaskRun<Input, Checkpoint, Outcome>: Sendable
where Input: Codable & Sendable, Checkpoint: TaskCheckpoint, Outcome: Codable & Sendable {
  /// The task as it was when the phase began.
  public let record: TaskRecord
  public let input: Input
  /// The position at which the phase began.
  public let checkpoint: Checkpoint
  let runtime: TaskRuntime
  let form: TaskForm<Input, Checkpoint, Outcome>

  init(
    _ runtime: TaskRuntime,
    _ record: TaskRecord,
    _ form: TaskForm<Input, Checkpoint, Outcome>
  ) throws {
    self.record = record
    self.runtime = runtime
    self.form = form
    input = try form.input(record.input)
    checkpoint = try form.checkpoint(record.state.checkpoint ?? .null)
  }

  /// The task.
  public var id: TaskID { runtime.taskId }
  /// The conversation in which it lives.
  public var conversationId: ConversationID { runtime.conversationId }
  /// Milliseconds since 1970, by the clock of the harness.
  public var now: Int64 { runtime.now }
  /// Whether the run is to end; the Swift task of the phase is cancelled then, too.
  public var isCancelled: Bool { runtime.isCancelled }
  /// Whether this is the run of the abort handler.
  public var isAborting: Bool { runtime.mode == .abort }

  // MARK: Commits

  /// Runs `body` as one commit and returns once it is on disk; the step that it returns becomes the
  /// task's state, `nil` leaves it.
  ///
  /// An outcome is held while work below the task is live. Throws `invalidInput`, and writes
  /// nothing, for a wait on a missing task, one that would never end, and one with `failFast` on a
  /// task that it does not own; and in the abort handler for every wait and sleep.
  public func commit(
    _ body: (Transaction) async throws -> TaskStep<Checkpoint, Outcome>?
  ) async throws {
    try await runtime.commit { tx, _ in
      try await body(Transaction(base: tx)).map { try state(of: $0) }
    }
    try await runtime.barrier()
  }

  /// Commits a sleep until a time, in milliseconds since 1970; the task goes on at `checkpoint`.
  public func sleep(until: Int64, at checkpoint: Checkpoint) async throws {
    try await commit { _ in .sleeping(checkpoint, until: until) }
  }

  private func state(of step: TaskStep<Checkpoint, Outcome>) throws -> TaskState {
    switch step {
    case .running(let checkpoint): .running(checkpoint: try position(checkpoint))
    case .waiting(let checkpoint, let on, let policy):
      .waiting(checkpoint: try position(checkpoint), on: on, policy: policy)
    case .sleeping(let checkpoint, let until):
      .sleeping(checkpoint: try position(checkpoint), until: until)
    case .completed(let result): .terminal(.completed(result: try form.encode(result)))
    case .failed(let message, let detail, let result):
      .terminal(
        .failed(message: message, detail: detail, result: try result.map { try form.encode($0) })
      )
    case .aborted(let reason, let result):
      .terminal(
        .aborted(
          reason: reason ?? record.abortReason?.string,
          result: try result.map { try form.encode($0) }
        )
      )
    }
  }

  private func position(_ checkpoint: Checkpoint) throws -> JSON {
    let json = try form.encode(checkpoint)
    guard json["phase"]?.string != nil else {
      throw PerdureError(
        .invalidInput,
        "a checkpoint of a task '\(form.name)' is stored without its phase",
        hint: "store the phase as the member 'phase'"
      )
    }
    return json
  }

  // MARK: Memos

  /// Returns the files and processes of the conversation, or `nil` where the host has none for it.
  ///
  /// What was committed so far is on disk then, because what is done there is not taken back.
  public func environment() async throws -> (any Environment)? {
    try await runtime.barrier()
    return try await runtime.environment()
  }

  /// Returns the value that the task keeps under a name, or `nil`.
  public func memo<Value: Decodable>(_ name: String, as type: Value.Type) throws -> Value? {
    try runtime.memo(JSONString(name)).map { try decode($0, name) }
  }

  /// Keeps a value under a name unless there is one; returns the kept one once it is on disk.
  ///
  /// The first one wins, also over restarts; memos go with the outcome of the task.
  public func memo<Value: Codable>(_ name: String, _ candidate: Value) async throws -> Value {
    let kept = try await runtime.memo(JSONString(name), try form.encode(candidate))
    try await runtime.barrier()
    return try decode(kept, name)
  }

  private func decode<Value: Decodable>(_ json: JSON, _ name: String) throws -> Value {
    do {
      return try json.decoded(as: Value.self)
    } catch {
      throw PerdureError(
        .documentMismatch,
        "the memo '\(name)' of task \(id) does not have the form of \(Value.self)",
        cause: "\(error)"
      )
    }
  }

  // MARK: Other tasks

  /// Returns a task, or `nil`.
  public func task(_ id: TaskID) async throws -> TaskRecord? { try await runtime.task(id) }

  /// Returns a task's record once it has ended; the code of this run stays in memory meanwhile.
  ///
  /// A step `waiting` does not.
  public func waitForTask(_ id: TaskID) async throws -> TaskRecord {
    try await runtime.waitForTask(id)
  }

  /// Returns the live tasks that this one owns, by id.
  public func ownedTasks() async throws -> [TaskRecord] { try await runtime.ownedTasks() }

  /// Aborts a task that this one owns and returns once it has ended.
  public func abortOwned(_ id: TaskID) async throws { try await runtime.abortOwned(id) }

  /// Returns the outcomes of ended tasks in the order of `ids`; throws `invalidRequest` for a live
  /// one.
  public func outcomes(_ ids: [TaskID]) async throws -> [TaskOutcome] {
    try await runtime.outcomes(ids)
  }

  // MARK: Conversations

  private var bound: Invocation { Invocation(runtime: runtime, scope: runtime.scope) }

  /// Returns a conversation, as long as this run lasts, or `nil` if there is none.
  public func conversation(_ id: ConversationID) async throws -> BoundConversation? {
    try await bound.conversation(id)
  }

  /// Returns an entry that the task's conversation sees, or `nil`.
  public func entry(_ id: EntryID) async throws -> EntryRecord? {
    try await runtime.visibleEntry(id)
  }

  /// Returns the messages that a model would be shown of a conversation, up to an entry.
  public func context(
    of conversation: ConversationID,
    at entry: EntryID? = nil
  ) async throws -> [JSON] { try await runtime.context(of: conversation, at: entry).messages }

  /// Returns a document as it is on disk, or `nil` if there is none.
  public func value<Value>(
    _ document: Document<Value>,
    of scope: DocumentScope = .session,
    key: String? = nil
  ) async throws -> Value? {
    let key = key.map { JSONString($0) }
    let json = try await runtime.snapshot(document.definition, in: scope, key: key)
    return try json.map { try document.form.decode($0) }
  }

  /// Returns a document of the task's conversation as it was at the end of the commit that wrote an
  /// entry, or `nil`.
  public func value<Value>(
    _ document: Document<Value>,
    asOf entry: EntryID,
    key: String? = nil
  ) async throws -> Value? { try await bound.value(document, asOf: entry, key: key) }

  /// A document as it is, and then every change of it, or `nil` if there is none; it ends with this
  /// run.
  public func changes<Value>(
    of document: Document<Value>,
    in scope: DocumentScope = .session,
    key: String? = nil
  ) async throws -> Updates<Change>? { try await bound.changes(of: document, in: scope, key: key) }

  /// Returns the state of a document, or `nil` if there is none; it ends with this run and keeps its
  /// last value.
  public func state<Value>(
    of document: Document<Value>,
    in scope: DocumentScope = .session,
    key: String? = nil
  ) async throws -> DocumentState<Value>? {
    try await bound.state(of: document, in: scope, key: key)
  }

  /// Returns once everything that was committed so far is on disk: before an effect that must not
  /// be forgotten.
  public func durable() async throws { try await runtime.barrier() }

  /// Reports something that went wrong and is no outcome.
  public func report(_ message: String) { runtime.report(message) }
}
