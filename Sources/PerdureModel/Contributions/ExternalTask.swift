package import PerdureValue

/// A kind of durable task whose code lives outside, and may take its time for everything.
package struct ExternalTask: TaskContribution {
  /// Where a new task begins.
  package enum Initial: Sendable {
    case constant(JSON)
    /// Asks the code, before the commit that creates the task.
    case asked(@Sendable (_ input: JSON) async throws -> JSON)
  }

  /// Runs a phase, or the abort handler; it commits through its call, and ends in its time.
  package typealias Run = @Sendable (ExternalTaskCall) async throws -> Void
  /// Leads the input and checkpoint of an older version to this one.
  package typealias Migration =
    @Sendable (_ record: TaskRecord) async throws -> (input: JSON, checkpoint: JSON)

  package var name: String
  package var version: Int64
  package var phases: [String]
  package var initial: Initial
  /// What inputs have to fit.
  package var inputSchema: JSON?
  /// The older versions that can be led to this one.
  package var migrates: [Int64]
  /// Whether nobody runs the code now.
  package var isDown: @Sendable () -> Bool
  package var migrate: Migration
  package var run: Run

  package init(
    name: String,
    version: Int64,
    phases: [String],
    initial: Initial,
    inputSchema: JSON?,
    migrates: [Int64],
    isDown: @escaping @Sendable () -> Bool,
    migrate: @escaping Migration,
    run: @escaping Run
  ) {
    self.name = name
    self.version = version
    self.phases = phases
    self.initial = initial
    self.inputSchema = inputSchema
    self.migrates = migrates
    self.isDown = isDown
    self.migrate = migrate
    self.run = run
  }
}

/// One run of a phase of a task whose code lives outside.
package struct ExternalTaskCall: ContributionPort {
  package var record: TaskRecord
  /// The phase; absent for the abort handler.
  package var phase: String?
  package var operations: any CallOperations
  private let reason: @Sendable () -> CancelReason?
  private let above: @Sendable () async throws -> Set<TaskID>

  package init(
    record: TaskRecord,
    phase: String?,
    operations: any CallOperations,
    reason: @escaping @Sendable () -> CancelReason?,
    above: @escaping @Sendable () async throws -> Set<TaskID>
  ) {
    self.record = record
    self.phase = phase
    self.operations = operations
    self.reason = reason
    self.above = above
  }

  package var cancelReason: CancelReason? { reason() }

  package func tasksAbove() async throws -> Set<TaskID> { try await above() }
}

/// Why the code of a task failed, as its outcome says it.
package struct TaskFault: Error, Sendable {
  package var message: String
  package var detail: JSON?

  package init(_ message: String, detail: JSON? = nil) {
    self.message = message
    self.detail = detail
  }
}
