import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// Models that call what they must not, and tools that put out what nobody can read.
@Suite(.timeLimit(.minutes(5))) struct BadModelTests {
  // MARK: Calls

  struct Row: Sendable, CustomTestStringConvertible {
    var testDescription: String
    /// What each of the first `turns` answers calls.
    var calls: [(id: JSONString, name: JSONString, text: String)]
    var turns = 1
    /// What stands in the result of each of these calls.
    var words: String
    var isError = true
  }

  private static let fine = #"{"text": "hi"}"#

  static let rows: [Row] = [
    Row(
      testDescription: "a tool that does not exist",
      calls: [("c", "ghost", fine)],
      words: "the tool 'ghost' was not offered"
    ),
    Row(
      testDescription: "a tool without a name",
      calls: [("c", "", fine)],
      words: "the tool '' was not offered"
    ),
    Row(
      testDescription: "a name of a megabyte",
      calls: [("c", JSONString(String(repeating: "ä", count: 524_288)), fine)],
      words: "the tool 'ää"
    ),
    Row(
      testDescription: "broken JSON",
      calls: [("c", "echo", #"{"text": "h"#)],
      words: "they are no JSON"
    ),
    Row(
      testDescription: "a megabyte of broken JSON",
      calls: [("c", "echo", String(repeating: "[", count: 1 << 20))],
      words: "they are no JSON"
    ),
    Row(
      testDescription: "arguments of the wrong type",
      calls: [("c", "echo", #"{"text": ["no", "text"]}"#)],
      words: "the arguments are invalid"
    ),
    Row(
      testDescription: "a megabyte of the wrong type",
      calls: [("c", "echo", #"{"text": ["\#(String(repeating: "x", count: 1 << 20))"]}"#)],
      words: "the arguments are invalid"
    ),
    Row(
      testDescription: "no arguments at all",
      calls: [("c", "echo", "")],
      words: "the arguments are invalid"
    ),
    Row(
      testDescription: "one id for several calls of a message",
      calls: [("c", "echo", fine), ("c", "echo", fine), ("", "echo", fine), ("", "echo", fine)],
      words: "hi",
      isError: false
    ),
    Row(
      testDescription: "one id in all messages",
      calls: [("c", "echo", fine)],
      turns: 5,
      words: "hi",
      isError: false
    ),
    Row(
      testDescription: "a thousand calls in one message",
      calls: (0..<1_000).map { (JSONString("c\($0)"), "echo", fine) },
      words: "hi",
      isError: false
    ),
    Row(
      testDescription: "a thousand calls of nothing",
      calls: (0..<1_000).map { (JSONString("c\($0)"), "ghost", fine) },
      words: "not offered"
    ),
  ]

  private static func model(_ row: Row) -> ScriptedModel {
    ScriptedModel { request in
      guard ScriptedModel.turn(of: request) < row.turns else { return ScriptedModel.text("done") }
      var events: [ModelEvent] = []
      for (index, call) in row.calls.enumerated() {
        events.append(.blockStart(index: index, .toolCall(id: call.id, name: call.name)))
        events.append(.delta(index: index, call.text))
        events.append(.blockEnd(index: index, arguments: nil))
      }
      return [events + [.finished(.toolUse)]]
    }
  }

  @Test(arguments: rows)
  func `every call of a model gets one result, and the run and the next prompt end`(
    _ row: Row
  ) async throws {
    let bench = TestBench()
    let model = Self.model(row)
    let engine = try await bench.open(model, tools: [TestBench.ownEcho])
    _ = try await bench.start(engine)
    for prompt in 1...2 {
      #expect(try await bench.ask(engine).status == .done)
      let results = try await Self.results(engine)
      #expect(results.count == prompt * row.turns * row.calls.count)
      #expect(results.allSatisfy { $0["isError"] == .bool(row.isError) })
      #expect(results.allSatisfy { $0.contentText.contains(row.words) })
      #expect(results.allSatisfy { $0.contentText.utf8.count < 20_000 })
    }
    try Self.checkPairs(model.seen.last?.messages ?? [])
    try await bench.end(engine)
  }

  /// The messages of all results, however many there are.
  private static func results(_ engine: Engine) async throws -> [JSON] {
    var messages: [JSON] = []
    var cursor: Cursor?
    repeat {
      let page = try await engine.session.store.scanEntries(
        EntryQuery(conversationId: .root),
        PageRequest(limit: 256, cursor: cursor, order: .ascending)
      )
      messages += page.items.filter { $0.kind == "pi.tool-result" }.compactMap { $0.model?.first }
      cursor = page.next
    } while cursor != nil
    return messages
  }

  /// Checks that behind each answer stand the results of its calls, one each and in their order.
  static func checkPairs(_ messages: [JSON]) throws {
    var awaited: [JSON] = []
    for message in messages where message["role"] != "system" {
      if message["role"] == "toolResult" {
        let next = try #require(awaited.first, "a result without a call")
        #expect(message["toolCallId"] == next)
        awaited.removeFirst()
        continue
      }
      #expect(awaited.isEmpty, "a call without a result")
      awaited = (message["content"]?.array ?? []).filter { $0["type"] == "toolCall" }
        .compactMap { $0["id"] }
      #expect(Set(awaited.map(\.compactText)).count == awaited.count, "an id twice")
    }
    #expect(awaited.isEmpty)
  }

  // MARK: Output

  /// What a call puts out and what its result says.
  struct Output: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var execute: Tool.Execute
    var words: String
    var isError = false
  }

  private static let megabytes = String(repeating: "many words, ", count: 1 << 20)
  private static let line = String(repeating: "x", count: 10 << 20)
  private static let surrogate = (try? JSON(parsing: #""a\ud800b""#))?.string ?? ""

  static let outputs: [Output] = [
    Output(
      testDescription: "megabytes of text in a result",
      execute: { _ in .text(megabytes) },
      words: "truncated"
    ),
    Output(
      testDescription: "megabytes of text while it runs",
      execute: { call in
        let words = JSONString(String(repeating: "words\n", count: 20_000))
        for _ in 0..<100 { try call.host.output(words, skipped: nil) }
        return ToolResult()
      },
      words: "truncated"
    ),
    Output(
      testDescription: "one line of ten megabytes in a result",
      execute: { _ in .text(line) },
      words: "truncated"
    ),
    Output(
      testDescription: "one line of ten megabytes while it runs",
      execute: { call in
        try call.host.output(JSONString(line), skipped: nil)
        return ToolResult()
      },
      words: "truncated"
    ),
    Output(
      testDescription: "binary bytes",
      execute: { call in
        try call.host.output(bytes: (0..<4_096).map { UInt8(truncatingIfNeeded: $0) }, skipped: nil)
        return ToolResult()
      },
      words: "\u{FFFD}"
    ),
    Output(
      testDescription: "invalid UTF-8",
      execute: { call in
        try call.host.output(bytes: [0x61, 0xC3, 0x28, 0xF0, 0x9F, 0xFF, 0x62], skipped: nil)
        return ToolResult()
      },
      words: "a\u{FFFD}("
    ),
    Output(
      testDescription: "a lone surrogate in a result",
      execute: { _ in ToolResult(output: [["type": "text", "text": .string(surrogate)]]) },
      words: "a\u{FFFD}b"
    ),
    Output(
      testDescription: "a lone surrogate while it runs",
      execute: { call in
        try call.host.output(surrogate, skipped: nil)
        return ToolResult()
      },
      words: "a\u{FFFD}b"
    ),
    Output(testDescription: "nothing", execute: { _ in ToolResult() }, words: ""),
    Output(testDescription: "no items", execute: { _ in ToolResult(output: []) }, words: ""),
    Output(testDescription: "an empty text", execute: { _ in .text("") }, words: ""),
    Output(
      testDescription: "items that are none",
      execute: { _ in ToolResult(output: [["type": "text", "text": 5]]) },
      words: "cannot be used",
      isError: true
    ),
    Output(
      testDescription: "an error of megabytes",
      execute: { _ in throw PerdureError(.invalidInput, megabytes) },
      words: "many words",
      isError: true
    ),
    Output(
      testDescription: "diagnostics of megabytes",
      execute: { _ in ToolResult(output: [], diagnostics: [ToolDiagnostic(.warn, megabytes)]) },
      words: "many words"
    ),
    Output(
      testDescription: "a hundred thousand diagnostics",
      execute: { call in
        for number in 0..<100_000 { try call.host.diagnostic(ToolDiagnostic(.info, "\(number)")) }
        return ToolResult(output: [])
      },
      words: "99910 more diagnostics were left out"
    ),
    Output(
      testDescription: "a control part that is none",
      execute: { _ in ToolResult(output: [], control: ["handoff": 5, "addTools": "all"]) },
      words: "the control part of the result was ignored"
    ),
  ]

  @Test(arguments: outputs)
  func `an output that nobody can read is bounded, and the run and the next prompt end`(
    _ output: Output
  ) async throws {
    let bench = TestBench()
    let model = TestBench.model { request in
      ScriptedModel.turn(of: request) == 0
        ? ScriptedModel.calls((id: "c", name: "loud", arguments: [:])) : ScriptedModel.text("done")
    }
    let engine = try await bench.open(model, tools: [plainTool("loud", output.execute)])
    _ = try await bench.start(engine)
    for _ in 1...2 { #expect(try await bench.ask(engine).status == .done) }
    let results = try await TestBench.results(engine)
    #expect(results.count == 2)
    for result in results {
      #expect(result["isError"] == .bool(output.isError))
      #expect(result.contentText.contains(output.words))
      #expect(result.compactText.utf8.count < 200_000)
    }
    for task in try await TestBench.tasks(engine) {
      #expect(task.state.outcome?.json.compactText.utf8.count ?? 0 < 100_000)
    }
    try Self.checkPairs(model.seen.last?.messages ?? [])
    try await bench.end(engine)
  }

  // MARK: Schemas

  static let refusedSchemas: [JSON] = [
    5, "object", ["type": 5], ["type": "thing"], ["properties": []], ["required": "text"],
    ["pattern": "("], ["$ref": "#/$defs/none"], ["$ref": "http://example.org/x"],
    ["properties": ["a": ["minLength": -1]]], ["enum": 5],
  ]

  @Test(arguments: refusedSchemas)
  func `a schema that makes no sense is refused and nothing is installed`(
    _ schema: JSON
  ) async throws {
    let registry = Registry()
    #expect(throws: PerdureError.self) {
      let tool = Tool(name: "t", description: "", parameters: schema) { _ in .text("") }
      try registry.install(Extension(name: "ext", tools: [tool]))
    }
    #expect(registry.snapshot.isEmpty)
  }

  /// Schemas that lead back to themselves, and how arguments fare under them.
  static let recursive: [(schema: JSON, arguments: JSON, isError: Bool?)] = [
    (
      ["type": "object", "properties": ["next": ["$ref": "#"]], "additionalProperties": false],
      ["next": ["next": ["next": [:]]]], false
    ),
    (
      ["type": "object", "properties": ["next": ["$ref": "#"]], "additionalProperties": false],
      ["next": ["next": ["text": 1]]], true
    ),
    (["$ref": "#"], [:], nil),
    (
      ["$ref": "#/$defs/a", "$defs": ["a": ["$ref": "#/$defs/b"], "b": ["$ref": "#/$defs/a"]]],
      [:], nil
    ),
    (["allOf": [["$ref": "#"]]], ["a": 1], nil),
    (["not": ["$ref": "#"]], ["a": 1], nil),
    (["$dynamicRef": "#"], ["a": 1], nil),
  ]

  @Test(arguments: 0..<recursive.count)
  func `a schema that leads back to itself ends`(_ index: Int) async throws {
    let (schema, arguments, isError) = Self.recursive[index]
    let bench = TestBench()
    let tool = Tool(name: "deep", description: "", parameters: schema) { _ in .text("called") }
    let engine: Engine
    do {
      engine = try await bench.open(calling(("c", "deep", arguments)), tools: [tool])
    } catch is PerdureError where isError == nil {
      return
    }
    _ = try await bench.start(engine)
    #expect(try await bench.ask(engine).status == .done)
    let result = try await TestBench.results(engine).first
    if let isError { #expect(result?["isError"] == .bool(isError)) }
    #expect(try await bench.ask(engine, "again").status == .done)
    try await bench.end(engine)
  }

  // MARK: Depth

  private static func nested(_ depth: Int) -> JSON {
    (0..<depth).reduce([:]) { deep, _ in ["next": deep] }
  }

  static let depths: [(depth: Int, isError: Bool)] = [(250, false), (300, true), (505, true)]

  @Test(arguments: 0..<depths.count)
  func `arguments that nest too deep to be stored are refused`(_ index: Int) async throws {
    let (depth, isError) = Self.depths[index]
    let bench = TestBench()
    let tool = Tool(
      name: "deep",
      description: "",
      parameters: ["type": "object", "properties": ["next": ["$ref": "#"]]]
    ) { _ in .text("called") }
    let engine = try await bench.open(calling(("c", "deep", Self.nested(depth))), tools: [tool])
    _ = try await bench.start(engine)
    #expect(try await bench.ask(engine).status == .done)
    #expect(try await TestBench.results(engine).first?["isError"] == .bool(isError))
    try await Self.checkReadable(engine)
    try await bench.end(engine)
  }

  /// Checks that what the store holds can be read again.
  static func checkReadable(_ engine: Engine) async throws {
    for entry in try await TestBench.entries(engine) { _ = try JSON(parsing: entry.json.encoded) }
    for task in try await TestBench.tasks(engine) { _ = try JSON(parsing: task.json.encoded) }
  }

  static let unreadable: [(name: String, execute: Tool.Execute, isError: Bool)] = [
    ("details", { _ in ToolResult(output: [], details: nested(600)) }, true),
    ("structured output", { _ in ToolResult(structuredOutput: nested(600)) }, true),
    ("control", { _ in ToolResult(output: [], control: ["terminate": nested(600)]) }, true),
    (
      "an item",
      { _ in ToolResult(output: [["type": "text", "text": "", "more": nested(600)]]) }, true
    ),
    ("an integer", { _ in ToolResult(output: [], details: .bigInteger("1,\"")) }, true),
    ("a number", { _ in ToolResult(output: [], details: .double(.nan)) }, false),
    (
      "reported details",
      { call in
        try call.host.details(nested(600))
        return .text("")
      }, false
    ),
    (
      "a document of a nested call",
      { call in
        _ = try await call.executeTool("echo", ["text": "", "deep": nested(600)])
        return .text("")
      }, true
    ),
  ]

  @Test(arguments: 0..<unreadable.count)
  func `what a tool hands over is never stored so that nobody can read it`(
    _ index: Int
  ) async throws {
    let (_, execute, isError) = Self.unreadable[index]
    let bench = TestBench()
    let model = TestBench.model { request in
      ScriptedModel.turn(of: request) == 0
        ? ScriptedModel.calls((id: "c", name: "loud", arguments: [:])) : ScriptedModel.text("done")
    }
    let engine = try await bench.open(
      model,
      tools: [plainTool("loud", execute), TestBench.ownEcho]
    )
    _ = try await bench.start(engine)
    for _ in 1...2 { #expect(try await bench.ask(engine).status == .done) }
    let results = try await TestBench.results(engine)
    #expect(results.map { $0["isError"] } == [.bool(isError), .bool(isError)])
    try await Self.checkReadable(engine)
    try await bench.end(engine)
  }

  @Test func `a commit with what nobody can read is refused and changes nothing`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(ScriptedModel { _ in ScriptedModel.text("hello") })
    _ = try await bench.start(engine)
    let before = try await TestBench.entries(engine)
    await #expect(throws: PerdureError.self) {
      try await engine.session.commit { tx in
        try await tx.append(EntryDraft(kind: "app.note", data: Self.nested(600)), to: .root)
      }
    }
    #expect(try await TestBench.entries(engine) == before)
    #expect(try await bench.ask(engine).status == .done)
    try await bench.end(engine)
  }

  @Test func `a task whose checkpoint nobody can read faults alone`() async throws {
    let bench = TestBench()
    let task = TestTask("app.deep") { runtime, _ in
      try await runtime.commit { _, _ in
        .running(checkpoint: ["phase": "start", "deep": Self.nested(600)])
      }
    }
    let engine = try await bench.open([task])
    let outcome = try await engine.outcome(try await engine.create(task))
    #expect(outcome?.name == "faulted")
    try await Self.checkReadable(engine)
    try await bench.end(engine)
  }
}
