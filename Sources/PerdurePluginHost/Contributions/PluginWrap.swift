import PerdureModel
import PerdureValue

/// One wrap of a plugin around a tool, as the engine applies it.
final class PluginWrap: Sendable {
  let caller: ContributionCaller
  let wrap: ManifestWrap
  /// Whether what cannot be done by this plugin must not be done at all.
  let failsClosed: @Sendable () -> Bool
  private let schemas = SchemaCache()

  init(
    _ wrap: ManifestWrap,
    _ caller: ContributionCaller,
    failsClosed: @escaping @Sendable () -> Bool
  ) {
    self.wrap = wrap
    self.caller = caller
    self.failsClosed = failsClosed
  }

  /// Puts the wrap around a tool.
  func wrapping(_ tool: Tool) -> Tool {
    var made = tool
    if let override = wrap.override { override.apply(to: &made) }
    // Both the wrap and the tool are watched here; this bounds all of it.
    made.deadline = .nanoseconds(caller.times.whole)
    made.grace = max(tool.grace, .nanoseconds(caller.times.grace))
    made.execute = { try await self.run($0, tool) }
    return made
  }

  private func run(_ call: ToolCall, _ tool: Tool) async throws -> ToolResult {
    let inner = InnerCall(
      .tool(InnerTool(tool, call, schemas, caller.core.environment.clock))
    )
    let place = CallPlace(task: call.taskId, tool: call, inner: inner)
    do {
      let input = ContributionMessage.wrappedCall(caller.core, call, tool)
      let outcome = try await caller.outcome(input, place)
      await inner.end()
      guard case .tool(let result) = outcome else { return ToolResult() }
      return result
    } catch {
      await inner.end()
      // What a cancelled call says or does not say is no news.
      if Task.isCancelled { throw error }
      return try await fallBack(error, inner)
    }
  }

  /// Runs the tool without the wrap if that is allowed.
  private func fallBack(_ error: any Error, _ inner: InnerCall) async throws -> ToolResult {
    guard wrap.role == .observer, !inner.wasCalled, !failsClosed() else {
      guard (error as? PerdureError)?.code == .pluginDown else { throw error }
      throw PerdureError(
        "blocked",
        "the call was blocked: guard \(caller.core.id) failed: \(Self.text(of: error))"
      )
    }
    caller.core.reportFailure(of: caller.label, error)
    do { return try await inner.tool() } catch let problem as OperationProblem {
      throw PerdureError("tool_error", problem.message)
    }
  }

  private static func text(of error: any Error) -> String {
    (error as? PerdureError)?.description ?? "\(error)"
  }
}

extension PluginCore {
  /// Reports that a contribution failed and that things went on without it.
  func reportFailure(of label: String, _ error: any Error) {
    let text = (error as? PerdureError)?.description ?? "\(error)"
    environment.report(
      Report(
        type: "extension_error",
        message: "the observing \(label) of \(id) failed: \(text)",
        extensionName: id
      )
    )
  }
}
