import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// Runs with submissions that arrive while they are under way.
@Suite(.timeLimit(.minutes(2))) struct QueueTests {
  /// Answers with this text at once.
  private static func say(_ text: String, on stream: LiveModel.Stream) {
    stream.send([.blockStart(index: 0, .text), .delta(index: 0, text), .finished(.stop)])
  }

  private static func call(_ name: JSONString, on stream: LiveModel.Stream) {
    stream.send([
      .blockStart(index: 0, .toolCall(id: "a", name: name)),
      .blockEnd(index: 0, arguments: [:]), .finished(.toolUse),
    ])
  }

  private static func texts(_ messages: [JSON]) -> [String] {
    messages.filter { $0["role"] != "system" }.map { $0["content"]?.text ?? $0.contentText }
  }

  private func answer(_ record: SubmissionRecord) -> EntryID? {
    if case .done(_, let answer) = record.state { return answer }
    return nil
  }

  // MARK: Between and behind runs

  @Test func `a steering input joins the run behind its round of tools`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let (hasStarted, mayEnd) = (Event(), Event())
    let tool = plainTool("works") { _ in
      hasStarted.happen()
      await mayEnd.wait()
      return .text("worked")
    }
    let engine = try await bench.open(model, tools: [tool])
    _ = try await bench.start(engine)
    let first = try await engine.submit("hi", to: .root)
    Self.call("works", on: await model.request(1))
    await hasStarted.wait()
    let steer = try await engine.submit("rather this", to: .root, whenBusy: .steer)
    let later = try await engine.submit("and then", to: .root)
    #expect(try await engine.submission(steer)?.status == .queued)
    mayEnd.happen()
    let second = await model.request(2)
    #expect(Self.texts(second.request.messages) == ["hi", "", "worked", "rather this"])
    Self.say("done", on: second)
    let answers = [
      answer(try await engine.wait(for: first)), answer(try await engine.wait(for: steer)),
    ]
    #expect(answers[0] != nil)
    #expect(answers[0] == answers[1])
    #expect(try await engine.submission(later)?.status == .placed)
    Self.say("that too", on: await model.request(3))
    #expect(try await engine.wait(for: later).status == .done)
    try await bench.end(engine)
  }

  @Test func `a steering input behind the last round begins the next run`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    let commits = Commits(engine.session)
    _ = try await bench.start(engine)
    let first = try await engine.submit("hi", to: .root)
    let stream = await model.request(1)
    let steer = try await engine.submit("rather this", to: .root, whenBusy: .steer)
    Self.say("done", on: stream)
    let one = try await engine.wait(for: first)
    Self.say("done differently", on: await model.request(2))
    let two = try await engine.wait(for: steer)
    #expect(answer(one) != nil && answer(two) != nil)
    #expect(answer(one) != answer(two))
    // The end of the one run and the start of the other are one commit.
    let end = await commits.first { $0.submissions.contains { $0.id == first && $0.isSettled } }
    #expect(end.submissions.map(\.status) == [.placed, .done])
    #expect(end.tasks.filter { $0.kind == "pi.generation" }.count == 2)
    try await bench.end(engine)
  }

  @Test(arguments: [QueueMode.oneAtATime, .all])
  func `follow-ups come one by one or together`(_ mode: QueueMode) async throws {
    var bench = TestBench()
    bench.settings.followUpMode = mode
    let model = LiveModel()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    _ = try await engine.submit("hi", to: .root)
    let stream = await model.request(1)
    let queued = [
      try await engine.submit("one", to: .root), try await engine.submit("two", to: .root),
    ]
    Self.say("done", on: stream)
    let second = await model.request(2)
    let last = Self.texts(second.request.messages).suffix(mode == .all ? 2 : 1)
    #expect(Array(last) == (mode == .all ? ["one", "two"] : ["one"]))
    Self.say("more", on: second)
    if mode == .oneAtATime { Self.say("most", on: await model.request(3)) }
    let records = [
      try await engine.wait(for: queued[0]), try await engine.wait(for: queued[1]),
    ]
    #expect((answer(records[0]) == answer(records[1])) == (mode == .all))
    try await bench.end(engine)
  }

  @Test func `a reset ends the run behind its round and begins anew`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let (hasStarted, mayEnd) = (Event(), Event())
    let tool = plainTool("works") { _ in
      hasStarted.happen()
      await mayEnd.wait()
      return .text("worked")
    }
    let engine = try await bench.open(model, tools: [tool])
    _ = try await bench.start(engine)
    let first = try await engine.submit("hi", to: .root)
    Self.call("works", on: await model.request(1))
    await hasStarted.wait()
    let later = try await engine.submit("and then", to: .root)
    let reset = try await engine.reset(.root, handoff: "from the start")
    let note = try await engine.write(EntryDraft(kind: "note"), to: .root)
    #expect(try await engine.submission(note)?.status == .queued)
    mayEnd.happen()
    let second = await model.request(2)
    #expect(Self.texts(second.request.messages) == ["from the start", "and then"])
    #expect(try await engine.wait(for: first).reason == "reset")
    #expect(try await engine.wait(for: reset).status == .done)
    #expect(try await engine.wait(for: note).status == .done)
    Self.say("done", on: second)
    #expect(try await engine.wait(for: later).status == .done)
    try await bench.end(engine)
  }

  @Test func `a reset of an idle conversation starts nothing`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(ScriptedModel { _ in ScriptedModel.text("hello") })
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine)
    #expect(try await engine.wait(for: try await engine.reset(.root)).status == .done)
    try await engine.waitForIdle(.root)
    #expect(try await engine.context(of: .root).messages == [])
    #expect(try await engine.context(of: .root).entries.map(\.kind) == ["pi.reset"])
    try await bench.end(engine)
  }

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
    let id = try #require(self.answer(record))
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
    #expect(Self.texts(context.messages) == ["second"])
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

  // MARK: Runs that fail

  struct Failure: Sendable, CustomTestStringConvertible {
    var policy: AfterFailedRun
    var hasModel: Bool
    var testDescription: String { "\(policy.rawValue), \(hasModel ? "model error" : "no model")" }
  }

  static let failures = AfterFailedRun.allCases.flatMap { policy in
    [true, false].map { Failure(policy: policy, hasModel: $0) }
  }

  @Test(arguments: failures)
  func `what is queued behind a failed run stays starts or ends`(_ row: Failure) async throws {
    var bench = TestBench()
    bench.settings.afterFailedRun = row.policy
    let engine = try await bench.open(
      ScriptedModel { request in
        request.messages.last?["content"] == "bad"
          ? ScriptedModel.failure(ProviderFailure(.stop, "no")) : ScriptedModel.text("yes")
      }
    )
    _ = try await bench.start(engine)
    if !row.hasModel { try await engine.configure(.root, ["model": .null]) }
    // All three are there before anything runs.
    var ids: [SubmissionID] = []
    try await engine.session.commit(conversation: .root) { tx in
      ids.append(try await tx.admit(.input(content: "bad"), to: .root, QueueModes()))
    }
    for draft in [SubmissionDraft.input(content: "good"), .message("fact")] {
      try await engine.session.commit(conversation: .root) { tx in
        ids.append(try await tx.admit(draft, to: .root, QueueModes()))
      }
    }
    let reason = row.hasModel ? "model_error" : "no_model"
    #expect(try await engine.wait(for: ids[0]).reason == reason)
    try await engine.waitForIdle()
    let queued = try #require(try await engine.submission(ids[1]))
    let write = try await engine.submission(ids[2])?.status
    switch row.policy {
    case .keep:
      #expect(queued.status == .queued)
      #expect(write == .queued)
      // The next submission brings it along.
      let next = try await engine.submit("good too", to: .root)
      _ = try await engine.wait(for: ids[1])
      try await engine.waitForIdle()
      if row.hasModel { #expect(try await engine.wait(for: next).status == .done) }
    case .continue:
      #expect(queued.status == (row.hasModel ? .done : .unanswered))
      #expect(write == .done)
    case .withdraw:
      #expect(queued.reason == "run_failed")
      #expect(write == .queued)
    }
    try await bench.end(engine)
  }

  @Test func `an abort withdraws inputs and leaves writes queued`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let first = try await engine.submit("hi", to: .root)
    _ = await model.request(1)
    let queued = try await engine.submit("more", to: .root)
    let write = try await engine.write(
      EntryDraft(kind: "x", model: [["role": "user", "content": "fact", "timestamp": 0]]),
      to: .root
    )
    try await engine.abortAndWait(.root)
    #expect(engine.session.liveTasks.isEmpty)
    #expect(try await engine.submission(first)?.reason == "aborted")
    #expect(try await engine.submission(queued)?.reason == "aborted")
    #expect(try await engine.submission(write)?.status == .queued)
    let next = try await engine.submit("again", to: .root)
    let second = await model.request(2)
    #expect(Self.texts(second.request.messages) == ["hi", "fact", "again"])
    Self.say("yes", on: second)
    #expect(try await engine.wait(for: next).status == .done)
    try await bench.end(engine)
  }

  @Test func `a run that faults leaves what is queued`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let first = try await engine.submit("hi", to: .root)
    let stream = await model.request(1)
    let queued = try await engine.submit("more", to: .root)
    // An inbox that cannot be read makes the end of the run impossible.
    try await engine.session.commit { tx in
      try await tx.edit(.inbox, .root) { inbox in
        try inbox.set(["items", 0, "mode"], "nonsense")
      }
    }
    Self.say("done", on: stream)
    #expect(try await engine.wait(for: first).reason == "faulted")
    #expect(try await engine.submission(queued)?.status == .queued)
    try await engine.close()
  }

  // MARK: Waits

  @Test func `a settled submission is returned while the host closes`() async throws {
    let bench = TestBench()
    let (hasStarted, mayEnd) = (Event(), Event())
    let tool = plainTool("deaf", grace: .seconds(4)) { _ in
      hasStarted.happen()
      await mayEnd.wait()
      return .text("late")
    }
    let engine = try await bench.open(calling(("a", "deaf", [:])), tools: [tool])
    _ = try await bench.start(engine)
    let note = try await engine.write(EntryDraft(kind: "note"), to: .root)
    let id = try await engine.submit("hi", to: .root)
    await hasStarted.wait()
    async let closed: Void = engine.close()
    await bench.clock.waitForSleeper(ofExactly: .seconds(4))
    #expect(try await engine.wait(for: note).status == .done)
    let error = await #expect(throws: PerdureError.self) { try await engine.wait(for: id) }
    #expect(error?.code == .closed)
    let idle = await #expect(throws: PerdureError.self) { try await engine.waitForIdle() }
    #expect(idle?.code == .closed)
    bench.clock.advance(by: .seconds(4))
    mayEnd.happen()
    try await closed
  }

  @Test func `a wait for idleness ends with the work or with its task`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let other = try await engine.createConversation()
    _ = try await engine.submit("hi", to: .root)
    let stream = await model.request(1)
    try await engine.waitForIdle(other)
    let cancelled = Task { try await engine.waitForIdle(.root) }
    cancelled.cancel()
    await #expect(throws: PerdureError.self) { try await cancelled.value }
    let waiting = Task { try await engine.waitForIdle() }
    Self.say("done", on: stream)
    try await waiting.value
    #expect(engine.session.liveTasks.isEmpty)
    let error = await #expect(throws: PerdureError.self) {
      try await engine.waitForIdle(.known(99))
    }
    #expect(error?.code == .notFound)
    try await bench.end(engine)
  }

  @Test(arguments: [false, true])
  func `work in the background is aborted only if that is asked for`(
    _ background: Bool
  ) async throws {
    let bench = TestBench()
    let session = try await Session.open(bench.memory, clock: bench.clock)
    try await session.commit { _ = try await $0.createConversation(root: true) }
    let id = TaskID.known(try session.store.mintId())
    // Parked, so that it neither runs nor ends by itself.
    var record = TaskRecord(
      id: id,
      conversationId: .root,
      kind: "pi.tool",
      version: 2,
      input: ["kind": "model"],
      background: true,
      state: .pending(checkpoint: ["phase": "call"])
    )
    record.restarts = 9
    _ = try await session.store.stage([.task(record)])
    try await session.close()
    let engine = try await bench.afterDeath().open(LiveModel())
    try await engine.waitForIdle(.root)
    try await engine.abortAndWait(.root, background: background)
    #expect((engine.session.liveTask(id) == nil) == background)
    try await engine.close()
  }

  @Test func `choices are taken over by conversations that a task owns`() async throws {
    let still = try await StillConversation()
    let task = try await still.makeBusy()
    let choices: JSONObject = [
      "model": ["provider": "p", "modelId": "m"], "tools": ["remove": ["a"]],
      "modelTools": ["add": ["b"]], "instructions": "be brief", "cwd": "/", "extensions": ["e"],
      "thinkingLevel": "low",
    ]
    let owned = try await still.session.commit { tx in
      try await tx.configure(.root, choices)
      return try await tx.createConversation(owner: task).id
    }
    #expect(try await still.session.snapshot(.agent, owned) == .object(choices))
    try await still.session.commit { try await $0.configure(.root, ["cwd": .null]) }
    #expect(try await still.session.snapshot(.agent, owned)["cwd"] == "/")
    try await still.session.close()
  }
}

extension Publication {
  var submissions: [SubmissionRecord] {
    changes.compactMap { if case .submission(let record) = $0 { record } else { nil } }
  }
}
