package import PerdureModel
import PerdureValue

/// The durable side of a running call: commits, tasks, documents and conversations.
///
/// All of it throws `invocationEnded` once the call is over.
package struct ToolInvocation: ToolCallInvocation {
  package let runtime: TaskRuntime
  package let replay: ReplayPolicy
  let running: RunningCall

  /// What ends with the call.
  package var scope: InvocationScope { running.scope }
}

extension Agent {
  /// The tool that a call names: one that the model is offered, or one that tools may call.
  func tool(for call: RequestedCall) -> InstalledTool? {
    if call.nested == nil { return tool(call.name) }
    return callable.first { JSONString($0.tool.name) == call.name }
  }
}
