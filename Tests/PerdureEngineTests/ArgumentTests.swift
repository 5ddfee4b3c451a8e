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

  // MARK: Arguments that are no object

  /// What comes as arguments: text as it is streamed, or a value that the provider has read.
  static let notObjects: [(text: String, value: JSON?, words: String)] = [
    (#""text""#, nil, "expected an object; received \"text\""),
    ("[1,2]", nil, "expected an object; received [1,2]"),
    ("5", nil, "expected an object; received 5"), ("null", nil, "expected an object"),
    ("true", nil, "expected an object"), (#"{"count": "#, nil, "they are no JSON"),
    (#"{"count": 1} {"#, nil, "they are no JSON"), ("{count: 1}", nil, "they are no JSON"),
    ("\u{0}", nil, "they are no JSON"),
    (String(repeating: "[", count: 100_000), nil, "they are no JSON"),
    ("", "text", "expected an object"), ("", [1], "expected an object"),
    ("", 5, "expected an object"), ("", .null, "expected an object"),
    ("", false, "expected an object"),
  ]

  @Test(.timeLimit(.minutes(5)), arguments: 0..<notObjects.count)
  func `a call whose arguments are no object gets an error result and the run ends`(
    _ index: Int
  ) async throws {
    let (text, value, words) = Self.notObjects[index]
    let bench = TestBench()
    let model = ScriptedModel { request in
      guard ScriptedModel.turn(of: request) == 0 else { return ScriptedModel.text("done") }
      return [
        [
          .blockStart(index: 0, .toolCall(id: "a", name: "tell")), .delta(index: 0, text),
          .blockEnd(index: 0, arguments: value), .finished(.toolUse),
        ]
      ]
    }
    // Whatever the schema would let pass.
    let tool = Tool(name: "tell", description: "", parameters: true) { _ in .text("called") }
    let engine = try await bench.open(model, tools: [tool])
    _ = try await bench.start(engine)
    #expect(try await bench.ask(engine).status == .done)
    let result = try #require(try await TestBench.results(engine).first)
    #expect(result["isError"] == true)
    #expect(result.contentText.contains("the arguments are invalid: \(words)"))
    #expect(result.contentText.utf8.count < 20_000)
    let answer = try await TestBench.entries(engine).first { $0.kind == "pi.assistant" }
    let call = answer?.model?.first?["content"]?.array?.first
    #expect(call?["arguments"] == [:])
    #expect(call?["argumentsError"]?.text?.contains(words) == true)
    try await bench.end(engine)
  }

  @Test(arguments: ["text", [1], 5, .null, true] as [JSON])
  func `what a tool or a hook makes of arguments has to be an object`(_ made: JSON) async throws {
    let tool = Tool(
      name: "tell",
      description: "",
      parameters: true,
      preparingArguments: { _ in made },
      execute: { _ in .text("called") }
    )
    let text = try await result(tool, [:])?.contentText
    #expect(text?.contains("the arguments are invalid: root: expected an object") == true)
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
