import PerdureModel
import PerdureValue

/// One execution of a task's code in this process; nothing of it is stored.
final class Invocation: Sendable {
  let mode: TaskRuntime.Mode
  let signal = InvocationSignal()
  private let record: TaskRecord
  private let definition: TaskDefinition
  private let extensionName: String?
  private let scheduler: Scheduler

  private enum Step {
    case end
    case phase(TaskRecord)
  }

  init(
    record: TaskRecord,
    definition: TaskDefinition,
    extensionName: String?,
    mode: TaskRuntime.Mode,
    scheduler: Scheduler
  ) {
    self.record = record
    self.definition = definition
    self.extensionName = extensionName
    self.mode = mode
    self.scheduler = scheduler
  }

  /// Starts the code.
  ///
  /// The scheduler owns the task: it cancels it on abort and joins it at close.
  func start() {
    signal.attach(Task.detached { [self] in await run() })
  }

  /// Ends it before it began, because the commit that reserved it came to nothing.
  func abandon() async {
    signal.end()
    await scheduler.invocationEnded(record.id)
  }

  /// Returns when the code has ended.
  func join() async { await signal.joined() }

  private func run() async {
    do {
      try await runPhases()
    } catch {
      scheduler.commitFailed(error)
    }
    signal.end()
    await scheduler.invocationEnded(record.id)
  }

  private func runPhases() async throws {
    var previous: JSON?
    var failure: (any Error)?
    // The definition that could not take over, so that it is reported once.
    var refused: DefinitionIdentity?
    while case .phase(let current) = try await step(after: previous, failure, &refused) {
      previous = current.state.checkpoint
      failure = nil
      // A phase keeps the registry that it began with.
      let runtime = TaskRuntime(
        record: record,
        mode: mode,
        signal: signal,
        surroundings: scheduler.surroundings,
        scheduler: scheduler,
        extensionName: extensionName
      )
      do {
        try await handler(for: current)(runtime, current)
      } catch {
        failure = error
      }
    }
  }

  private func handler(for current: TaskRecord) throws -> TaskDefinition.Phase {
    if mode == .abort { return definition.abort }
    let phase = current.state.checkpoint?["phase"]?.string
    guard let phase, let handler = definition.phases[phase] else {
      throw PerdureError(
        .storeCorrupt,
        "task \(current.id) has the unknown phase '\(phase?.string ?? "")'"
      )
    }
    return handler
  }

  /// Decides on the line, from the staged record, whether and with what the code goes on.
  private func step(
    after previous: JSON?,
    _ failure: (any Error)?,
    _ refused: inout DefinitionIdentity?
  ) async throws -> Step {
    if previous == nil, failure == nil { return await firstStep() }
    if let failure, case .process? = Self.cut(failure) { await backOff() }
    var fault: String?
    var detail: JSON?
    var outdated: Outdated?
    let (step, _) = try await scheduler.session.stage { tx -> Step in
      guard let current = scheduler.session.liveTask(record.id),
        case .running(let checkpoint) = current.state, !scheduler.isClosing,
        mode == .abort || !current.abortRequested
      else { return .end }
      if mode == .run, !current.background,
        try await scheduler.cancellingTask(above: current) != nil
      {
        // Its own mark is about to be written.
        return .end
      }
      if let failure {
        // A cancelled handler may throw anything; the abort or the reopening decides then.
        if signal.reason != nil { return .end }
        if let cut = Self.cut(failure) {
          try await tx.replace(Self.cutOff(current, checkpoint, cut))
          return .end
        }
        fault = Self.describe(failure)
        detail = (failure as? TaskFault)?.detail
      } else if mode == .abort {
        fault = "the abort handler committed no outcome"
      } else if checkpoint != previous {
        outdated = outdatedDefinition(for: current)
        if case .handOver = outdated {
          var handed = current
          handed.state = .pending(checkpoint: checkpoint)
          try await tx.replace(handed)
          return .end
        }
        return .phase(current)
      } else {
        fault = "no durable progress"
      }
      try await scheduler.end(current, .faulted(message: fault ?? "", detail: detail), tx)
      return .end
    }
    if case .keep(let identity, let reason) = outdated {
      if refused !== identity { report(outdated: reason) }
      refused = identity
    }
    if let fault {
      // Told only after it is durable, so that nobody hears of a fault that a crash takes back.
      try await scheduler.session.barrier()
      report("task_faulted", fault)
    }
    return step
  }

  /// What else than the code can have failed.
  private enum Cut {
    /// The process that ran the code is gone.
    case process
    /// There was nobody to run the code: nothing of it has happened.
    case absence
  }

  private static func cut(_ failure: any Error) -> Cut? {
    switch (failure as? PerdureError)?.code {
    case .pluginFault: .process
    case .pluginDown: .absence
    default: nil
    }
  }

  private static let firstPause: Int64 = 100_000_000
  private static let longestPause: Int64 = 30_000_000_000

  /// Waits longer each time that the task is cut off in a row, and not at all the first time.
  private func backOff() async {
    let restarts = scheduler.session.liveTask(record.id)?.restarts ?? 0
    guard restarts > 0 else { return }
    let pause = Self.firstPause << min(Int64(restarts) - 1, 16)
    await scheduler.surroundings.clock.sleep(nanoseconds: min(pause, Self.longestPause))
  }

  /// What becomes of a task whose code was replaced.
  private enum Outdated {
    /// The new code goes on with it.
    case handOver
    /// The code that it has goes on with it, because the new one cannot.
    case keep(DefinitionIdentity, String)
  }

  // Stands for a definition that was uninstalled.
  private static let nothing = DefinitionIdentity()

  private func outdatedDefinition(for current: TaskRecord) -> Outdated? {
    guard let installed = scheduler.definition(current.kind)?.definition else {
      return .keep(Self.nothing, "missing_task")
    }
    if installed.identity === definition.identity { return nil }
    return installed.canTake(current)
      ? .handOver : .keep(installed.identity, "incompatible_task")
  }

  private func firstStep() async -> Step {
    guard let current = scheduler.session.liveTask(record.id),
      current.state.status == .running, !scheduler.isClosing,
      mode == .abort || !current.abortRequested
    else { return .end }
    return .phase(current)
  }

  private func report(outdated reason: String) {
    report("task_outdated", "goes on with its old code (\(reason))")
  }

  private func report(_ type: String, _ message: String) {
    scheduler.surroundings.report(
      Report(
        type: type,
        message: "task \(record.id) (\(record.kind.string)): \(message)",
        task: record.id,
        extensionName: extensionName
      )
    )
  }

  /// A task whose code was torn away, as a crash of the host would leave it; one that was never begun
  /// is not counted.
  private static func cutOff(
    _ current: TaskRecord,
    _ checkpoint: JSON,
    _ cut: Cut
  ) -> TaskRecord {
    var record = current
    record.state = .pending(checkpoint: checkpoint)
    if case .process = cut {
      record.restarts = max(current.restarts ?? 0, 0).addingSaturated(1)
    }
    return record
  }

  static func describe(_ error: any Error) -> String {
    (error as? TaskFault)?.message ?? (error as? PerdureError)?.description ?? "\(error)"
  }
}
