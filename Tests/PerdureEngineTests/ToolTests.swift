import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct ToolTests {
  /// Runs one call of `tool` and returns its result, its task and the engine's bench.
  private func run(
    _ tool: Tool,
    _ arguments: JSON = [:],
    bench: TestBench = TestBench()
  ) async throws -> (result: JSON, task: TaskRecord, entry: EntryRecord, usage: JSON) {
    let engine = try await bench.open(calling(("a", tool.name, arguments)), tools: [tool])
    _ = try await bench.start(engine)
    #expect(try await bench.ask(engine).status == .done)
    let entry = try #require(
      try await TestBench.entries(engine).first { $0.kind == "pi.tool-result" }
    )
    let task = try #require(try await TestBench.tasks(engine).first { $0.kind == "pi.tool" })
    let usage = try await engine.session.snapshot(.usage, .root)
    #expect(try await engine.session.snapshot(.live, .root) == [:])
    try await bench.end(engine)
    return (entry.model?.first ?? .null, task, entry, usage)
  }

  @Test func `parallel calls run beside each other`() async throws {
    let bench = TestBench()
    let (first, second) = (Event(), Event())
    // Each waits for the other one.
    let one = plainTool("one") { _ in
      first.happen()
      await second.wait()
      return .text("1")
    }
    let two = plainTool("two") { _ in
      second.happen()
      await first.wait()
      return .text("2")
    }
    let engine = try await bench.open(
      calling(("a", "one", [:]), ("b", "two", [:])),
      tools: [one, two]
    )
    _ = try await bench.start(engine)
    #expect(try await bench.ask(engine).status == .done)
    try await bench.end(engine)
  }

  static let sequences: [(setting: Bool, tool: Bool)] = [(true, false), (false, true)]

  @Test(arguments: 0..<sequences.count)
  func `sequential calls run one after the other`(_ index: Int) async throws {
    let (setting, byTool) = Self.sequences[index]
    var bench = TestBench()
    bench.settings.runsToolsSequentially = setting
    let steps = Log<String>()
    let tools = ["one", "two", "three"].map { name in
      plainTool(name, mode: byTool && name == "two" ? .sequential : nil) { _ in
        steps.add("+\(name)")
        await Task.yield()
        steps.add("-\(name)")
        return .text(name)
      }
    }
    let model = calling(("a", "one", [:]), ("b", "two", [:]), ("c", "three", [:]))
    let engine = try await bench.open(model, tools: tools)
    _ = try await bench.start(engine)
    #expect(try await bench.ask(engine).status == .done)
    #expect(steps.all == ["+one", "-one", "+two", "-two", "+three", "-three"])
    let ids = try await TestBench.results(engine).map { $0["toolCallId"]?.text }
    #expect(ids == ["a", "b", "c"])
    try await bench.end(engine)
  }

  @Test func `a tool that was not offered gets an error result at once`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(
      calling(("a", "ghost", [:]), ("b", "echo", ["text": "x"])),
      tools: [echo]
    )
    _ = try await bench.start(engine)
    #expect(try await bench.ask(engine).status == .done)
    let results = try await TestBench.results(engine)
    #expect(results.map { $0["isError"] } == [true, false])
    let entry = try await TestBench.entries(engine).first { $0.kind == "pi.tool-result" }
    #expect(entry?.data?["diagnostics"]?.array?.first?["code"] == "tool_unavailable")
    // No task was made for it.
    #expect(try await TestBench.tasks(engine).filter { $0.kind == "pi.tool" }.count == 1)
    try await bench.end(engine)
  }

  @Test func `a round without any available tool goes on`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(calling(("a", "ghost", [:])))
    _ = try await bench.start(engine)
    #expect(try await bench.ask(engine).status == .done)
    try await bench.end(engine)
  }

  @Test func `a tool that went away between offer and call is unavailable`() async throws {
    let bench = TestBench()
    let registry = Registry()
    try registry.install(Extension(name: "test", tools: [echo]))
    let model = ScriptedModel { request in
      guard ScriptedModel.turn(of: request) == 0 else { return ScriptedModel.text("done") }
      registry.uninstall("test")
      return ScriptedModel.calls(("a", "echo", ["text": "x"]))
    }
    let engine = try await Engine.open(
      bench.memory,
      Engine.Options(
        models: model,
        registry: registry,
        settings: { Settings() },
        clock: bench.clock,
        report: { _ in }
      )
    )
    _ = try await bench.start(engine)
    #expect(try await bench.ask(engine).status == .done)
    let entry = try await TestBench.entries(engine).first { $0.kind == "pi.tool-result" }
    #expect(entry?.data?["diagnostics"]?.array?.first?["code"] == "tool_unavailable")
    try await bench.end(engine)
  }

  @Test func `arguments that break the schema are refused and echoed`() async throws {
    let (result, task, entry, _) = try await run(echo, ["text": ["a": 1]])
    #expect(result["isError"] == true)
    #expect(entry.data?["diagnostics"]?.array?.first?["code"] == "invalid_arguments")
    #expect(result.contentText.contains("{\"text\":{\"a\":1}}"))
    #expect(task.state.outcome?.isCompleted == true)
  }

  @Test func `arguments are coerced before the tool sees them`() async throws {
    let seen = Log<JSON>()
    let tool = Tool(
      name: "add",
      description: "",
      parameters: ["type": "object", "properties": ["n": ["type": "integer"]]]
    ) { call in
      seen.add(call.arguments)
      return .text("ok")
    }
    _ = try await run(tool, ["n": "5"])
    #expect(seen.all == [["n": 5]])
  }

  @Test func `a tool that throws fails with its words`() async throws {
    let tool = plainTool("bad") { call in
      try call.host.output("so far", skipped: nil)
      throw PerdureError(.invalidInput, "it broke")
    }
    let (result, task, entry, _) = try await run(tool)
    #expect(result["isError"] == true)
    #expect(result.contentText == "so far|<harness>\n[error] it broke\n</harness>")
    #expect(entry.data?["diagnostics"]?.array?.first?["code"] == "tool_error")
    #expect(task.state.outcome?.message == "it broke")
  }

  @Test func `an error result is still a completed call`() async throws {
    let tool = plainTool("no") { _ in
      var result = ToolResult.text("not found")
      result.isError = true
      return result
    }
    let (result, task, entry, _) = try await run(tool)
    #expect(result["isError"] == true)
    #expect(result.contentText == "not found")
    #expect(entry.data == ["diagnostics": []])
    #expect(task.state.outcome == .completed(result: ["kind": "model", "entryId": entry.id.json]))
  }

  @Test(arguments: [OutputLimits.Retain.head, .tail])
  func `the reported output is the result within its window`(
    _ retain: OutputLimits.Retain
  ) async throws {
    let limits = OutputLimits(maxBytes: 100, maxLines: 2, retain: retain)
    let tool = plainTool("count", limits: limits) { call in
      for number in 1...5 { try call.host.output(JSONString("line \(number)\n"), skipped: nil) }
      return ToolResult()
    }
    let (result, _, entry, _) = try await run(tool)
    let kept = retain == .head ? "line 1\nline 2\n" : "line 4\nline 5\n"
    #expect(result["content"]?.array?.first?["text"]?.text == kept)
    #expect(entry.data?["diagnostics"]?.array?.map { $0["code"] } == ["truncated"])
    #expect(result["isError"] == false)
  }

  @Test func `an explicit output beyond the limits is cut`() async throws {
    let tool = plainTool("long", limits: OutputLimits(maxBytes: 10, maxLines: 5)) { _ in
      .text("aaaa\nbbbb\ncccc\n")
    }
    let (result, _, entry, _) = try await run(tool)
    #expect(result["content"]?.array?.first?["text"] == "aaaa\nbbbb\n")
    #expect(entry.data?["diagnostics"]?.array?.map { $0["code"] } == ["truncated"])
  }

  @Test func `diagnostics come in order and are shown to the model`() async throws {
    let tool = plainTool("warns") { call in
      try call.host.diagnostic(ToolDiagnostic(.info, "first"))
      return ToolResult(
        output: [],
        diagnostics: [ToolDiagnostic(.warn, "second", code: "c")],
        control: ["terminate": "yes", "handoff": 7, "addTools": ["a"]]
      )
    }
    let (result, _, entry, _) = try await run(tool)
    let severities = entry.data?["diagnostics"]?.array?.map { $0["severity"]?.text }
    #expect(severities == ["info", "warn", "warn"])
    #expect(
      result.contentText.hasPrefix("<harness>\n[info] first\n[warn] second\n[warn] the control")
    )
    #expect(result.contentText.contains("handoff, terminate is wrong"))
  }

  static let details: [(reported: JSON?, result: JSON?, expected: JSON?)] = [
    (nil, nil, nil), (["a": 1], nil, ["a": 1]), (["a": 1], ["b": 2], ["b": 2]),
    (nil, ["b": 2], ["b": 2]),
  ]

  @Test(arguments: 0..<details.count)
  func `the last details count`(_ index: Int) async throws {
    let (reported, given, expected) = Self.details[index]
    let tool = plainTool("details") { call in
      if let reported { try call.host.details(reported) }
      return ToolResult(output: [], details: given)
    }
    #expect(try await run(tool).result["details"] == expected)
  }

  @Test func `the duration is that of the monotonic clock`() async throws {
    let bench = TestBench()
    let tool = plainTool("slow") { call in
      bench.clock.advance(by: .milliseconds(1_250))
      return .text("ok")
    }
    #expect(try await run(tool, bench: bench).result["durationMs"] == 1_250)
  }

  @Test func `the usage of tools is summed by name`() async throws {
    let bench = TestBench()
    var usage = Usage()
    usage.input = 4
    let tool = plainTool("spends") { [usage] _ in ToolResult(output: [], usage: usage) }
    let engine = try await bench.open(
      calling(("a", "spends", [:]), ("b", "spends", [:])),
      tools: [tool]
    )
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine)
    #expect(try await engine.session.snapshot(.usage, .root)["tools"]?["spends"]?["input"] == 8)
    try await bench.end(engine)
  }

  @Test func `what a call reports is shown while it runs and gone afterwards`() async throws {
    let bench = TestBench()
    let mayEnd = Event()
    let tool = plainTool("works") { call in
      try call.host.output("so far", skipped: nil)
      try call.host.details(["done": 1])
      try call.host.diagnostic(ToolDiagnostic(.info, "note"))
      try await call.host.flushOutput()
      await mayEnd.wait()
      return .text("ok")
    }
    let engine = try await bench.open(calling(("a", "works", [:])), tools: [tool])
    let commits = Commits(engine.session)
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    let shown = await commits.first { $0.live?["tools"]?.array?.first?["diagnostics"] != nil }
    let slot = shown.live?["tools"]?.array?.first
    #expect(slot?["status"] == "running")
    #expect(slot?["output"] == "so far")
    #expect(slot?["details"] == ["done": 1])
    mayEnd.happen()
    _ = try await engine.wait(for: id)
    let done = await commits.first { $0.live?["tools"]?.array?.first?["status"] == "done" }
    #expect(
      done.live?["tools"]?.array?.first?.object?.keys.map(\.string)
        == ["callId", "name", "status", "taskId", "entry"]
    )
    try await bench.end(engine)
  }

  @Test func `a flush of the output puts it on disk`() async throws {
    let bench = TestBench()
    let tool = plainTool("flushes") { call in
      try call.host.output("kept", skipped: nil)
      try await call.host.flushOutput()
      let address = DocumentAddress(kind: "pi.live", scope: .conversation(.root))
      let record = try await bench.memory.findDocument(address, at: nil)
      let live = try await bench.memory.document(record?.id ?? .known(1), at: nil)?.value
      return .text(live?["tools"]?.array?.first?["output"]?.text ?? "nothing")
    }
    #expect(try await run(tool, bench: bench).result.contentText == "kept")
  }

  @Test func `the intent is on disk before the tool runs`() async throws {
    let bench = TestBench()
    let tool = plainTool("looks", replay: .safe) { call in
      let record = try await bench.memory.task(call.taskId)
      return .text(record?.json["state"]?.compactText ?? "nothing")
    }
    let expected = """
      {"status":"running","checkpoint":{"phase":"execute","arguments":{},"replay":"safe"}}
      """
    #expect(try await run(tool, bench: bench).result.contentText == expected)
  }

  @Test func `a host that is asked after the call throws`() async throws {
    let kept = Log<ToolCall>()
    let tool = plainTool("keeps") { call in
      kept.add(call)
      return .text("ok")
    }
    _ = try await run(tool)
    let host = try #require(kept.all.first?.host)
    let uses: [(String, () async throws -> Void)] = [
      ("output", { try host.output("x", skipped: nil) }),
      ("bytes", { try host.output(bytes: [1], skipped: nil) }),
      ("diagnostic", { try host.diagnostic(ToolDiagnostic(.info, "x")) }),
      ("details", { try host.details(1) }),
      ("flush", { try await host.flushOutput() }),
      ("retained", { _ = try host.retainedOutput() }),
      ("barrier", { try await host.barrier() }),
      ("settings", { _ = try host.settings() }),
      ("sleep", { try await host.sleep(milliseconds: 1) }),
    ]
    for (name, use) in uses {
      let error = await #expect(throws: PerdureError.self, "\(name)") { try await use() }
      #expect(error?.code == .invocationEnded, "\(name)")
    }
  }

  @Test(arguments: [Duration.seconds(-5), .zero, .seconds(Int64.max)])
  func `deadlines of any size are taken`(_ deadline: Duration) async throws {
    let tool = plainTool("any", deadline: deadline, grace: .seconds(Int64.max)) { _ in .text("ok") }
    #expect(try await run(tool).result.contentText == "ok")
  }
}
