import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

/// How rounds of tools, and answers, let their run go on or end.
@Suite(.timeLimit(.minutes(5))) struct RunEndTests {
  // MARK: What results ask for

  /// Plays one round of these tools, with their controls; returns the texts of the last request.
  private func round(
    _ controls: [JSONObject?],
    agent: JSONObject = [:]
  ) async throws -> (record: SubmissionRecord, requests: [ModelRequest], engine: Engine) {
    let bench = TestBench()
    let model = ScriptedModel { request in
      guard ScriptedModel.turn(of: request) == 0, request.messages.last?["content"] == "hi" else {
        return ScriptedModel.text("the end")
      }
      var events: [ModelEvent] = []
      for index in controls.indices {
        events.append(.blockStart(index: index, .toolCall(id: "c\(index)", name: "t\(index)")))
        events.append(.blockEnd(index: index, arguments: [:]))
      }
      return [events + [.finished(.toolUse)]]
    }
    let tools = controls.enumerated().map { index, control in
      plainTool("t\(index)") { _ in ToolResult(output: [], control: control) }
    }
    let engine = try await bench.open(model, tools: tools + [echo])
    _ = try await bench.start(engine)
    if !agent.isEmpty { try await engine.configure(.root, agent) }
    let record = try await bench.ask(engine)
    try await engine.waitForIdle(.root)
    return (record, model.seen, engine)
  }

  static let terminations: [(controls: [JSONObject?], ends: Bool)] = [
    ([["terminate": true]], true), ([["terminate": true], ["terminate": true]], true),
    ([["terminate": true], nil], false), ([nil], false), ([["terminate": "yes"]], false),
  ]

  @Test(arguments: 0..<terminations.count)
  func `a round ends the run if each of its results asks for it`(_ index: Int) async throws {
    let (controls, ends) = Self.terminations[index]
    let (record, requests, engine) = try await round(controls)
    #expect(requests.count == (ends ? 1 : 2))
    let id = try #require(record.answer)
    let entry = try await TestBench.entries(engine).first { $0.id == id }
    // The answer that called the tools is the answer of the inputs.
    #expect((entry?.model?.first?["stopReason"] == "toolUse") == ends)
    try await engine.close()
  }

  @Test func `a call that was not offered keeps its round from ending the run`() async throws {
    let (_, requests, engine) = try await round(
      [["terminate": true], ["terminate": true]],
      agent: ["tools": ["t0"]]
    )
    #expect(requests.count == 2)
    try await engine.close()
  }

  @Test func `a handoff ends the run and begins anew with its text`() async throws {
    let (record, requests, engine) = try await round([
      ["handoff": "first"], ["handoff": "second"], nil,
    ])
    #expect(record.status == .done)
    #expect(requests.count == 1)
    let context = try await engine.context(of: .root)
    #expect(context.entries.map(\.kind) == ["pi.reset"])
    #expect(context.messages.texts == ["second"])
    try await engine.close()
  }

  static let additions: [(agent: JSONObject, tools: JSON?, modelTools: JSON?, offered: [String])] =
    [
      (["tools": ["t0"]], ["t0", "echo"], ["add": ["echo"]], ["t0", "echo"]),
      (["tools": ["remove": ["echo"]]], ["remove": []], ["add": ["echo"]], ["t0", "echo"]),
      (["modelTools": ["t0"]], nil, ["t0", "echo"], ["t0", "echo"]),
      (
        ["modelTools": ["remove": ["echo", "x"]]], nil, ["remove": ["x"], "add": ["echo"]],
        ["t0", "echo"]
      ), ([:], nil, ["add": ["echo"]], ["t0", "echo"]),
    ]

  @Test(arguments: 0..<additions.count)
  func `a result can add tools for the next request`(_ index: Int) async throws {
    let (agent, tools, modelTools, offered) = Self.additions[index]
    let (_, requests, engine) = try await round([["addTools": ["echo"]]], agent: agent)
    let stored = try await engine.session.snapshot(.agent, .root)
    #expect(stored["tools"] == tools)
    #expect(stored["modelTools"] == modelTools)
    #expect(requests.count == 2)
    let last = PromptState(replaying: requests.last?.messages ?? []).toolNames
    #expect(last.map(\.string).sorted() == offered.sorted())
    try await engine.close()
  }

  @Test func `only a completed result asks anything of its round`() async throws {
    let bench = TestBench()
    let tool = plainTool("ends") { _ in
      ToolResult(output: [], isError: true, control: ["terminate": true, "own": 1])
    }
    let engine = try await bench.open(calling(("a", "ends", [:])), tools: [tool])
    _ = try await bench.start(engine)
    #expect(try await bench.ask(engine).status == .done)
    let task = try await TestBench.tasks(engine).first { $0.kind == "pi.tool" }
    guard case .completed(let result)? = task?.state.outcome else {
      Issue.record("\(String(describing: task))")
      return
    }
    #expect(result["control"] == ["terminate": true, "own": 1])
    try await bench.end(engine)
  }

  // MARK: Continuations

  static let continuations: [(queued: SubmissionDraft?, goesOn: Bool)] = [
    (nil, true), (.input(content: "more"), false),
    (.input(content: "more", whenBusy: .steer), false), (.reset, false), (.message("m"), true),
  ]

  @Test(arguments: 0..<continuations.count)
  func `a continuation gives way to queued inputs and resets`(_ index: Int) async throws {
    let (queued, goesOn) = Self.continuations[index]
    let still = try await StillConversation()
    let input = try await still.admit(.input(content: "hi"))
    let task = try #require(TaskID(try await still.run?["taskId"]))
    if let queued { try await still.admit(queued) }
    let message: JSON = ["role": "assistant", "content": [], "stopReason": "stop"]
    try await still.session.commit { tx in
      try await tx.answerRun(of: task, .root, message, continuation: "go on", QueueModes())
      var record = try #require(still.session.liveTask(task))
      record.state = .terminal(.completed(result: [:]))
      try await tx.replace(record)
    }
    #expect(try await still.status(input) == (goesOn ? .placed : .done))
    #expect(try await still.transcript.contains("pi.user go on") == goesOn)
    if goesOn {
      #expect(try await still.run?["inputs"] == [input.json])
      #expect(TaskID(try await still.run?["taskId"]) != task)
    }
    try await still.session.close()
  }
}
