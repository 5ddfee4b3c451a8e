import PerdureModel
import PerdureValue
import Synchronization

/// The agent of one phase of a task: resolved when it is first needed, then the same to its end.
///
/// Its hooks, wraps and tools are those that were installed then, whatever is installed later.
final class PhaseAgent: Sendable {
  let runtime: TaskRuntime
  private let resolved = Mutex<Agent?>(nil)

  init(_ runtime: TaskRuntime) { self.runtime = runtime }

  /// Whether anything has needed it yet.
  var isResolved: Bool { resolved.withLock { $0 != nil } }

  func get() async throws -> Agent {
    if let agent = resolved.withLock({ $0 }) { return agent }
    let agent = try await runtime.agent()
    return resolved.withLock { resolved in
      if let first = resolved { return first }
      resolved = agent
      runtime.report(agent.problems)
      return agent
    }
  }
}

extension TaskRuntime {
  /// Tells the host of problems; those that last, once.
  func report(_ problems: [Agent.Problem]) {
    for problem in problems
    where !problem.isLasting || surroundings.registry.tellsFirst(problem.message) {
      surroundings.report(
        Report(
          type: "extension_error",
          message: "conversation \(conversationId): \(problem.message)",
          task: taskId,
          extensionName: problem.extensionName
        )
      )
    }
  }
}
