public import PerdureValue

/// The durable position of a task: where it goes on, and all that it must remember for that.
///
///     struct Position: TaskCheckpoint {
///       var phase = "collect"
///       var pages: [String] = []
///     }
public protocol TaskCheckpoint: Codable, Sendable {
  /// The name of the phase that runs next.
  var phase: String { get }
}

/// The next state of a task, as its code commits it.
public enum TaskStep<Checkpoint: Sendable, Outcome: Sendable>: Sendable {
  /// When a task stops to wait for others.
  public enum WaitPolicy: String, Sendable { case allSettled, failFast }

  /// It goes on at another position; the same one again is no progress, and a fault.
  case running(Checkpoint)
  /// It goes on at this position when all of these tasks have ended.
  case waiting(for: [RecordReference], policy: WaitPolicy = .allSettled, then: Checkpoint)
  /// It goes on at this position at a time, in milliseconds since 1970.
  case sleeping(until: Int64, then: Checkpoint)
  case completed(Outcome)
  case failed(String)
  case aborted
}

extension TaskStep where Checkpoint: TaskCheckpoint, Outcome: Codable {
  var json: JSON {
    get throws {
      switch self {
      case .running(let checkpoint):
        return ["status": "running", "checkpoint": try JSON(encoding: checkpoint)]
      case .waiting(let tasks, let policy, let checkpoint):
        return [
          "status": "waiting", "checkpoint": try JSON(encoding: checkpoint),
          "on": .array(tasks.map { $0.json }), "policy": .string(policy.rawValue),
        ]
      case .sleeping(let until, let checkpoint):
        return [
          "status": "sleeping", "checkpoint": try JSON(encoding: checkpoint), "until": .int(until),
        ]
      case .completed(let result):
        return Self.ended(["status": "completed", "result": try JSON(encoding: result)])
      case .failed(let message):
        return Self.ended(["status": "failed", "error": ["message": .string(message)]])
      case .aborted: return Self.ended(["status": "aborted"])
      }
    }
  }

  private static func ended(_ outcome: JSON) -> JSON {
    ["status": "terminal", "outcome": outcome]
  }
}

/// One phase of a task type: what is done at a position with its name.
public struct Phase<Input, Checkpoint, Outcome>: Sendable
where
  Input: Codable & Sendable, Checkpoint: TaskCheckpoint, Outcome: Codable & Sendable
{
  /// Runs the phase; it commits the next state through its run.
  public typealias Handler =
    @concurrent @Sendable (TaskRun<Input, Checkpoint, Outcome>) async throws -> Void

  let name: String
  let handler: Handler

  /// Makes a phase; `handler` must commit another position, or a state without one.
  public init(_ name: String, _ handler: @escaping Handler) {
    self.name = name
    self.handler = handler
  }
}

/// A kind of durable task, as the manifest declares it.
///
/// Each phase runs at least once, and again after a crash until its commit is on disk. Whoever
/// changes what the input or the positions mean raises the version and gives a migration.
public struct TaskType<Input, Checkpoint, Outcome>: Sendable
where
  Input: Codable & Sendable, Checkpoint: TaskCheckpoint, Outcome: Codable & Sendable
{
  /// What the code of its tasks gets.
  public typealias Run = TaskRun<Input, Checkpoint, Outcome>
  /// Leads the JSON forms of an older version to this one; may ask the host for nothing.
  public typealias Migration =
    @Sendable (_ input: JSON, _ checkpoint: JSON, _ from: Int) throws -> (
      input: JSON, checkpoint: JSON
    )

  public let name: String
  let handlers: [(target: String, handler: Contribution.Handler)]

  /// Makes a task type.
  ///
  /// `initial` is for a manifest that says `"initial": "call"`. `abort` runs for a task that is to
  /// be aborted and must commit an outcome; without one such a task ends as aborted.
  public init(
    _ name: String,
    version: Int = 1,
    initial: (@Sendable (Input) throws -> Checkpoint)? = nil,
    phases: [Phase<Input, Checkpoint, Outcome>],
    abort: Phase<Input, Checkpoint, Outcome>.Handler? = nil,
    migrate: Migration? = nil
  ) {
    self.name = name
    let versioned = "\(name)@\(version)"
    var handlers: [(target: String, handler: Contribution.Handler)] = phases.map { phase in
      ("task:\(versioned)/\(phase.name)", Self.run(phase.handler))
    }
    if let abort { handlers.append(("task.abort:\(versioned)", Self.run(abort))) }
    if let initial {
      handlers.append(
        (
          "task.initial:\(name)",
          { call in
            let input: Input = try (call.input["input"] ?? .null).decoded()
            return Payload(["checkpoint": try JSON(encoding: initial(input))])
          }
        )
      )
    }
    if let migrate { handlers.append(("task.migrate:\(name)", Self.migration(migrate))) }
    self.handlers = handlers
  }

  /// Returns what a task of this type completed with, or `nil` if it ended otherwise or is live.
  public func result(of record: JSON) throws -> Outcome? {
    let outcome = record["state"]?["outcome"]
    guard outcome?["status"] == "completed" else { return nil }
    return try (outcome?["result"] ?? .null).decoded()
  }

  private static func run(
    _ body: @escaping Phase<Input, Checkpoint, Outcome>.Handler
  ) -> Contribution.Handler {
    { call in
      try await body(try Run(call))
      return Payload([:])
    }
  }

  private static func migration(_ body: @escaping Migration) -> Contribution.Handler {
    { call in
      let (input, checkpoint) = try body(
        call.input["input"] ?? .null,
        call.input["checkpoint"] ?? .null,
        Int(call.input["fromVersion"]?.int ?? 0)
      )
      return Payload(["input": input, "checkpoint": checkpoint])
    }
  }
}

