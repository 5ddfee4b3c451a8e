import PerdureModel
import PerdureProviders
import PerdureValue
import Testing

@Suite struct ChatStreamDecoderTests {
  struct Row: Sendable, CustomTestStringConvertible {
    var testDescription: String
    /// The `choices[0]` of each chunk; what begins with `{"` is the chunk itself.
    var choices: [String]
    var blocks: [String]
    var stopReason: StopReason? = .stop
    var failure: ProviderFailure.Action?

    init(
      _ description: String,
      _ choices: [String],
      _ blocks: [String],
      _ stopReason: StopReason? = .stop,
      failure: ProviderFailure.Action? = nil
    ) {
      testDescription = description
      self.choices = choices
      self.blocks = blocks
      self.stopReason = failure == nil ? stopReason : nil
      self.failure = failure
    }
  }

  private static func answer(to row: Row) -> Answer {
    var decoder = ChatStreamDecoder(tools: ["f", "weather.get"])
    var events: [ModelEvent] = []
    for choice in row.choices {
      let whole = choice.hasPrefix("!") ? String(choice.dropFirst()) : #"{"choices":[\#(choice)]}"#
      events += decoder.decode(Array(whole.utf8))
    }
    return Answer(events + decoder.end())
  }

  private static func call(_ text: String) -> String { #"{"delta":{"tool_calls":[\#(text)]}}"# }
  private static let stop = #"{"delta":{},"finish_reason":"stop"}"#
  private static let toolCalls = #"{"delta":{},"finish_reason":"tool_calls"}"#

  static let texts = [
    Row(
      "plain text",
      [#"{"delta":{"content":"a"}}"#, #"{"delta":{"content":"b"}}"#, stop],
      ["text:ab"]
    ),
    Row(
      "a character cut in two",
      [#"{"delta":{"content":"a\ud83d"}}"#, #"{"delta":{"content":"\ude00b"}}"#, stop],
      ["text:a😀b"]
    ),
    Row(
      "half a character",
      [#"{"delta":{"content":"a\ud83d"}}"#, stop],
      ["text:a\u{FFFD}"]
    ),
    Row("DONE without a finish reason", [#"{"delta":{"content":"a"}}"#, "![DONE]"], ["text:a"]),
    Row("no DONE", [#"{"delta":{"content":"a"},"finish_reason":"stop"}"#], ["text:a"]),
    Row("finish reason end", [#"{"delta":{"content":"a"},"finish_reason":"end"}"#], ["text:a"]),
    Row(
      "finish reason length",
      [#"{"delta":{"content":"a"},"finish_reason":"length"}"#],
      ["text:a"],
      .length
    ),
    Row(
      "null and missing choices",
      [#"!{"choices":null}"#, "!{}", #"{"delta":{"content":"a"}}"#, stop],
      ["text:a"]
    ),
    Row(
      "another choice",
      [#"{"index":1,"delta":{"content":"x"}}"#, #"{"index":0,"delta":{"content":"a"}}"#, stop],
      ["text:a"]
    ),
    Row(
      "null delta members",
      [#"{"delta":{"content":null,"tool_calls":null}}"#, #"{"delta":{"content":"a"}}"#, stop],
      ["text:a"]
    ),
    Row(
      "content as parts",
      [
        #"{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"t"}]},{"type":"text","text":"a"}]}}"#,
        stop,
      ],
      ["thinking:t", "text:a"]
    ),
    Row(
      "reasoning_content",
      [#"{"delta":{"reasoning_content":"t"}}"#, #"{"delta":{"content":"a"}}"#, stop],
      ["thinking:t", "text:a"]
    ),
    Row(
      "reasoning in two fields",
      [
        #"{"delta":{"reasoning_content":"t","reasoning":"t"}}"#, #"{"delta":{"content":"a"}}"#,
        stop,
      ],
      ["thinking:t", "text:a"]
    ),
    Row("a refusal", [#"{"delta":{"refusal":"no"}}"#, stop], ["text:no"]),
    Row(
      "a whole message",
      [#"{"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}"#],
      ["text:a"]
    ),
    Row(
      "garbage behind a chunk",
      [#"!{"choices":[{"delta":{"content":"a"}}]}}}"#, stop],
      ["text:a"]
    ),
  ]

  static let calls = [
    Row(
      "a call in pieces",
      [
        call(#"{"index":0,"id":"c1","function":{"name":"f","arguments":""}}"#),
        call(#"{"index":0,"function":{"arguments":"{\"a\""}}"#),
        call(#"{"index":0,"function":{"arguments":":1}"}}"#), toolCalls,
      ],
      [#"f:{"a":1}"#],
      .toolUse
    ),
    Row(
      "two numbered calls",
      [
        call(#"{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"a\":"}}"#),
        call(#"{"index":1,"id":"c2","function":{"name":"f","arguments":"{\"b\":"}}"#),
        call(#"{"index":0,"function":{"arguments":"1}"}}"#),
        call(#"{"index":1,"function":{"arguments":"2}"}}"#), toolCalls,
      ],
      [#"f:{"a":1}"#, #"f:{"b":2}"#],
      .toolUse
    ),
    Row(
      "index always 0",
      [
        call(#"{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"a\":1}"}}"#),
        call(#"{"index":0,"id":"c2","function":{"name":"f","arguments":"{\"b\":2}"}}"#), toolCalls,
      ],
      [#"f:{"a":1}"#, #"f:{"b":2}"#],
      .toolUse
    ),
    Row(
      "no index and no ids",
      [
        call(#"{"function":{"name":"f","arguments":"{\"a\":1}"}}"#),
        call(#"{"function":{"name":"f","arguments":"{\"b\":2}"}}"#), toolCalls,
      ],
      [#"f:{"a":1}"#, #"f:{"b":2}"#],
      .toolUse
    ),
    Row(
      "one id for two calls",
      [
        call(#"{"index":0,"id":"c","function":{"name":"f","arguments":"{\"a\":1}"}}"#),
        call(#"{"index":0,"id":"c","function":{"name":"f","arguments":"{\"b\":2}"}}"#), toolCalls,
      ],
      [#"f:{"a":1}"#, #"f:{"b":2}"#],
      .toolUse
    ),
    Row(
      "id and name in every piece",
      [
        call(#"{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"a\":"}}"#),
        call(#"{"index":0,"id":"c1","function":{"name":"f","arguments":"1}"}}"#), toolCalls,
      ],
      [#"f:{"a":1}"#],
      .toolUse
    ),
    Row(
      "an id that changes",
      [
        call(#"{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"a\":"}}"#),
        call(#"{"index":0,"id":"c9","function":{"arguments":"1}"}}"#), toolCalls,
      ],
      [#"f:{"a":1}"#],
      .toolUse
    ),
    Row(
      "arguments as an object",
      [
        call(#"{"index":0,"id":"c1","function":{"name":"f","arguments":{"a":1}}}"#), toolCalls,
      ],
      [#"f:{"a":1}"#],
      .toolUse
    ),
    Row(
      "arguments encoded twice",
      [
        call(#"{"index":0,"id":"c1","function":{"name":"f","arguments":"\"{\\\"a\\\":1}\""}}"#),
        toolCalls,
      ],
      [#"f:{"a":1}"#],
      .toolUse
    ),
    Row(
      "no arguments",
      [call(#"{"index":0,"id":"c1","function":{"name":"f"}}"#), toolCalls],
      ["f:{}"],
      .toolUse
    ),
    Row(
      "garbage behind arguments",
      [
        call(#"{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"a\":\"}\"}</tool>"}}"#),
        toolCalls,
      ],
      [#"f:{"a":"}"}"#],
      .toolUse
    ),
    Row(
      "arguments beyond repair",
      [
        call(#"{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"a\":"}}"#), toolCalls,
      ],
      [#"f:{"a":"#],
      .toolUse
    ),
    Row(
      "calls with finish reason stop",
      [
        call(#"{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}"#), stop,
      ],
      ["f:{}"],
      .toolUse
    ),
    Row(
      "calls with an empty finish reason",
      [
        call(#"{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}"#),
        #"{"delta":{},"finish_reason":""}"#,
      ],
      ["f:{}"],
      .toolUse
    ),
    Row(
      "text around a call",
      [
        #"{"delta":{"content":"a"}}"#,
        call(#"{"index":0,"id":"c1","function":{"name":"f","arguments":"{}"}}"#),
        #"{"delta":{"content":"b"}}"#, toolCalls,
      ],
      ["text:a", "f:{}", "text:b"],
      .toolUse
    ),
    Row(
      "a call cut by the length",
      [
        call(#"{"index":0,"id":"c1","function":{"name":"f","arguments":"{\"a\":"}}"#),
        #"{"delta":{},"finish_reason":"length"}"#,
      ],
      [#"f:{"a":"#],
      .length
    ),
  ]

  static let failures = [
    Row("no chunk", [], [], failure: .retry),
    Row("no finish reason", [#"{"delta":{"content":"a"}}"#], ["text:a"], failure: .retry),
    Row("an empty answer", [stop, "![DONE]"], [], failure: .retry),
    Row(
      "a line that is no JSON",
      [#"{"delta":{"content":"a"}}"#, "!hello"],
      ["text:a"],
      failure: .retry
    ),
    Row(
      "a content filter",
      [#"{"delta":{"content":"a"},"finish_reason":"content_filter"}"#],
      ["text:a"],
      failure: .stop
    ),
    Row(
      "a full window",
      [#"{"delta":{},"finish_reason":"model_context_window_exceeded"}"#],
      [],
      failure: .overflow
    ),
    Row(
      "an error",
      [#"!{"error":{"message":"Provider returned error","code":502}}"#],
      [],
      failure: .retry
    ),
    Row(
      "an error of the request",
      [#"!{"error":{"message":"no","type":"invalid_request_error"}}"#],
      [],
      failure: .stop
    ),
    Row(
      "an error about money",
      [#"!{"error":{"message":"no","code":"insufficient_quota"}}"#],
      [],
      failure: .quota
    ),
    Row(
      "an error about the context",
      [#"!{"error":{"message":"maximum context length is 5 tokens"}}"#],
      [],
      failure: .overflow
    ),
    Row("an error as text", [#"!{"error":"overloaded"}"#], [], failure: .retry),
  ]

  @Test(arguments: texts + calls + failures)
  func `a stream becomes blocks and an end`(row: Row) {
    let answer = Self.answer(to: row)
    #expect(answer.blocks == row.blocks)
    #expect(answer.stopReason == row.stopReason)
    #expect(answer.failure?.action == row.failure)
  }

  @Test(arguments: calls)
  func `every call of an answer has an id of its own`(row: Row) {
    let ids = Self.answer(to: row).callIds
    #expect(Set(ids).count == ids.count && !ids.contains(""))
  }

  @Test func `a name that was changed for the wire is changed back`() {
    let encoder = ChatRequestEncoder(
      ModelRequest([["role": "system", "toolsAdded": [["name": "weather.get"]]]])
    )
    let wire = encoder.body["tools"]?.array?.first?["function"]?["name"]?.text ?? ""
    let row = Row(
      "",
      [Self.call(#"{"id":"c","function":{"name":"\#(wire)"}}"#), Self.toolCalls],
      []
    )
    #expect(Self.answer(to: row).blocks == ["weather.get:{}"])
  }

  @Test(arguments: [
    #"!{"choices":[],"usage":{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens":3,"completion_tokens_details":{"reasoning_tokens":2},"total_tokens":13}}"#,
    #"{"delta":{},"usage":{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens":3,"completion_tokens_details":{"reasoning_tokens":2},"total_tokens":13}}"#,
  ])
  func `usage is found at the top and in a choice`(chunk: String) {
    let usage = Self.answer(to: Row("", [#"{"delta":{"content":"a"}}"#, chunk, Self.stop], []))
      .usage
    var expected = Usage()
    (expected.input, expected.cacheRead, expected.output) = (6, 4, 3)
    (expected.totalTokens, expected.reasoning) = (13, 2)
    #expect(usage == expected)
  }

  @Test func `whatever a server sends, blocks are in order and one end comes last`() {
    let seed = UInt64.random(in: 0 ... .max)
    print("seed of the random chunks: \(seed)")
    var random = SeededGenerator(seed: seed)
    let parts = [
      "{", "}", "[", "]", ",", ":", "\"a\"", "\"choices\":[{", "\"delta\":{", "\"content\":",
      "null",
      "\"tool_calls\":[{", "\"function\":{", "\"name\":\"f\"", "\"arguments\":", "\"index\":", "7",
      "\"id\":", "\"finish_reason\":\"stop\"", "\"usage\":{", "\"error\":", "\"\\ud800\"", "1e9",
    ]
    let whole = (Self.texts + Self.calls + Self.failures).flatMap(\.choices)
    for _ in 0..<3000 {
      var decoder = ChatStreamDecoder()
      var events: [ModelEvent] = []
      for _ in 0..<Int.random(in: 0...6, using: &random) {
        let count = Int.random(in: 1...12, using: &random)
        let noise = (0..<count).map { _ in parts.randomElement(using: &random) ?? "" }.joined()
        let known = #"{"choices":[\#(whole.randomElement(using: &random) ?? "")]}"#
        let text = Int.random(in: 0..<3, using: &random) == 0 ? noise : known
        events += decoder.decode(Array(text.utf8))
      }
      events += decoder.end()
      #expect(Self.isWellFormed(events), "seed \(seed)")
    }
  }

  private static func isWellFormed(_ events: [ModelEvent]) -> Bool {
    var started = 0
    var ended: Set<Int> = []
    for (position, event) in events.enumerated() {
      let isLast = position == events.count - 1
      switch event {
      case .blockStart(let index, _):
        if index != started || isLast { return false }
        started += 1
      case .delta(let index, let text):
        if index >= started || ended.contains(index) || text.isEmpty || isLast { return false }
      case .blockEnd(let index, _, _):
        if index >= started || !ended.insert(index).inserted || isLast { return false }
      case .usage: if isLast { return false }
      case .finished: if !isLast || ended.count != started { return false }
      case .deferred: return false
      case .failed: if !isLast { return false }
      }
    }
    return !events.isEmpty
  }

  @Test func `absurd usage does no harm`() {
    let chunk =
      #"!{"usage":{"prompt_tokens":-5,"completion_tokens":9223372036854775807,"total_tokens":1e300}}"#
    let usage = Self.answer(to: Row("", [chunk, #"{"delta":{"content":"a"}}"#, Self.stop], []))
      .usage
    #expect(usage?.input == 0 && usage?.output == 9_007_199_254_740_991)
  }
}
