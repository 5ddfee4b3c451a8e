import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// Calls that tools make of other tools (NC-1 to NC-6).
@Suite(.timeLimit(.minutes(5))) struct NestedCallTests {
  private let bench = TestBench()

  /// Calls `outer` once and returns what its entry shows, with the engine still open.
  private func run(
    _ tools: [Tool],
    _ outer: @escaping Tool.Execute
  ) async throws -> (engine: Engine, result: JSON) {
    let engine = try await bench.open(
      calling(("c1", "outer", [:])),
      tools: tools + [plainTool("outer", outer)]
    )
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine)
    return (engine, try #require(try await TestBench.results(engine).first))
  }

  @Test(arguments: [
    ("word", true), ("a b", true), ("0", true), ("01", true), ("1a", true), ("-1", true),
    ("", false), ("a/b", false), ("/", false), ("__proto__", false), ("1", false), ("27", false),
  ])
  func `NC-1: a key is a word without a slash that is no number`(
    _ key: String,
    _ isAllowed: Bool
  ) async throws {
    let (engine, result) = try await run([echo]) { call in
      let nested = try await call.executeTool("echo", ["text": "x"], key: key)
      return .text(nested.structuredOutput?.text ?? "")
    }
    #expect((result["isError"] == false) == isAllowed)
    if isAllowed {
      let task = try #require(try await TestBench.tasks(engine).first { $0.input["key"] != nil })
      #expect(task.input["call"]?["id"] == .string("c1/\(key)"))
    } else {
      #expect(result.contentText.contains("key"))
    }
    try await bench.end(engine)
  }

  @Test func `NC-1: calls without keys are numbered in their order`() async throws {
    let (engine, _) = try await run([echo]) { call in
      _ = try await call.executeTool("echo", ["text": "a"])
      _ = try await call.executeTool("echo", ["text": "b"], key: "named")
      _ = try await call.executeTool("echo", ["text": "c"])
      return .text("")
    }
    let ids = try await TestBench.tasks(engine).compactMap { $0.input["call"]?["id"]?.text }
    #expect(ids == ["c1/1", "c1/named", "c1/2"])
    try await bench.end(engine)
  }

  @Test func `NC-2: a key stands for one call, which is made once`() async throws {
    let count = Log<String>()
    let counted = plainTool("counted") { call in
      count.add("made")
      return .text("\(count.all.count)")
    }
    let (engine, result) = try await run([counted]) { call in
      let first = try await call.executeTool("counted", ["n": 1], key: "k")
      let again = try await call.executeTool("counted", ["n": 1], key: "k")
      return .text("\(first == again)")
    }
    #expect(result.contentText == "true")
    #expect(count.all.count == 1)
    try await bench.end(engine)
  }

  @Test(arguments: [("echo", "y"), ("other", "x")])
  func `NC-2: another tool or other arguments under a known key are refused`(
    _ name: String,
    _ text: String
  ) async throws {
    let (engine, result) = try await run([echo, plainTool("other") { _ in .text("") }]) { call in
      _ = try await call.executeTool("echo", ["text": "x"], key: "k")
      _ = try await call.executeTool(name, ["text": .string(text)], key: "k")
      return .text("")
    }
    #expect(result.contentText.contains("already made with another tool or other arguments"))
    try await bench.end(engine)
  }

  @Test(arguments: [(ReplayPolicy.unsafe, true), (.safe, false)])
  func `NC-2: calls of a tool that is not run again end with a restart`(
    _ replay: ReplayPolicy,
    _ abandons: Bool
  ) async throws {
    let engine = try await bench.open(
      calling(("c1", "outer", [:])),
      tools: [
        echo,
        plainTool("outer", replay: replay) { call in
          .text(try await call.executeTool("echo", ["text": "x"]).structuredOutput?.text ?? "")
        },
      ]
    )
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine)
    let nested = try #require(try await TestBench.tasks(engine).first { $0.input["key"] != nil })
    #expect(nested.abandonOnRestart == abandons)
    #expect(nested.owner == TaskID(nested.input["parent"]))
    try await bench.end(engine)
  }

  @Test func `NC-3: a nested call leaves no entry, and its usage is counted`() async throws {
    var usage = Usage()
    usage.input = 7
    let spent = usage
    let (engine, _) = try await run([
      plainTool("paid") { _ in
        var result = ToolResult.text("x")
        result.usage = spent
        return result
      }
    ]) { call in
      let result = try await call.executeTool("paid")
      return .text("\(result.usage?.input ?? 0)")
    }
    let results = try await TestBench.results(engine)
    #expect(results.map(\.contentText) == ["7"])
    let total = try await engine.session.snapshot(.usage, .root)["tools"]
    #expect(total?["paid"]?["input"] == 7)
    #expect(total?["outer"] == nil)
    try await bench.end(engine)
  }

  @Test func `NC-3: the slot of a nested call says how it ended`() async throws {
    let shown = Log<JSON>()
    let failing = plainTool("failing") { _ in
      throw PerdureError(.invalidInput, String(repeating: "n", count: 900))
    }
    let reading = Log<Engine>()
    let engine = try await bench.open(
      calling(("c1", "outer", [:])),
      tools: [
        failing,
        plainTool("outer") { call in
          _ = try await call.executeTool("failing", ["a": 1])
          if let engine = reading.all.first {
            shown.add(try await engine.session.snapshot(.live, .root))
          }
          return .text("")
        },
      ]
    )
    reading.add(engine)
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine)
    let slot = try #require(shown.all.first?["nestedTools"]?.array?.first)
    #expect(slot["callId"] == "c1/1")
    #expect(slot["parentCallId"] == "c1")
    #expect(slot["name"] == "failing")
    #expect(slot["arguments"] == ["a": 1])
    #expect(slot["status"] == "done")
    #expect(slot["summary"]?["isError"] == true)
    #expect(slot["summary"]?["error"]?.text?.count == 500)
    #expect(try await engine.session.snapshot(.live, .root)["nestedTools"] == nil)
    try await bench.end(engine)
  }

  private static let image: JSON = ["type": "image", "data": "AA==", "mimeType": "image/png"]

  private static func texts(_ texts: String...) -> [JSON] {
    texts.map { ["type": "text", "text": .string($0)] }
  }

  private static let outputs: [([JSON], JSON)] = [
    ([], ""),
    (texts("one"), "one"),
    ([image], image),
    (texts("one", "two"), .array(texts("one", "two"))),
  ]

  @Test(arguments: outputs)
  func `NC-4: a tool without a schema gives programs its output`(
    _ output: [JSON],
    _ value: JSON
  ) async throws {
    let seen = Log<NestedToolResult>()
    let (engine, _) = try await run([plainTool("plain") { _ in ToolResult(output: output) }]) {
      seen.add(try await $0.executeTool("plain"))
      return .text("")
    }
    #expect(seen.all.first?.structuredOutput == value)
    #expect(seen.all.first?.isError == false)
    try await bench.end(engine)
  }

  /// What a tool with a schema gives, and what a program gets of it.
  struct Promise: Sendable, CustomTestStringConvertible {
    var given: JSON?
    var isError = false
    var output = "text"
    var value: JSON?
    var codes: [String]

    var testDescription: String { "\(given?.compactText ?? "nothing"), error \(isError)" }
  }

  @Test(arguments: [
    Promise(given: ["n": 1], value: ["n": 1], codes: []),
    Promise(given: ["n": "x"], codes: ["invalid_structured_output"]),
    Promise(given: nil, codes: ["invalid_structured_output"]),
    Promise(given: ["n": 1], isError: true, value: ["n": 1], codes: []),
    Promise(given: nil, isError: true, codes: ["tool_error"]),
    Promise(given: nil, isError: true, output: "", codes: []),
  ])
  func `NC-4: a tool with a schema gives programs what fits it, or an error`(
    _ promise: Promise
  ) async throws {
    let seen = Log<NestedToolResult>()
    var tool = plainTool("typed") { _ in
      var result = ToolResult.text(promise.output)
      result.structuredOutput = promise.given
      result.isError = promise.isError
      return result
    }
    tool.structuredOutputSchema = [
      "type": "object", "properties": ["n": ["type": "integer"]], "required": ["n"],
    ]
    let (engine, _) = try await run([tool]) {
      seen.add(try await $0.executeTool("typed"))
      return .text("")
    }
    let result = try #require(seen.all.first)
    #expect(result.structuredOutput == promise.value)
    #expect(result.isError == (promise.isError || !promise.codes.isEmpty))
    #expect(result.diagnostics.compactMap(\.code) == promise.codes)
    try await bench.end(engine)
  }

  @Test func `NC-4: a broken promise leaves the call of a model as it is`() async throws {
    let (engine, result) = try await run([]) { _ in
      var result = ToolResult.text("fine")
      result.structuredOutput = 1
      return result
    }
    #expect(result.contentText == "fine")
    #expect(result["isError"] == false)
    #expect(bench.reports.all.contains { $0.message.contains("has no schema") })
    try await bench.end(engine)
  }

  @Test(arguments: [
    ("nobody", "tool_unavailable"), ("private", "tool_unavailable"), ("echo", "invalid_arguments"),
    ("throwing", "tool_error"),
  ])
  func `a nested call that cannot be made or fails is an error result`(
    _ name: String,
    _ code: String
  ) async throws {
    let seen = Log<NestedToolResult>()
    var hidden = plainTool("private") { _ in .text("") }
    hidden.callers = [.model]
    let throwing = plainTool("throwing") { _ in throw PerdureError(.invalidInput, "no") }
    let (engine, _) = try await run([echo, hidden, throwing]) {
      seen.add(try await $0.executeTool(name))
      return .text("")
    }
    #expect(seen.all.first?.isError == true)
    #expect(seen.all.first?.diagnostics.compactMap(\.code) == [code])
    try await bench.end(engine)
  }

  @Test func `a tool that only tools may call is not offered to the model`() async throws {
    var inner = plainTool("inner") { _ in .text("from inside") }
    inner.callers = [.tools]
    let model = calling(("c1", "outer", [:]), ("c2", "inner", [:]))
    let engine = try await bench.open(
      model,
      tools: [
        inner,
        plainTool("outer") {
          .text(try await $0.executeTool("inner").structuredOutput?.text ?? "")
        },
      ]
    )
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine)
    let texts = try await TestBench.results(engine).map(\.contentText)
    #expect(texts.contains("from inside"))
    #expect(texts.contains { $0.contains("was not offered") })
    try await bench.end(engine)
  }

  @Test func `NC-5: what a call leaves running below it ends with it`() async throws {
    let started = Event()
    let (engine, result) = try await run([
      plainTool("slow") { call in
        started.happen()
        try await call.host.sleep(milliseconds: 1_000_000)
        return .text("late")
      }
    ]) { call in
      Task { try await call.executeTool("slow", key: "left") }
      await started.wait()
      return .text("gone")
    }
    #expect(result.contentText == "gone")
    let nested = try #require(try await TestBench.tasks(engine).first { $0.input["key"] != nil })
    #expect(nested.state.outcome?.result == ["kind": "nested"])
    guard case .aborted? = nested.state.outcome else { return #expect(Bool(false)) }
    #expect(try await engine.session.snapshot(.live, .root)["nestedTools"] == nil)
    try await bench.end(engine)
  }

  @Test func `NC-5: a call says that it makes calls before it makes one`() async throws {
    let (engine, _) = try await run([echo]) { call in
      _ = try await call.executeTool("echo", ["text": "a"])
      _ = try await call.executeTool("echo", ["text": "b"])
      return .text("")
    }
    try await bench.end(engine)
    let next = bench.afterDeath()
    let engineAgain = try await next.open(calling())
    try await engineAgain.close()
    #expect(bench.reports.all.isEmpty)
  }

  @Test(arguments: [true, false])
  func `NC-6: progress of a nested call is shown unless its caller says no`(
    _ showsProgress: Bool
  ) async throws {
    let commits = Log<Commits>()
    let engine = try await bench.open(
      calling(("c1", "outer", [:])),
      tools: [
        plainTool("talking") { call in
          try call.host.output("news", skipped: nil)
          try await call.host.flushOutput()
          return .text("")
        },
        plainTool("outer") { call in
          _ = try await call.executeTool("talking", showsProgress: showsProgress)
          return .text("")
        },
      ]
    )
    commits.add(Commits(engine.session))
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine)
    let shown = commits.all[0].all.contains { publication in
      publication.changes.contains { "\($0)".contains("news") }
    }
    #expect(shown == showsProgress)
    let nested = try await TestBench.tasks(engine).first { $0.input["key"] != nil }
    #expect(nested?.input["progress"] == (showsProgress ? nil : false))
    try await bench.end(engine)
  }

  @Test func `calls nest to any depth, and their slots go with their callers`() async throws {
    let down = plainTool("down") { call in
      let left = call.arguments["left"]?.int ?? 0
      if left == 0 { return .text("bottom") }
      let result = try await call.executeTool("down", ["left": .int(left - 1)])
      return .text("\(left) " + (result.structuredOutput?.text ?? ""))
    }
    let (engine, result) = try await run([down]) { call in
      .text(try await call.executeTool("down", ["left": 3]).structuredOutput?.text ?? "")
    }
    #expect(result.contentText == "3 2 1 bottom")
    let ids = try await TestBench.tasks(engine).compactMap { $0.input["call"]?["id"]?.text }
    #expect(ids == ["c1/1", "c1/1/1", "c1/1/1/1", "c1/1/1/1/1"])
    try await bench.end(engine)
  }

  @Test func `an abort of the conversation ends a call with what it called`() async throws {
    let started = Event()
    let engine = try await bench.open(
      calling(("c1", "outer", [:])),
      tools: [
        plainTool("slow") { call in
          started.happen()
          try await call.host.sleep(milliseconds: 1_000_000)
          return .text("late")
        },
        plainTool("outer") { .text("\(try await $0.executeTool("slow").isError)") },
      ]
    )
    _ = try await bench.start(engine)
    let id = try await engine.submit("go", to: .root)
    await started.wait()
    try await engine.abortAndWait(.root)
    #expect(try await engine.wait(for: id).json["reason"] == "aborted")
    let nested = try #require(try await TestBench.tasks(engine).first { $0.input["key"] != nil })
    guard case .aborted? = nested.state.outcome else { return #expect(Bool(false)) }
    try await bench.end(engine)
  }

  @Test func `a call that is over makes no more calls`() async throws {
    let kept = Log<ToolCall>()
    let (engine, _) = try await run([echo]) { call in
      kept.add(call)
      return .text("")
    }
    let error = await #expect(throws: PerdureError.self) {
      try await kept.all[0].executeTool("echo", ["text": "x"])
    }
    #expect(error?.code == .invocationEnded)
    try await bench.end(engine)
  }
}
