import PerdureModel
import PerdureValue

/// The points of the task `pi.generation`.
struct GenerationHooks {
  let phase: PhaseAgent

  /// What becomes of a request.
  enum RequestVerdict {
    /// These messages are sent.
    case send([JSON])
    case refuse(String)
  }

  /// Asks the hooks `beforeRequest`; each sees the messages as those before it left them.
  func beforeRequest(_ request: PendingRequest) async throws -> RequestVerdict {
    let chain = try await HookChain(phase, .beforeRequest)
    if chain.hooks.isEmpty { return .send(request.messages) }
    var request = request
    var isChanged = false
    for installed in chain.hooks {
      guard case .beforeRequest(let body) = installed.hook.handler else { continue }
      let shown = request
      let verdict = try await chain.call(installed) {
        try await body(shown, $0)
      } misuse: {
        Self.misuse($0, installed.hook)
      }
      switch verdict {
      case .nothing, .answer(.proceed): break
      case .answer(.change(let messages)):
        request.messages = messages
        isChanged = true
      case .answer(.refuse(let reason)), .deny(let reason): return .refuse(reason)
      }
    }
    // Whatever hooks did: behind each call stands exactly one result.
    return .send(isChanged ? Self.repaired(request.messages) : request.messages)
  }

  private static func misuse(_ decision: RequestDecision, _ hook: Hook) -> String? {
    switch decision {
    case .proceed: nil
    case .change(let messages):
      HookChain.misuse(hook, changes: true) ?? HandedOver.misuse(messages: messages)
    case .refuse: HookChain.misuse(hook, denies: true)
    }
  }

  private static func repaired(_ messages: [JSON]) -> [JSON] {
    var order = MessageOrder()
    for message in messages {
      order.append(message, role: MessageRole(message), isBaseline: false)
    }
    return order.messages()
  }

  /// Tells the hooks `afterResponse` of an answer.
  func afterResponse(_ message: JSON) async throws {
    let chain = try await HookChain(phase, .afterResponse)
    for installed in chain.hooks {
      guard case .afterResponse(let body) = installed.hook.handler else { continue }
      _ = try await chain.call(installed) {
        try await body(message, $0)
      } misuse: { _ in
        nil
      }
    }
  }

  /// Asks the hooks `onYield` whether the run goes on; returns the user content of the first that
  /// wants it.
  func onYield(_ message: JSON) async throws -> JSON? {
    let chain = try await HookChain(phase, .onYield)
    for installed in chain.hooks {
      guard case .onYield(let body) = installed.hook.handler else { continue }
      let verdict = try await chain.call(installed) {
        try await body(message, $0)
      } misuse: {
        $0.flatMap { HandedOver.misuse(content: $0) }
      }
      if case .answer(let continuation?) = verdict { return continuation }
    }
    return nil
  }

  /// Tells the hooks `afterTools` of a finished round; `results` reads its result entries.
  func afterTools(
    _ assistant: EntryID,
    _ results: () async throws -> [EntryID]
  ) async throws {
    let chain = try await HookChain(phase, .afterTools)
    if chain.hooks.isEmpty { return }
    let results = try await results()
    for installed in chain.hooks {
      guard case .afterTools(let body) = installed.hook.handler else { continue }
      _ = try await chain.call(installed) {
        try await body(assistant, results, $0)
      } misuse: { _ in
        nil
      }
    }
  }
}
