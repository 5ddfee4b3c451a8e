package import PerdureModel
import PerdureValue

/// The durable side of a running call: commits, tasks, documents and conversations.
///
/// All of it throws `invocationEnded` once the call is over.
package struct ToolInvocation: ToolCallInvocation {
  let phase: PhaseAgent
  package let replay: ReplayPolicy
  let running: RunningCall

  package var runtime: TaskRuntime { phase.runtime }

  /// What ends with the call.
  package var scope: InvocationScope { running.scope }

  /// Returns the agent with whose tools and hooks the call is made.
  package func agent() async throws -> Agent { try await phase.get() }
}

extension Agent {
  /// The tool that a call names: one that the model is offered, or one that tools may call.
  func tool(for call: RequestedCall) -> InstalledTool? {
    if call.nested == nil { return tool(call.name) }
    return callable.first { JSONString($0.tool.name) == call.name }
  }
}
