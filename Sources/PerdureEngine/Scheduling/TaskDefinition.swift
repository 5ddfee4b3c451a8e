package import PerdureModel
package import PerdureValue

/// Says whether two definitions are the same code.
package final class DefinitionIdentity: Sendable {
  package init() {}
}

/// The code of a kind of task.
package struct TaskDefinition: Sendable {
  /// Runs one phase; it commits the next state through its runtime.
  package typealias Phase = @Sendable (TaskRuntime, TaskRecord) async throws -> Void

  package var name: JSONString
  package var version: Int64
  package var initial: @Sendable (JSON) throws -> JSON
  /// The handlers by the name of the phase.
  package var phases: [JSONString: Phase]
  /// Runs when the task is aborted; must commit a terminal state.
  package var abort: Phase
  /// Turns the input and checkpoint of an older version into those of this one, or throws.
  package var migrate: (@Sendable (TaskRecord) throws -> (input: JSON, checkpoint: JSON))?
  /// Cleans up in the commit in which the scheduler itself ends such a task.
  package var settle: @Sendable (Transaction, TaskRecord, TaskOutcome) async throws -> Void
  /// Present for code that lives outside, and is asked for everything away from the line.
  package var external: ExternalTask?
  /// Each definition that is made is code of its own, also under a known name.
  package let identity = DefinitionIdentity()

  /// Makes a definition.
  package init(
    name: JSONString,
    version: Int64,
    initial: @escaping @Sendable (JSON) throws -> JSON,
    phases: [JSONString: Phase],
    abort: @escaping Phase,
    migrate: (@Sendable (TaskRecord) throws -> (input: JSON, checkpoint: JSON))?,
    settle: @escaping @Sendable (Transaction, TaskRecord, TaskOutcome) async throws -> Void
  ) {
    self.name = name
    self.version = version
    self.initial = initial
    self.phases = phases
    self.abort = abort
    self.migrate = migrate
    self.settle = settle
  }

  /// Whether it can go on with a task as it is stored.
  func canTake(_ record: TaskRecord) -> Bool {
    version == record.version || version > record.version && canMigrate(from: record.version)
  }

  /// Whether something leads from an older version to this one.
  func canMigrate(from older: Int64) -> Bool {
    migrate != nil || external?.migrates.contains(older) == true
  }

  /// Throws `invalidInput` unless a checkpoint says which phase comes next.
  func check(_ checkpoint: JSON) throws {
    guard checkpoint["phase"]?.string != nil else {
      throw PerdureError(
        .invalidInput,
        "a checkpoint of the task type '\(name.string)' is no object with a phase",
        hint: "give it a member 'phase' with the name of a phase"
      )
    }
  }
}

/// A contribution that the engine knows how to run.
package protocol DefinedTask: TaskContribution {
  var definition: TaskDefinition { get }
}
