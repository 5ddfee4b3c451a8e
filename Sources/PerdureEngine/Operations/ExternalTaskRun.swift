import PerdureModel
import PerdureValue

/// Runs a phase of a task whose code lives outside, which keeps its own time.
struct ExternalTaskRun: Sendable {
  let task: ExternalTask
  let runtime: TaskRuntime
  let record: TaskRecord

  func run() async throws {
    let scope = InvocationScope()
    defer { scope.end() }
    let isAborting = runtime.mode == .abort
    try await task.run(
      ExternalTaskCall(
        record: record,
        phase: isAborting ? nil : record.state.checkpoint?["phase"]?.text,
        operations: EngineOperations(PhaseAgent(runtime), scope),
        reason: { [runtime] in runtime.signal.reason },
        above: { [runtime] in try await runtime.tasksAbove() }
      )
    )
  }
}

extension TaskDefinition {
  /// Makes the definition of a task whose code lives outside.
  init(_ task: ExternalTask) {
    let run: Phase = { runtime, record in
      try await ExternalTaskRun(task: task, runtime: runtime, record: record).run()
    }
    self.init(
      name: JSONString(task.name),
      version: task.version,
      initial: { _ in
        guard case .constant(let checkpoint) = task.initial else {
          throw PerdureError(
            "initial_failed",
            "a task '\(task.name)' can only be created by those who can ask its code first"
          )
        }
        return checkpoint
      },
      phases: Dictionary(
        task.phases.map { (JSONString($0), run) },
        uniquingKeysWith: { first, _ in first }
      ),
      abort: run,
      migrate: nil,
      settle: { _, _, _ in }
    )
    external = task
  }
}
