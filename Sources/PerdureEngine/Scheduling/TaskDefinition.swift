package import PerdureModel
package import PerdureValue

/// The code of a kind of task.
package struct TaskDefinition: Sendable {
  /// Runs one phase; it commits the next state through its runtime.
  package typealias Phase = @Sendable (TaskRuntime, TaskRecord) async throws -> Void

  package var name: JSONString
  package var version: Int64
  package var initial: @Sendable (JSON) -> JSON
  /// The handlers by the name of the phase.
  package var phases: [JSONString: Phase]
  /// Runs when the task is aborted; must commit a terminal state.
  package var abort: Phase
  /// Turns the input and checkpoint of an older version into those of this one, or throws.
  package var migrate: (@Sendable (TaskRecord) throws -> (input: JSON, checkpoint: JSON))?
  /// Cleans up in the commit in which the scheduler itself ends such a task.
  package var settle: @Sendable (Transaction, TaskRecord, TaskOutcome) async throws -> Void

  /// Makes a definition.
  package init(
    name: JSONString,
    version: Int64,
    initial: @escaping @Sendable (JSON) -> JSON,
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
}
