import Perdure
import PerdureModel
import PerdureTestKit
import PerdureValue

/// What calls come to that a model makes one after the other in one conversation.
struct ToolResults {
  /// The messages of the results, without times.
  private(set) var messages: [JSON] = []
  /// What the agent says of its tools afterwards.
  private(set) var modelTools: JSON = .null

  init(
    of calls: [(tool: String, arguments: JSON)],
    by extensions: [Extension],
    in environment: EnvironmentChoice? = nil
  ) async throws {
    let model = ScriptedModel { request in
      let turn = ScriptedModel.turn(of: request)
      guard turn < calls.count else { return ScriptedModel.text("done") }
      return ScriptedModel.calls(("c\(turn)", calls[turn].tool, calls[turn].arguments))
    }
    let harness = try await Harness.open(
      .memory,
      models: model,
      extensions: extensions,
      environment: environment
    )
    let root = try await harness.root()
    try await root.configure(.init(model: ScriptedModel.reference))
    _ = try await root.submit("go").answer()
    for entry in try await root.view().entries where entry.kind == "pi.tool-result" {
      var message = entry.model?.first?.object ?? [:]
      for key in ["timestamp", "durationMs"] as [JSONString] { message[key] = nil }
      messages.append(.object(message))
    }
    modelTools = try await root.agent["modelTools"] ?? .null
    try await harness.close()
  }
}