extension Transaction {
  /// Creates a task of a type that this plugin brings; the call's own task owns it unless `owner`
  /// says otherwise.
  @discardableResult
  public func createTask<Input, Checkpoint, Outcome>(
    _ type: TaskType<Input, Checkpoint, Outcome>,
    _ input: Input,
    owner: JSON = "self",
    options: JSONObject = [:]
  ) throws -> RecordReference {
    try createTask(type.name, input, owner: owner, options: options)
  }

  /// Returns the tasks of a type that the call's own task owns, at most 256.
  public func ownedTasks<Input, Checkpoint, Outcome>(
    of type: TaskType<Input, Checkpoint, Outcome>
  ) async throws -> [JSON] {
    try await ownedTasks(of: type.name)
  }
}

/// One run of a task's code: what it works on, and all that it may do.
///
/// A run that is over, because the task was aborted, ended or replaced, throws `stale` or
/// `cancelled` from everything; code that is cancelled so simply returns or throws.
public struct TaskRun<Input, Checkpoint, Outcome>: CommitOperations
where
  Input: Codable & Sendable, Checkpoint: TaskCheckpoint, Outcome: Codable & Sendable
{
  public let call: PluginCall
  /// The record of the task as it was when the phase began.
  public let record: JSON
  public let input: Input
  /// The position at which the phase began.
  public let checkpoint: Checkpoint

  init(_ call: PluginCall) throws {
    self.call = call
    record = call.input["task"] ?? [:]
    input = try (record["input"] ?? .null).decoded()
    checkpoint = try (record["state"]?["checkpoint"] ?? .null).decoded()
  }

  /// The task.
  public var id: Int64 { record["id"]?.int ?? taskId ?? 0 }

  /// Runs `body` as one commit and returns once it is on disk; the step that it returns becomes the
  /// task's state.
  ///
  /// After a state other than `running` the run is over.
  public func commit(
    _ body: (Transaction) async throws -> TaskStep<Checkpoint, Outcome>
  ) async throws {
    _ = try await commitState { transaction in
      ((), try (try await body(transaction)).json)
    }
  }

  /// Commits a sleep until a time, in milliseconds since 1970; the task goes on at `checkpoint`.
  public func sleep(until: Int64, at checkpoint: Checkpoint) async throws {
    try await commit { _ in .sleeping(until: until, then: checkpoint) }
  }

  /// Returns the live tasks that this one owns.
  public func ownedTasks() async throws -> [JSON] {
    try await invoke("tasks.scan", ["owner": "self", "live": true])["items"]?.array ?? []
  }

  /// Aborts a task that this one owns and returns once it has ended.
  public func abortOwned(_ id: Int64) async throws {
    try await invoke("task.abort", ["task": .int(id)])
  }

  /// Returns the outcomes of ended tasks in the order of `ids`.
  public func outcomes(_ ids: [Int64]) async throws -> [JSON] {
    let input: JSON = ["tasks": .array(ids.map { .int($0) })]
    return try await invoke("task.outcomes", input)["outcomes"]?.array ?? []
  }

  /// Calls the hooks that extensions have for a point of this type, and returns their answers.
  public func callHooks(_ name: String, _ arguments: JSON) async throws -> [JSON] {
    let input: JSON = ["name": .string(name), "arguments": arguments]
    return try await invoke("hooks.each", input)["results"]?.array ?? []
  }
}
