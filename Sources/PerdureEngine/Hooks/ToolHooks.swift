import PerdureModel
import PerdureValue

/// The points of the task `pi.tool`.
struct ToolHooks {
  let phase: PhaseAgent

  /// What becomes of a call.
  enum CallVerdict: Sendable, Equatable {
    /// The call is made with these arguments, if they are valid.
    case allow(JSON)
    /// It is made with these arguments once all questions have been answered with yes.
    case ask([ApprovalQuestion], JSON)
    case deny(String)
  }

  /// Asks the hooks `beforeTool`; each sees the arguments as those before it left them.
  ///
  /// The first denial ends the chain; questions are collected.
  func beforeTool(_ call: HookedCall) async throws -> CallVerdict {
    let chain = try await HookChain(phase, .beforeTool, tool: call.name)
    var call = call
    var questions: [ApprovalQuestion] = []
    for installed in chain.hooks {
      guard case .beforeTool(let body) = installed.hook.handler else { continue }
      let shown = call
      let verdict = try await chain.call(installed) {
        try await body(shown, $0)
      } misuse: {
        Self.misuse($0, installed.hook)
      }
      switch verdict {
      case .nothing, .answer(.proceed): break
      case .answer(.change(let arguments)): call.arguments = arguments
      case .answer(.ask(let question)): questions.append(question)
      case .answer(.deny(let reason)), .deny(let reason): return .deny(reason)
      }
    }
    return questions.isEmpty ? .allow(call.arguments) : .ask(questions, call.arguments)
  }

  private static func misuse(_ decision: CallDecision, _ hook: Hook) -> String? {
    switch decision {
    case .proceed: nil
    case .change(let arguments):
      HookChain.misuse(hook, changes: true)
        ?? (arguments.object == nil ? "its arguments are no object" : nil)
    case .ask(let question):
      HookChain.misuse(hook, denies: true)
        ?? (question.key.isEmpty || question.title.isEmpty
          ? "its question has no key or no title" : nil)
    case .deny: HookChain.misuse(hook, denies: true)
    }
  }

  /// Shows a result to the hooks `afterTool`; each sees it as those before it left it.
  func afterTool(_ call: HookedCall, _ result: ToolResult) async throws -> ResultDecision {
    // What an unsafe tool answers while the host closes is written, so guards see that, too.
    let chain = try await HookChain(phase, .afterTool, tool: call.name, outlivesClosing: true)
    return try await replace(chain, call, result) { installed in
      if case .afterTool(let body) = installed.hook.handler { body } else { nil }
    }
  }

  /// Shows the result of an aborted call to the hooks `onAbort`; each sees it as those before it
  /// left it.
  func onAbort(
    _ call: HookedCall,
    _ result: () async throws -> ToolResult
  ) async throws -> ResultDecision {
    let chain = try await HookChain(phase, .onAbort, tool: call.name)
    if chain.hooks.isEmpty { return .proceed }
    return try await replace(chain, call, try await result()) { installed in
      if case .onAbort(let body) = installed.hook.handler { body } else { nil }
    }
  }

  private typealias Body =
    @Sendable (HookedCall, ToolResult, any HookContext) async throws ->
    ResultDecision

  private func replace(
    _ chain: HookChain,
    _ call: HookedCall,
    _ result: ToolResult,
    _ body: (InstalledHook) -> Body?
  ) async throws -> ResultDecision {
    var decision = ResultDecision.proceed
    var result = result
    for installed in chain.hooks {
      guard let body = body(installed) else { continue }
      let shown = result
      let verdict = try await chain.call(installed) {
        try await body(call, shown, $0)
      } misuse: {
        Self.misuse($0, installed.hook)
      }
      switch verdict {
      case .nothing, .answer(.proceed): break
      case .answer(.change(let changed)):
        result = changed
        decision = .change(changed)
      case .answer(.deny(let reason)), .deny(let reason): return .deny(reason)
      }
    }
    return decision
  }

  private static func misuse(_ decision: ResultDecision, _ hook: Hook) -> String? {
    switch decision {
    case .proceed: nil
    case .change(let result):
      HookChain.misuse(hook, changes: true) ?? HandedOver.misuse(result: result)
    case .deny: HookChain.misuse(hook, denies: true)
    }
  }
}
