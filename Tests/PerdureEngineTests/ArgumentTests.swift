import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

@Suite struct ArgumentTests {
  private static let parameters: JSON = [
    "type": "object",
    "properties": [
      "count": ["type": "integer"], "name": ["type": "string"], "deep": ["type": "boolean"],
      "either": ["anyOf": [["type": "integer"], ["type": "null"]]],
    ],
    "required": ["count"],
  ]

  /// A tool that says with which arguments it was called.
  private static func telling(
    preparing prepare: Tool.Prepare? = nil,
    structured schema: JSON? = nil,
    _ result: ToolResult? = nil
  ) -> Tool {
    Tool(
      name: "tell",
      description: "",
      parameters: parameters,
      preparingArguments: prepare,
      structuredOutputSchema: schema
    ) { call in result ?? .text(call.arguments.compactText) }
  }

  private func result(
    _ tool: Tool,
    _ arguments: JSON,
    _ bench: TestBench = TestBench()
  ) async throws -> JSON? {
    let engine = try await bench.open(
      calling((id: "1", name: "tell", arguments: arguments)),
      tools: [tool]
    )
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine)
    let result = try await TestBench.results(engine).first
    try await bench.end(engine)
    return result
  }

  static let coercions: [(given: JSON, called: JSON?)] = [
    (["count": 5], ["count": 5]), (["count": "5"], ["count": 5]), (["count": true], ["count": 1]),
    (["count": 5, "name": 7], ["count": 5, "name": "7"]),
    (["count": 5, "deep": "true"], ["count": 5, "deep": true]),
    (["count": 5, "name": .null], ["count": 5]), (["count": .null], ["count": 0]),
    (["count": 5, "either": .null], ["count": 5, "either": .null]),
    (["count": 5, "either": "6"], ["count": 5, "either": 6]), (["count": "many"], nil), ([:], nil),
    (["count": [1]], nil), (["count": ["a": 1]], nil),
  ]

  @Test(arguments: 0..<coercions.count)
  func `small mistakes in arguments are repaired and great ones refused`(
    _ index: Int
  ) async throws {
    let (given, called) = Self.coercions[index]
    let result = try await result(Self.telling(), given)
    if let called {
      #expect(result?.contentText == called.compactText)
    } else {
      #expect(result?["isError"] == true)
      #expect(result?.contentText.contains("received \(given.compactText)") == true)
    }
  }

  @Test func `a tool repairs its arguments before they are checked`() async throws {
    let tool = Self.telling(preparing: { arguments in ["count": arguments["number"] ?? .null] })
    #expect(try await result(tool, ["number": "4"])?.contentText == #"{"count":4}"#)
  }

  @Test func `arguments that a tool cannot repair are invalid`() async throws {
    let result = try await result(Self.telling(preparing: { _ in throw HookFault() }), [:])
    #expect(result?.contentText.contains("the arguments are invalid: the hook broke") == true)
  }

  // MARK: What results carry for programs

  static let outputs: [(schema: JSON?, result: ToolResult, words: String?)] = [
    (nil, .text("ok"), nil),
    (nil, ToolResult(structuredOutput: 5), "has no schema"),
    (["type": "integer"], ToolResult(structuredOutput: 5), nil),
    (["type": "integer"], ToolResult(structuredOutput: "5"), "does not fit its schema"),
    (["type": "integer"], .text("ok"), "gave no structured output"),
    (["type": "integer"], ToolResult(isError: true), nil),
    (["type": "integer"], ToolResult(structuredOutput: "5", isError: true), "does not fit"),
  ]

  @Test(arguments: 0..<outputs.count)
  func `structured output that breaks its word is reported and the result stands`(
    _ index: Int
  ) async throws {
    let (schema, given, words) = Self.outputs[index]
    let bench = TestBench()
    let result = try await result(
      Self.telling(structured: schema, given),
      ["count": 1],
      bench
    )
    #expect(result?["isError"] == .bool(given.isError))
    #expect(bench.reports.all.count == (words == nil ? 0 : 1))
    if let words {
      #expect(bench.reports.all.first?.message.contains(words) == true)
      #expect(bench.reports.all.first?.extensionName == "test")
    }
  }

  @Test func `a declaration holds nothing of an application but how it is sampled`() async throws {
    let model = ScriptedModel { _ in ScriptedModel.text("hello") }
    let tool = Tool(
      name: "t",
      description: "d",
      parameters: ["type": "object"],
      replay: .safe,
      structuredOutputSchema: true,
      constrainedSampling: ["grammar": "g"]
    ) { _ in .text("") }
    let bench = TestBench()
    let engine = try await bench.open(model, tools: [tool])
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine)
    let offered = PromptState(replaying: model.seen[0].messages).tools.map(\.compactText)
    let wanted: JSON = [
      "name": "t", "description": "d", "parameters": ["type": "object"],
      "constrainedSampling": ["grammar": "g"],
    ]
    #expect(offered == [wanted.compactText])
    try await bench.end(engine)
  }
}
