import PerdureModel
import PerdureValue

/// One execution of a task's code in this process; nothing of it is stored.
final class Invocation: Sendable {
  let mode: TaskRuntime.Mode
  let signal = InvocationSignal()
  private let record: TaskRecord
  private let definition: TaskDefinition
  private let scheduler: Scheduler

  private enum Step {
    case end
    case phase(TaskRecord)
  }

  init(
    record: TaskRecord,
    definition: TaskDefinition,
    mode: TaskRuntime.Mode,
    scheduler: Scheduler
  ) {
    self.record = record
    self.definition = definition
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
    let runtime = TaskRuntime(
      record: record,
      mode: mode,
      signal: signal,
      surroundings: scheduler.surroundings,
      scheduler: scheduler
    )
    do {
      try await runPhases(runtime)
    } catch {
      scheduler.commitFailed(error)
    }
    signal.end()
    await scheduler.invocationEnded(record.id)
  }

  private func runPhases(_ runtime: TaskRuntime) async throws {
    var previous: JSON?
    var failure: (any Error)?
    while case .phase(let current) = try await step(after: previous, failure) {
      previous = current.state.checkpoint
      failure = nil
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
  private func step(after previous: JSON?, _ failure: (any Error)?) async throws -> Step {
    if previous == nil, failure == nil { return await firstStep() }
    var fault: String?
    let (step, _) = try await scheduler.session.stage { tx -> Step in
      guard let current = scheduler.session.liveTask(record.id),
        case .running(let checkpoint) = current.state, !scheduler.isClosing,
        mode == .abort || !current.abortRequested
      else { return .end }
      if let failure {
        // A cancelled handler may throw anything; the abort or the reopening decides then.
        if signal.reason != nil { return .end }
        fault = Self.describe(failure)
      } else if mode == .abort {
        fault = "the abort handler committed no outcome"
      } else if checkpoint != previous {
        return .phase(current)
      } else {
        fault = "no durable progress"
      }
      try await scheduler.end(current, .faulted(message: fault ?? ""), tx)
      return .end
    }
    if let fault {
      // Told only after it is durable, so that nobody hears of a fault that a crash takes back.
      try await scheduler.session.barrier()
      scheduler.surroundings.report(
        Report(type: "task_faulted", message: "task \(record.id): \(fault)", task: record.id)
      )
    }
    return step
  }

  private func firstStep() async -> Step {
    guard let current = scheduler.session.liveTask(record.id),
      current.state.status == .running, !scheduler.isClosing,
      mode == .abort || !current.abortRequested
    else { return .end }
    return .phase(current)
  }

  private static func describe(_ error: any Error) -> String {
    (error as? PerdureError)?.description ?? "\(error)"
  }
}
