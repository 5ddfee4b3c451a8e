import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

@Suite(.timeLimit(.minutes(5))) struct AbortTests {
  @Test func `an aborted answer leaves its input unanswered`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    let commits = Commits(engine.session)
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    let stream = await model.request(1)
    stream.send([.blockStart(index: 0, .text), .delta(index: 0, "half")])
    await bench.clock.waitForSleeper(of: .milliseconds(100))
    bench.clock.advance(by: .milliseconds(100))
    await commits.first { $0.partial?.contentText == "half" }
    try await engine.abort(.root)
    let record = try await engine.wait(for: id)
    #expect(record.reason == "aborted")
    // What had been shown stays, as an aborted answer.
    let last = try await TestBench.entries(engine).last?.model?.first
    #expect(last?.contentText == "half")
    #expect(last?["stopReason"] == "aborted")
    try await bench.end(engine)
  }

  @Test func `a conversation that was aborted takes the next submission`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let first = try await engine.submit("hi", to: .root)
    _ = await model.request(1)
    try await engine.abort(.root)
    _ = try await engine.wait(for: first)
    let second = try await engine.submit("again", to: .root)
    let stream = await model.request(2)
    stream.send([.blockStart(index: 0, .text), .delta(index: 0, "yes"), .finished(.stop)])
    #expect(try await engine.wait(for: second).status == .done)
    try await bench.end(engine)
  }

  @Test func `an aborted call gets an aborted result before the run ends`() async throws {
    let bench = TestBench()
    let hasStarted = Event()
    let reasons = Log<CancelReason?>()
    let tool = plainTool("runs") { call in
      try call.host.output("begun", skipped: nil)
      try await call.host.flushOutput()
      hasStarted.happen()
      await Event().waitOrCancel()
      reasons.add(call.host.cancelReason)
      return .text("too late")
    }
    let engine = try await bench.open(calling(("a", "runs", [:])), tools: [tool])
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    await hasStarted.wait()
    try await engine.abort(.root)
    #expect(try await engine.wait(for: id).reason == "aborted")
    #expect(reasons.all == [.abort])
    let results = try await TestBench.results(engine)
    #expect(results.count == 1)
    #expect(results.first?.contentText.hasPrefix("begun|<harness>\n[error]") == true)
    let tasks = try await TestBench.tasks(engine)
    #expect(tasks.allSatisfy { if case .terminal(.aborted) = $0.state { true } else { false } })
    try await bench.end(engine)
  }

  @Test func `a call that ignores its abort is left behind after its grace`() async throws {
    let bench = TestBench()
    let (hasStarted, mayEnd) = (Event(), Event())
    let tool = plainTool("deaf", grace: .seconds(4)) { _ in
      hasStarted.happen()
      await mayEnd.wait()
      return .text("too late")
    }
    let engine = try await bench.open(calling(("a", "deaf", [:])), tools: [tool])
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    await hasStarted.wait()
    try await engine.abort(.root)
    await bench.clock.waitForSleeper(ofExactly: .seconds(4))
    bench.clock.advance(by: .seconds(4))
    #expect(try await engine.wait(for: id).reason == "aborted")
    mayEnd.happen()
    try await bench.end(engine)
  }

  @Test func `sequential calls that had not begun are answered as aborted`() async throws {
    var bench = TestBench()
    bench.settings.runsToolsSequentially = true
    let hasStarted = Event()
    let tool = plainTool("runs") { _ in
      hasStarted.happen()
      await Event().waitOrCancel()
      return .text("too late")
    }
    let engine = try await bench.open(
      calling(("a", "runs", [:]), ("b", "runs", [:]), ("c", "runs", [:])),
      tools: [tool]
    )
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    await hasStarted.wait()
    try await engine.abort(.root)
    #expect(try await engine.wait(for: id).reason == "aborted")
    let ids = try await TestBench.results(engine).map { $0["toolCallId"]?.text }
    #expect(ids == ["a", "b", "c"])
    try await bench.end(engine)
  }

  @Test func `a sleeping retry is aborted at once`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(
      ScriptedModel { _ in ScriptedModel.failure(ProviderFailure(.retry, "busy")) }
    )
    let commits = Commits(engine.session)
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    await commits.task("pi.generation") { $0.state.status == .sleeping }
    try await engine.abort(.root)
    #expect(try await engine.wait(for: id).reason == "aborted")
    try await bench.end(engine)
  }

  @Test func `an abort of an idle conversation changes nothing`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(ScriptedModel { _ in ScriptedModel.text("hello") })
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine)
    let before = engine.session.store.lastStaged
    try await engine.abort(.root)
    #expect(engine.session.store.lastStaged == before)
    try await bench.end(engine)
  }

  @Test func `an abort is carried out after a restart`() async throws {
    let bench = TestBench()
    let (hasStarted, mayEnd) = (Event(), Event())
    let tool = plainTool("deaf") { _ in
      hasStarted.happen()
      await mayEnd.wait()
      return .text("too late")
    }
    let model = calling(("a", "deaf", [:]))
    let engine = try await bench.open(model, tools: [tool])
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    await hasStarted.wait()
    try await engine.abort(.root)
    let next = bench.afterDeath()
    mayEnd.happen()
    try await engine.close()

    let again = try await next.open(model, tools: [tool])
    #expect(try await again.wait(for: id).reason == "aborted")
    let entry = try await TestBench.entries(again).first { $0.kind == "pi.tool-result" }
    #expect(entry?.data?["diagnostics"]?.array?.first?["code"] == "aborted")
    try await next.end(again)
  }

  // MARK: Close

  @Test func `a clean stop is counted by nobody`() async throws {
    let bench = TestBench()
    let hasStarted = Event()
    let tool = plainTool("runs", replay: .safe) { _ in
      hasStarted.happen()
      await Event().waitOrCancel()
      return .text("dropped")
    }
    let engine = try await bench.open(calling(("a", "runs", [:])), tools: [tool])
    _ = try await bench.start(engine)
    _ = try await engine.submit("hi", to: .root)
    await hasStarted.wait()
    try await bench.end(engine)
    let store = MemoryStorage(continuing: bench.memory)
    let tasks = try await store.scanTasks(.init(), PageRequest(limit: 9)).items
    let tool2 = tasks.first { $0.kind == "pi.tool" }
    #expect(tool2?.state.status == .pending)
    #expect(tool2?.state.checkpoint?["phase"] == "execute")
    #expect(tasks.allSatisfy { $0.restarts == nil })
    #expect(tasks.allSatisfy { !$0.abortRequested })
  }

  @Test func `a tool that ignores the close delays it by its grace`() async throws {
    let bench = TestBench()
    let (hasStarted, mayEnd) = (Event(), Event())
    let tool = plainTool("deaf", grace: .seconds(4)) { _ in
      hasStarted.happen()
      await mayEnd.wait()
      return .text("too late")
    }
    let engine = try await bench.open(calling(("a", "deaf", [:])), tools: [tool])
    _ = try await bench.start(engine)
    _ = try await engine.submit("hi", to: .root)
    await hasStarted.wait()
    let closing = Task { try await engine.close() }
    await bench.clock.waitForSleeper(ofExactly: .seconds(4))
    bench.clock.advance(by: .seconds(4))
    try await closing.value
    mayEnd.happen()
    try await bench.checkInvariants()
  }

  @Test(arguments: [ReplayPolicy.unsafe, .safe])
  func `an answer during the close is kept if nobody may ask again`(
    replay: ReplayPolicy
  ) async throws {
    let bench = TestBench()
    let hasStarted = Event()
    let tool = plainTool("polite", replay: replay) { call in
      hasStarted.happen()
      // Returns early because the call is cancelled.
      try? await call.host.sleep(milliseconds: 600_000)
      return .text("stopped half way")
    }
    let engine = try await bench.open(calling(("a", "polite", [:])), tools: [tool])
    _ = try await bench.start(engine)
    _ = try await engine.submit("hi", to: .root)
    await hasStarted.wait()
    try await bench.end(engine)
    let store = MemoryStorage(continuing: bench.memory)
    let task = try await store.scanTasks(TaskQuery(kind: "pi.tool"), PageRequest(limit: 1))
      .items.first
    #expect(task?.state.status == (replay == .unsafe ? .terminal : .pending))
  }

  @Test func `a request under way is dropped by the close and made again`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    _ = await model.request(1)
    try await bench.end(engine)
    let next = bench.afterDeath()
    let scripted = ScriptedModel { _ in ScriptedModel.text("hello") }
    let again = try await next.open(scripted)
    #expect(try await again.wait(for: id).status == .done)
    #expect(scripted.seen.map(\.attempt) == [1])
    try await next.end(again)
  }

  @Test func `nothing is taken after the close`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(ScriptedModel { _ in ScriptedModel.text("hello") })
    _ = try await bench.start(engine)
    try await engine.close()
    for body in [
      { _ = try await engine.submit("hi", to: .root) }, { try await engine.resume() },
      { try await engine.abort(.root) },
    ] as [() async throws -> Void] {
      let error = await #expect(throws: PerdureError.self) { try await body() }
      #expect(error?.code == .closed)
    }
    await engine.waitUntilQuiet()
  }
}
