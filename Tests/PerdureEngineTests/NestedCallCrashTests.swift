import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

/// Deaths between the admission, the execution and the settlement of a nested call.
@Suite(.timeLimit(.minutes(5))) struct NestedCallCrashTests {
  private static func tools(_ replay: ReplayPolicy, _ effects: Log<String>) -> [Tool] {
    [
      plainTool("effect", replay: replay) { call in
        let word = call.arguments["word"]?.text ?? ""
        effects.add(word)
        try call.host.output("did \(word)", skipped: nil)
        try await call.host.flushOutput()
        return .text(word)
      },
      plainTool("outer", replay: .safe) { call in
        let one = try await call.executeTool("effect", ["word": "one"])
        let two = try await call.executeTool("effect", ["word": "two"], key: "second")
        let texts = [one, two].map { $0.structuredOutput?.text ?? "interrupted" }
        return .text(texts.joined(separator: " "))
      },
    ]
  }

  private static func play(
    _ bench: TestBench,
    _ replay: ReplayPolicy,
    _ effects: Log<String>
  ) async throws -> (text: String, tasks: Int) {
    let engine = try await bench.open(
      calling(("c1", "outer", [:])),
      tools: tools(replay, effects)
    )
    _ = try await bench.start(engine)
    try await engine.resume()
    let id = try await engine.submit("go", to: .root, requestId: "r")
    _ = try await engine.wait(for: id)
    await engine.waitUntilQuiet()
    let text = try await TestBench.results(engine).first?.contentText ?? ""
    let tasks = try await TestBench.tasks(engine).filter { $0.input["key"] != nil }.count
    try await bench.end(engine)
    return (text, tasks)
  }

  @Test(arguments: [ReplayPolicy.safe, .unsafe])
  func `a death after any commit leaves calls that are found again`(
    _ replay: ReplayPolicy
  ) async throws {
    var bench = TestBench()
    let recording = RecordingStorage(bench.memory)
    bench.front = { _ in recording }
    let whole = try await Self.play(bench, replay, Log())
    #expect(whole.text == "one two")
    bench.front = nil
    let batches = recording.batches
    #expect(batches.count > 12)
    let nextId = try await MemoryStorage(continuing: bench.memory).counters().nextId
    for count in 1...batches.count {
      bench.memory = MemoryStorage()
      try await bench.memory.apply(
        Array(batches.prefix(count)),
        expecting: StoreCounters(),
        nextId: nextId
      )
      let effects = Log<String>()
      let end = try await Self.play(bench, replay, effects)
      #expect(end.tasks == 2, "after \(count) commits")
      #expect(effects.all.filter { $0 == "one" }.count <= 1, "after \(count) commits")
      if replay == .safe {
        #expect(end.text == "one two", "after \(count) commits")
      } else {
        let words = Set(end.text.split(separator: " "))
        #expect(words.isSubset(of: ["one", "two", "interrupted"]), "after \(count) commits")
      }
    }
  }

  @Test(arguments: [false, true])
  func `a call of a caller that is not run again is not resumed`(
    _ hasStarted: Bool
  ) async throws {
    let bench = TestBench()
    let started = Event()
    let tools = [
      plainTool("slow") { call in
        started.happen()
        try await call.host.sleep(milliseconds: 1_000_000)
        return .text("late")
      },
      plainTool("outer") { .text("\(try await $0.executeTool("slow").isError)") },
    ]
    let engine = try await bench.open(calling(("c1", "outer", [:])), tools: tools)
    let commits = Commits(engine.session)
    _ = try await bench.start(engine)
    let id = try await engine.submit("go", to: .root)
    if hasStarted {
      await started.wait()
    } else {
      await commits.task("pi.tool") { $0.input["key"] != nil }
    }
    try await engine.session.barrier()
    let next = bench.afterDeath()
    let second = try await next.open(calling(("c1", "outer", [:])), tools: tools)
    _ = try await second.wait(for: id)
    await second.waitUntilQuiet()
    let result = try await TestBench.results(second).first
    #expect(result?.contentText.contains("interrupted") == true)
    let nested = try #require(try await TestBench.tasks(second).first { $0.input["key"] != nil })
    #expect(nested.state.outcome == .aborted(result: ["kind": "nested"]))
    #expect(nested.abortReason == "restart")
    try await next.end(second)
    try await engine.close()
  }

  @Test func `a call that leaves work in its conversation is held until that has ended`()
    async throws
  {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(
      model,
      tools: [
        plainTool("outer") { call in
          guard let runtime = (call.invocation as? ToolInvocation)?.runtime else {
            return .text("no engine")
          }
          let child = try await runtime.commitValue { tx, record in
            try await tx.createConversation(owner: record.id).id
          }
          _ = try await runtime.engine?.submit("dig", to: child)
          return .text("begun")
        }
      ]
    )
    let commits = Commits(engine.session)
    _ = try await bench.start(engine)
    let id = try await engine.submit("go", to: .root)
    await model.request(1).send(
      ScriptedModel.calls(("c1", "outer", [:])).flatMap { $0 }
    )
    // The call has its result, and its conversation still works.
    await commits.task("pi.tool") { $0.state.status == .completing }
    let inner = await model.request(2)
    #expect(inner.request.messages.last?["content"] == "dig")
    #expect(try await engine.submission(id)?.isSettled == false)
    inner.send(ScriptedModel.text("deep").flatMap { $0 })
    await model.request(3).send(ScriptedModel.text("done").flatMap { $0 })
    #expect(try await engine.wait(for: id).status == .done)
    try await bench.end(engine)
  }

  @Test func `C.6: a call that throws takes the work of its conversation along`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let queued = Log<SubmissionID>()
    let engine = try await bench.open(
      model,
      tools: [
        plainTool("outer") { call in
          guard let runtime = (call.invocation as? ToolInvocation)?.runtime,
            let engine = runtime.engine
          else { return .text("no engine") }
          let child = try await runtime.commitValue { tx, record in
            try await tx.createConversation(owner: record.id).id
          }
          queued.add(try await engine.submit("dig", to: child))
          queued.add(try await engine.submit("dig on", to: child))
          throw PerdureError(.invalidInput, "no spade")
        }
      ]
    )
    _ = try await bench.start(engine)
    let id = try await engine.submit("go", to: .root)
    await model.request(1).send(
      ScriptedModel.calls(("c1", "outer", [:])).flatMap { $0 }
    )
    // The child's request may have been sent before it was cancelled.
    var last = await model.request(2)
    if last.request.messages.last?["role"] == "user" { last = await model.request(3) }
    for input in queued.all {
      #expect(try await engine.wait(for: input).json["reason"] == "aborted")
    }
    let outer = try #require(try await TestBench.tasks(engine).first { $0.kind == "pi.tool" })
    guard case .failed? = outer.state.outcome else { return #expect(Bool(false)) }
    last.send(ScriptedModel.text("done").flatMap { $0 })
    #expect(try await engine.wait(for: id).status == .done)
    try await bench.end(engine)
  }
}
