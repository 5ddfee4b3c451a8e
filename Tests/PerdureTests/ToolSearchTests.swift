import Perdure
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// The extension that finds deferred tools (26.6).
@Suite(.timeLimit(.minutes(5))) struct ToolSearchTests {
  private static func tool(
    _ name: String,
    _ description: String,
    parameters: JSON = ["type": "object"]
  ) -> Tool {
    Tool(name: name, description: description, parameters: parameters, isDeferred: true) { _ in
      .text("ran \(name)")
    }
  }

  private static let tools = [
    tool("send_mail", "Sends a letter to somebody."),
    tool("listIssues", "Shows what is open in a repository."),
    tool(
      "weather",
      "Tells how it is outside.",
      parameters: [
        "type": "object",
        "properties": [
          "city": ["type": "string", "description": "Where, for instance Oslo."],
          "days": [
            "type": "array", "items": ["type": "string", "description": "A forecast date."],
          ],
        ],
      ]
    ),
    tool("send_fax", "Sends a letter to somebody."),
  ]

  /// Searches once and returns the result.
  private func search(_ arguments: JSON) async throws -> JSON {
    let model = ScriptedModel { request in
      guard ScriptedModel.turn(of: request) == 0 else { return ScriptedModel.text("done") }
      return ScriptedModel.calls(("c1", "tool_search", arguments))
    }
    let harness = try await Harness.open(
      .memory,
      models: model,
      extensions: [.toolSearch, Extension(name: "app", tools: Self.tools)]
    )
    let root = try await harness.root()
    try await root.configure(.init(model: ScriptedModel.reference))
    _ = try await root.submit("go").answer()
    let entries = try await root.view().entries
    try await harness.close()
    let result = entries.first { $0.kind == "pi.tool-result" }?.model?.first
    return try #require(result)
  }

  @Test(arguments: [
    ("mail", ["send_mail"]), ("LETTERS", ["send_mail", "send_fax"]), ("issue", ["listIssues"]),
    ("list", ["listIssues"]), ("oslo", ["weather"]), ("city", ["weather"]),
    ("forecasts", ["weather"]), ("fax letter", ["send_fax", "send_mail"]), ("nothing", []),
  ])
  func `a query finds tools by name, description and parameters, the best first`(
    _ query: String,
    _ names: [String]
  ) async throws {
    let result = try await search(["query": .string(query)])
    #expect(result["details"]?["loaded"] == .array(names.map { .string($0) }))
    #expect(result["isError"] == false)
  }

  @Test func `a limit keeps only the best`() async throws {
    let result = try await search(["query": "letter", "limit": 1])
    #expect(result["details"]?["loaded"] == ["send_mail"])
  }

  @Test(
    arguments: [
      ["query": ""], ["query": "the of"], ["query": "mail", "limit": 0],
      ["query": "mail", "limit": .double(1.5)],
    ] as [JSON]
  )
  func `a query without words and a limit that is none are refused`(
    _ arguments: JSON
  ) async throws {
    let result = try await search(arguments)
    #expect(result["isError"] == true)
  }

  @Test func `the next request offers what was found, and it can be called`() async throws {
    let model = ScriptedModel { request in
      switch ScriptedModel.turn(of: request) {
      case 0: ScriptedModel.calls(("c1", "weather", [:]), ("c2", "tool_search", ["query": "city"]))
      case 1: ScriptedModel.calls(("c3", "weather", [:]))
      default: ScriptedModel.text("done")
      }
    }
    let harness = try await Harness.open(
      .memory,
      models: model,
      extensions: [.toolSearch, Extension(name: "app", tools: Self.tools)]
    )
    let root = try await harness.root()
    try await root.configure(.init(model: ScriptedModel.reference))
    _ = try await root.submit("go").answer()
    let results = try await root.view().entries.filter { $0.kind == "pi.tool-result" }
      .compactMap { $0.model?.first }
    let byCall = Dictionary(uniqueKeysWithValues: results.map { ($0["toolCallId"]?.text, $0) })
    #expect(byCall["c1"]?["isError"] == true)
    #expect(byCall["c3"]?["content"]?.array?.first?["text"] == "ran weather")
    #expect(try await root.agent["modelTools"]?["add"] == ["weather"])
    try await harness.close()
  }
}
