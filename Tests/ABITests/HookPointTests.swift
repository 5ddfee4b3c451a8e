import Perdure
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// The hooks of plugins, each at its point, over a real harness.
@Suite(.bothPlaces, .timeLimit(.minutes(5))) struct HookPointTests {
  static func hook(
    _ point: String,
    _ role: String = "guard",
    changes: Bool = false,
    _ more: JSONObject = [:]
  ) -> JSONObject {
    var hook: JSONObject = [
      "point": .string(point), "role": .string(role), "changes": .bool(changes),
    ]
    for (key, value) in more { hook[key] = value }
    return ["hooks": [.object(hook)], "permissions": ["approvals": true]]
  }

  /// Runs "go" with one plugin that has one hook and answers it with `step`.
  private func run(
    _ members: JSONObject,
    _ step: JSON,
    bench: ScriptedBench = ScriptedBench(),
    tool: Tool = ScriptedBench.work(),
    settings: HarnessSettings = HarnessSettings()
  ) async throws -> ScriptedBench.Run {
    let point = members["hooks"]?.array?.first?["point"]?.text ?? ""
    let plugin = try await bench.plugin(members, script: [JSONString("hook:\(point)"): step])
    return try await bench.run([plugin], tool: tool, settings: settings)
  }

  // MARK: beforeRequest

  @Test func `a hook before a request is told what is sent`() async throws {
    let bench = ScriptedBench()
    _ = try await run(Self.hook("beforeRequest", "observer"), [:], bench: bench)
    let input = try bench.input("hook:beforeRequest")
    #expect(
      input.object?.keys == [
        "ctx", "attempt", "model", "thinkingLevel", "tools", "messages",
      ]
    )
    #expect(input["ctx"]?["kind"] == "pi.generation")
    #expect(input["ctx"]?["settings"] == 1)
    #expect(input["tools"] == ["work"])
    #expect(input["model"]?["modelId"] == "one")
  }

  @Test func `a field that is not wanted is not sent`() async throws {
    let bench = ScriptedBench()
    let members = Self.hook("beforeRequest", "observer", ["fields": []])
    _ = try await run(members, [:], bench: bench)
    #expect(try bench.input("hook:beforeRequest")["messages"] == nil)
  }

  @Test func `messages can be kept by their places`() async throws {
    let bench = ScriptedBench(answer: { _ in ScriptedModel.text("hello") })
    _ = try await run(
      Self.hook("beforeRequest", "observer", changes: true),
      ["answer": ["messages": [["keep": [0, 1]], ["role": "user", "content": "instead"]]]],
      bench: bench
    )
    let sent = try #require(bench.model.seen.first?.messages)
    #expect(sent.map { $0["role"] } == ["system", "user"])
    #expect(sent.last?["content"] == "instead")
  }

  @Test func `a guard that denies a request ends the run`() async throws {
    let bench = ScriptedBench()
    let run = try await run(
      Self.hook("beforeRequest"),
      ["answer": ["deny": ["reason": "not today", "code": "closed"]]],
      bench: bench
    )
    #expect(run.unanswered == "refused")
    #expect(bench.model.seen.isEmpty)
  }

  // MARK: The other points of a generation

  @Test func `a hook after a response sees the answer`() async throws {
    let bench = ScriptedBench()
    _ = try await run(Self.hook("afterResponse", "observer"), [:], bench: bench)
    let message = try bench.input("hook:afterResponse")["message"]
    #expect(message?["content"]?.array?.first?["text"] == "all done")
  }

  @Test func `a hook can let a run go on`() async throws {
    let bench = ScriptedBench(answer: { request in
      ScriptedModel.text(request.messages.last?["content"] == "more" ? "end" : "first")
    })
    let members = Self.hook("onYield", "observer", changes: true)
    let plugin = try await bench.plugin(
      members,
      script: ["hook:onYield": ["answer": ["continue": "more"]]]
    )
    var settings = HarnessSettings()
    settings.maxTurns = 2
    _ = try await bench.run([plugin], settings: settings)
    #expect(bench.model.seen.last?.messages.last?["content"] == "more")
  }

  @Test func `a hook after a round of tools is told the results in order`() async throws {
    let bench = ScriptedBench()
    let run = try await run(Self.hook("afterTools", "observer"), [:], bench: bench)
    let input = try bench.input("hook:afterTools")
    let result = try #require(run.entries.last { $0.kind == "pi.tool-result" })
    #expect(input["results"] == [result.id.json])
    #expect(input["assistant"]?.int.map { $0 < result.id.value } == true)
  }

  // MARK: Tools

  @Test func `a guard of a call is told all about it`() async throws {
    let bench = ScriptedBench()
    _ = try await run(Self.hook("beforeTool"), [:], bench: bench)
    let input = try bench.input("hook:beforeTool")
    #expect(input["call"] == ["id": "c1", "name": "work", "arguments": ["n": 1]])
    #expect(input["tool"] == ["replay": "unsafe", "extension": "app"])
    #expect(input["approvals"] == [])
    #expect(input["ctx"]?["kind"] == "pi.tool")
    #expect(input["ctx"]?["task"]?.int != nil)
  }

  @Test func `a hook changes the arguments of a call`() async throws {
    let run = try await run(
      Self.hook("beforeTool", "observer", changes: true),
      ["answer": ["arguments": ["n": 7]]],
      tool: ScriptedBench.work { .text($0.arguments.compactText) }
    )
    #expect(run.text == #"{"n":7}"#)
  }

  @Test func `changed arguments are checked again`() async throws {
    let run = try await run(
      Self.hook("beforeTool", "observer", changes: true),
      ["answer": ["arguments": ["n": "many"]]]
    )
    #expect(run.codes == ["invalid_arguments"])
  }

  @Test func `a guard denies a call with its reason`() async throws {
    let run = try await run(
      Self.hook("beforeTool"),
      ["answer": ["deny": ["reason": "too dangerous"]]]
    )
    #expect(run.codes == ["blocked"])
    #expect(run.text.contains("too dangerous"))
  }

  @Test(arguments: [
    ("work", 1), ("wor*", 1), ("*", 1), ("other", 0),
  ])
  func `a hook of certain tools is called for those`(_ pattern: String, _ count: Int) async throws {
    let bench = ScriptedBench()
    let members = Self.hook("beforeTool", ["tools": [.string(pattern)]])
    _ = try await run(members, [:], bench: bench)
    #expect(bench.targets.count == count)
  }

  @Test func `a hook after a call sees the result and may change it`() async throws {
    let bench = ScriptedBench()
    let run = try await run(
      Self.hook("afterTool", "observer", changes: true),
      ["answer": ["result": ["output": [["type": "text", "text": "changed"]]]]],
      bench: bench
    )
    let input = try bench.input("hook:afterTool")
    #expect(input["result"]?["output"]?.array?.first?["text"] == .string(ScriptedBench.workText))
    #expect(input["durationMs"]?.int != nil)
    #expect(run.text == "changed")
  }

  @Test func `a guard keeps a result from the model`() async throws {
    let run = try await run(
      Self.hook("afterTool"),
      ["answer": ["deny": ["reason": "it holds a secret"]]]
    )
    #expect(run.codes == ["blocked"])
    #expect(!run.text.contains(ScriptedBench.workText))
  }

  @Test func `images are shown without their bytes and come back whole`() async throws {
    let bench = ScriptedBench()
    let image: JSON = ["type": "image", "data": "aGVsbG8=", "mimeType": "image/png"]
    let run = try await run(
      Self.hook("afterTool", "observer", changes: true),
      [
        "answer": [
          "result": ["output": [["type": "image", "mimeType": "image/png", "source": "m0"]]]
        ]
      ],
      bench: bench,
      tool: ScriptedBench.work { _ in ToolResult(output: [image]) }
    )
    #expect(
      try bench.input("hook:afterTool")["result"]?["output"]
        == [["type": "image", "mimeType": "image/png", "bytes": 5, "source": "m0"]]
    )
    #expect(run.result?["content"] == [image])
  }

  @Test func `a hook sees the result of an aborted call`() async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(
      Self.hook("onAbort", "observer", changes: true),
      script: [
        "hook:onAbort": ["answer": ["result": ["output": [["type": "text", "text": "rest"]]]]]
      ]
    )
    let started = AsyncStream.makeStream(of: Void.self)
    let tool = ScriptedBench.work { call in
      started.continuation.yield()
      try await call.host.sleep(milliseconds: 3_600_000)
      return .text("too late")
    }
    let (harness, root) = try await bench.open([plugin], tool: tool)
    let submission = try await root.submit("go")
    for await _ in started.stream { break }
    try await root.abort()
    await harness.waitUntilQuiet()
    let run = ScriptedBench.Run(
      submission: try await submission.wait(),
      entries: try await root.view().entries
    )
    #expect(run.text == "rest")
    #expect(try bench.input("hook:onAbort")["call"]?["name"] == "work")
    try await harness.close()
    try await plugin.close()
  }

  // MARK: Other points

  @Test(
    arguments: [
      (["answer": ["summary": "all in short"]], "all in short"),
      (["answer": ["decline": true]], ""),
    ] as [(JSON, String)]
  )
  func `a hook brings the summary of a compaction or declines it`(
    _ step: JSON,
    _ summary: String
  ) async throws {
    let bench = ScriptedBench(answer: { _ in ScriptedModel.text("by the model") })
    let plugin = try await bench.plugin(
      Self.hook("beforeCompact", "observer", changes: true),
      script: ["hook:beforeCompact": step]
    )
    var settings = HarnessSettings()
    settings.compaction.keepRecentTokens = 1
    let (harness, root) = try await bench.open([plugin], settings: settings)
    for _ in 0..<3 { _ = try await root.submit("say something").answer() }
    _ = try await root.compact()
    await harness.waitUntilQuiet()
    let input = try bench.input("hook:beforeCompact")
    #expect(input["reason"] == "manual")
    #expect(input["entries"]?.array?.isEmpty == false)
    #expect(input["messages"]?.array?.isEmpty == false)
    let text = try await root.view().entries.map { $0.json.compactText }.joined()
    #expect(text.contains("all in short") == !summary.isEmpty)
    try await harness.close()
    try await plugin.close()
  }

  @Test func `a hook sees each new conversation after its commit`() async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(Self.hook("conversationCreated", "observer"))
    let (harness, root) = try await bench.open([plugin])
    let other = try await harness.createConversation()
    while bench.targets.count < 2 { await Task.yield() }
    let seen = bench.logs.compactMap { $0.json["record"]?["id"]?.int }
    #expect(Set(seen) == [root.id.value, other.id.value])
    #expect(try bench.input("hook:conversationCreated")["agent"]?["extensions"]?.array?.count == 2)
    try await harness.close()
    try await plugin.close()
  }

  @Test(arguments: [
    "afterResponse", "onYield", "afterTools", "onAbort", "conversationCreated",
  ])
  func `a guard where nothing can be denied is refused`(_ point: String) async throws {
    let error = await #expect(throws: PerdureError.self) {
      _ = try await ScriptedBench().plugin(Self.hook(point))
    }
    #expect(error?.message.contains("where nothing can be denied") == true)
  }

  // MARK: Approvals

  @Test func `a guard asks, and the call is made when somebody has said yes`() async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(
      Self.hook("beforeTool"),
      script: ["hook:beforeTool": ["answer": ["ask": ["key": "rm", "title": "Delete build?"]]]]
    )
    var settings = HarnessSettings()
    settings.approvals = .wait
    let (harness, root) = try await bench.open([plugin], settings: settings)
    let submission = try await root.submit("go")
    await harness.waitUntilQuiet()
    let question = try #require(try await harness.pendingApprovals().first)
    #expect(question.title == "Delete build?")
    #expect(bench.targets == ["hook:beforeTool"])
    try await harness.approve(question.id, note: "go ahead")
    _ = try await submission.wait()
    #expect(
      try bench.input("hook:beforeTool")["approvals"] == [
        [
          "key": "rm", "task": question.id.json, "answer": "allow", "choice": "allow",
          "note": "go ahead",
        ]
      ]
    )
    let run = ScriptedBench.Run(
      submission: try await submission.wait(),
      entries: try await root.view().entries
    )
    #expect(run.text == ScriptedBench.workText)
    try await harness.close()
    try await plugin.close()
  }

  @Test func `a denied question blocks the call without asking the guard again`() async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(
      Self.hook("beforeTool"),
      script: ["hook:beforeTool": ["answer": ["ask": ["key": "rm", "title": "Delete build?"]]]]
    )
    var settings = HarnessSettings()
    settings.approvals = .wait
    let (harness, root) = try await bench.open([plugin], settings: settings)
    let submission = try await root.submit("go")
    await harness.waitUntilQuiet()
    let question = try #require(try await harness.pendingApprovals().first)
    try await harness.deny(question.id)
    let run = ScriptedBench.Run(
      submission: try await submission.wait(),
      entries: try await root.view().entries
    )
    #expect(run.codes == ["blocked"])
    #expect(bench.targets == ["hook:beforeTool"])
    try await harness.close()
    try await plugin.close()
  }
}

extension HookPointTests {
  static func hook(_ point: String, _ more: JSONObject) -> JSONObject {
    hook(point, "guard", changes: false, more)
  }

  static func hook(_ point: String, _ role: String, _ more: JSONObject) -> JSONObject {
    hook(point, role, changes: false, more)
  }
}
