import PerdureEngine
public import PerdureModel
public import PerdureValue

/// The durable position of a task: where it goes on, and all that it must remember for that.
///
/// It is stored as the object that its coding gives, which must have the member `phase`:
///
///     struct Position: TaskCheckpoint {
///       var phase = "collect"
///       var pages: [String] = []
///     }
public protocol TaskCheckpoint: Codable, Sendable {
  /// The name of the phase that runs next.
  var phase: String { get }
}

/// One phase of a task type: what is done at a position with its name.
public struct Phase<Input, Checkpoint, Outcome>: Sendable
where Input: Codable & Sendable, Checkpoint: TaskCheckpoint, Outcome: Codable & Sendable {
  /// Runs the phase; it commits the next state through its run.
  public typealias Handler =
    @Sendable (TaskRun<Input, Checkpoint, Outcome>) async throws -> Void

  let name: String
  let handler: Handler

  /// Makes a phase; `handler` must commit another position, or a state without one.
  public init(_ name: String, _ handler: @escaping Handler) {
    self.name = name
    self.handler = handler
  }
}

/// A kind of durable task.
///
///     let report = TaskType<Order, Position, Receipt>(
///       "app.report",
///       initial: { _ in Position() },
///       phases: [
///         Phase("collect") { run in
///           let pages = try await fetch(run.input)
///           try await run.commit { _ in .running(Position(phase: "send", pages: pages)) }
///         },
///         Phase("send") { run in
///           let receipt = try await send(run.checkpoint.pages)
///           try await run.commit { _ in .completed(receipt) }
///         },
///       ]
///     )
///
/// An extension carries it; its tasks go on wherever that extension is installed. Each phase runs
/// at least once, and again after a crash until its commit is on disk. Whoever changes what the
/// input or the positions mean raises the version and gives a migration.
public struct TaskType<Input, Checkpoint, Outcome>: TaskContribution
where Input: Codable & Sendable, Checkpoint: TaskCheckpoint, Outcome: Codable & Sendable {
  /// What the code of its tasks gets.
  public typealias Run = TaskRun<Input, Checkpoint, Outcome>

  public let name: String
  let definition: TaskDefinition

  /// Makes a task type.
  ///
  /// `abort` runs for a task that is to be aborted once nothing below it is live, and must commit an
  /// outcome; without one such a task ends as aborted. It runs again if it is cut off. `migrate`
  /// leads the JSON forms of an older version to this one; without it older tasks are blocked.
  public init(
    _ name: String,
    version: Int = 1,
    initial: @escaping @Sendable (Input) throws -> Checkpoint,
    phases: [Phase<Input, Checkpoint, Outcome>],
    abort: Phase<Input, Checkpoint, Outcome>.Handler? = nil,
    migrate: (
      @Sendable (_ input: JSON, _ checkpoint: JSON, _ from: Int) throws -> (
        input: JSON, checkpoint: JSON
      )
    )? = nil
  ) {
    self.name = name
    let form = TaskForm<Input, Checkpoint, Outcome>(name)
    func handler(
      _ body: @escaping Phase<Input, Checkpoint, Outcome>.Handler
    ) -> TaskDefinition.Phase {
      { runtime, record in try await body(try TaskRun(runtime, record, form)) }
    }
    var handlers: [JSONString: TaskDefinition.Phase] = [:]
    for phase in phases { handlers[JSONString(phase.name)] = handler(phase.handler) }
    var aborting: TaskDefinition.Phase = { runtime, _ in
      try await runtime.commit { _, record in
        .terminal(.aborted(reason: record.abortReason?.string))
      }
      try await runtime.barrier()
    }
    if let abort { aborting = handler(abort) }
    var migration: (@Sendable (TaskRecord) throws -> (input: JSON, checkpoint: JSON))?
    if let migrate {
      migration = { record in
        try migrate(record.input, record.state.checkpoint ?? .null, Int(record.version))
      }
    }
    definition = TaskDefinition(
      name: JSONString(name),
      version: Int64(version),
      initial: { input in try form.encode(initial(form.input(input))) },
      phases: handlers,
      abort: aborting,
      migrate: migration,
      settle: { _, _, _ in }
    )
  }

  /// Returns what a task of this type completed with, or `nil` if it ended otherwise or is live.
  ///
  /// Throws `documentMismatch` if the result does not have the form of `Outcome`.
  public func result(of record: TaskRecord) throws -> Outcome? {
    guard case .terminal(.completed(let result)) = record.state else { return nil }
    return try form.result(result)
  }

  var form: TaskForm<Input, Checkpoint, Outcome> { TaskForm(name) }
}

extension TaskType: DefinedTask {}

/// The way between the typed values of a task type and their stored forms.
struct TaskForm<Input, Checkpoint, Outcome>: Sendable
where Input: Codable & Sendable, Checkpoint: TaskCheckpoint, Outcome: Codable & Sendable {
  let name: String

  init(_ name: String) { self.name = name }

  private func decode<Value: Decodable>(_ json: JSON, _ what: String) throws -> Value {
    do {
      return try json.decoded(as: Value.self)
    } catch {
      throw PerdureError(
        .documentMismatch,
        "the \(what) of a task '\(name)' does not have the form of \(Value.self)",
        hint: "raise the version of the task type and give it a migration",
        cause: "\(error)"
      )
    }
  }

  func input(_ json: JSON) throws -> Input { try decode(json, "input") }
  func checkpoint(_ json: JSON) throws -> Checkpoint { try decode(json, "checkpoint") }
  func result(_ json: JSON) throws -> Outcome { try decode(json, "result") }

  func encode(_ value: some Encodable) throws -> JSON {
    do {
      return try JSON(encoding: value)
    } catch {
      throw PerdureError(
        .invalidInput,
        "a value of a task '\(name)' cannot be stored",
        cause: "\(error)"
      )
    }
  }
}
