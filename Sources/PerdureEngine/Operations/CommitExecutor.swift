import PerdureModel
import PerdureValue
import Synchronization

/// Runs the steps of one commit of a call: what takes time before the line, the rest on it.
struct CommitExecutor {
  let operations: EngineOperations
  let request: CommitRequest

  /// What was found out before the line was taken.
  struct Prepared: Sendable {
    /// The checkpoints of new tasks by the number of their step.
    var checkpoints: [Int: JSON] = [:]
    var migrations = PreparedMigrations()
  }

  /// How often a document may change under a migration before the commit is given up.
  private static let rounds = 3

  /// Writes all of it or nothing, and returns when it is on disk.
  func run(_ tracking: TrackedReads?) async throws -> CommitReceipt {
    var prepared = Prepared()
    try await prepareTasks(&prepared)
    while true {
      do {
        return try await attempt(prepared, tracking)
      } catch let refused as StepFailure {
        guard let need = refused.cause as? NeedsMigration else { throw refused.refusal }
        try await migrate(need, refused.step, &prepared)
      }
    }
  }

  // MARK: Before the line

  private func prepareTasks(_ prepared: inout Prepared) async throws {
    for (index, step) in request.steps.enumerated() {
      guard case .createTask(let task) = step.action else { continue }
      guard let definition = operations.scheduler.definition(task.type)?.definition else {
        throw CallRefusal(
          .notFound,
          "there is no task type '\(task.type.string)'",
          step: index
        )
      }
      guard let external = definition.external else { continue }
      if let schema = external.inputSchema { try check(task.input, schema, task.type, index) }
      guard task.checkpoint == nil, case .asked(let initial) = external.initial else { continue }
      do {
        prepared.checkpoints[index] = try await initial(task.input)
      } catch {
        throw CallRefusal(
          .initialFailed,
          "the task type '\(task.type.string)' gave no checkpoint: \(Failure.describe(error))",
          step: index
        )
      }
    }
  }

  private func check(
    _ input: JSON,
    _ schema: JSON,
    _ type: JSONString,
    _ index: Int
  ) throws {
    let problem: String?
    do {
      problem = try JSONSchema(compiling: schema).validate(input).first.map { "\($0)" }
    } catch {
      problem = "its schema makes no sense: \(error)"
    }
    if let problem {
      throw CallRefusal(
        .invalidArguments,
        "the input of a task '\(type.string)' does not fit: \(problem)",
        step: index
      )
    }
  }

  private func migrate(
    _ need: NeedsMigration,
    _ index: Int?,
    _ prepared: inout Prepared
  ) async throws {
    let declaration = request.steps.lazy.compactMap { step -> DocumentDeclaration? in
      switch step.action {
      case .document(let declaration, _, _, _, _), .retire(let declaration, _, _):
        declaration.kind == need.kind ? declaration : nil
      default: nil
      }
    }.first
    let what = "document '\(need.kind.string)'"
    guard let declaration, declaration.migrates.contains(need.version) else {
      throw CallRefusal(
        .migrationFailed,
        "\(what) has version \(need.version), from which nothing leads to the declared one",
        step: index
      )
    }
    guard prepared.migrations.count(of: need) < Self.rounds else {
      throw CallRefusal(.limit, "\(what) changes while it is migrated", step: index)
    }
    do {
      let value = try await declaration.migrate(need.key, need.version, need.value)
      prepared.migrations.add(need, value)
    } catch {
      throw CallRefusal(
        .migrationFailed,
        "\(what) cannot be migrated: \(Failure.describe(error))",
        step: index
      )
    }
  }

  // MARK: On the line

  private func attempt(
    _ prepared: Prepared,
    _ tracking: TrackedReads?
  ) async throws -> CommitReceipt {
    let session = operations.session
    let (receipt, publication) = try await session.stage(
      conversation: operations.conversationId,
      task: operations.taskId
    ) { tx -> CommitReceipt in
      // Asked once; from here on the commit is made.
      if Task.isCancelled { throw PerdureError(.cancelled, "the commit was cancelled") }
      let record = try admitted()
      if tracking?.isTouched == true {
        throw CallRefusal(.conflict, "what was read for the commit has changed")
      }
      var steps = CommitSteps(tx: tx, operations: operations, prepared: prepared)
      try await steps.run(request.steps)
      if let state = request.state, let record { try await steps.advance(record, to: state) }
      return CommitReceipt(
        sequence: nil,
        ids: steps.ids,
        task: operations.taskId.flatMap { tx.tasks[$0] } ?? record
      )
    }
    var result = receipt
    result.sequence = publication?.sequence
    if let publication {
      try await session.store.flush(through: publication.sequence)
    } else {
      try await session.barrier()
    }
    return result
  }

  /// The record of the task, as long as its code may write; says why it may not.
  private func admitted() throws -> TaskRecord? {
    try operations.scope.check()
    guard let runtime = operations.runtime else { return nil }
    do {
      return try runtime.admittedRecord()
    } catch {
      if runtime.scheduler.isClosing { throw CallRefusal(.closing, "the host is closing") }
      let record = operations.session.liveTask(runtime.taskId)
      guard !runtime.signal.hasEnded, record?.abortRequested == true, runtime.mode == .run else {
        throw CallRefusal(.ended, "task \(runtime.taskId) no longer runs")
      }
      throw CallRefusal(.aborting, "task \(runtime.taskId) is to be aborted")
    }
  }
}

/// A step that failed, and why.
struct StepFailure: Error {
  var step: Int?
  var cause: any Error

  /// What whoever asked is told.
  var refusal: any Error {
    if var refusal = cause as? CallRefusal {
      refusal.step = refusal.step ?? step
      return refusal
    }
    guard let reason else { return cause }
    let message = (cause as? PerdureError)?.message ?? "\(cause)"
    return CallRefusal(reason, message, step: step)
  }

  private var reason: CallRefusal.Reason? {
    if cause is OperationError { return .unresolvablePath }
    guard let error = cause as? PerdureError else { return nil }
    return switch error.code {
    case .notFound: .notFound
    case .invalidBatch: error.details?["reason"] == "owner" ? .owner : .shape
    case .invalidInput, .documentMismatch, .invalidRequest: .shape
    case .unsupportedFeature: .migrationFailed
    case .readAfterWrite: .readAfterWrite
    case .conversationDeleted, .conversationArchived: .notFound
    case .initialFailed: .initialFailed
    default: nil
    }
  }
}

extension PerdureError.Code {
  fileprivate static let initialFailed: Self = "initial_failed"
}
