package import PerdureValue

/// A kind of durable task whose code lives outside, and may take its time for everything.
package struct ExternalTask: TaskContribution {
  /// Where a new task begins.
  package enum Initial: Sendable {
    case constant(JSON)
    /// Asks the code, before the commit that creates the task.
    case asked(@Sendable (_ input: JSON) async throws -> JSON)
  }

  /// Runs a phase, or the abort handler; it commits through its call.
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
  package var migrate: Migration
  /// How long one phase may work, without the time in which it waits for the host.
  package var deadline: Duration
  package var abortDeadline: Duration
  package var run: Run

  package init(
    name: String,
    version: Int64,
    phases: [String],
    initial: Initial,
    inputSchema: JSON?,
    migrates: [Int64],
    deadline: Duration,
    abortDeadline: Duration,
    migrate: @escaping Migration,
    run: @escaping Run
  ) {
    self.name = name
    self.version = version
    self.phases = phases
    self.initial = initial
    self.inputSchema = inputSchema
    self.migrates = migrates
    self.deadline = deadline
    self.abortDeadline = abortDeadline
    self.migrate = migrate
    self.run = run
  }
}

/// One run of a phase of a task whose code lives outside.
package struct ExternalTaskCall: Sendable {
  package var record: TaskRecord
  /// The phase; absent for the abort handler.
  package var phase: String?
  /// When it is cancelled, on the host's monotonic clock, in nanoseconds.
  package var deadline: Int64
  package var operations: any CallOperations
  /// Why it is being cancelled, or `nil`.
  package var cancelReason: @Sendable () -> CancelReason?

  package init(
    record: TaskRecord,
    phase: String?,
    deadline: Int64,
    operations: any CallOperations,
    cancelReason: @escaping @Sendable () -> CancelReason?
  ) {
    self.record = record
    self.phase = phase
    self.deadline = deadline
    self.operations = operations
    self.cancelReason = cancelReason
  }
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
