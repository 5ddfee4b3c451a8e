import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// Nested calls among what stands between a call and its tool: hooks, questions and the deadline.
@Suite(.timeLimit(.minutes(5))) struct NestedCallHookTests {
  private let bench = TestBench()

  private func open(_ tools: [Tool], _ hook: Hook? = nil) async throws -> Engine {
    let engine = try await bench.open(
      calling(("c1", "outer", [:])),
      tools: tools,
      extensions: [Extension(name: "ext", hooks: hook.map { [$0] } ?? [])]
    )
    _ = try await bench.start(engine)
    return engine
  }

  @Test func `hooks see within which call another one was made`() async throws {
    let seen = Log<HookedCall>()
    let hook = Hook.beforeTool { call, _ in
      seen.add(call)
      return .proceed
    }
    let outer = plainTool("outer") { call in
      _ = try await call.executeTool("echo", ["text": "x"], key: "k")
      return .text("")
    }
    let engine = try await open([echo, outer], hook)
    _ = try await bench.ask(engine)
    let task = try await TestBench.tasks(engine).first { $0.input["kind"] == "model" }
    let parent = HookedCall.Parent(taskId: try #require(task?.id), callId: "c1")
    #expect(seen.all.map(\.id) == ["c1", "c1/k"])
    #expect(seen.all.map(\.parent) == [nil, parent])
    try await bench.end(engine)
  }

  @Test func `a result that a guard keeps back does not reach the calling tool`() async throws {
    let seen = Log<NestedToolResult>()
    let hook = Hook.afterTool(role: .guard, tools: ["echo"]) { _, _, _ in .deny("secret") }
    let outer = plainTool("outer") { call in
      seen.add(try await call.executeTool("echo", ["text": "x"]))
      return .text("")
    }
    let engine = try await open([echo, outer], hook)
    _ = try await bench.ask(engine)
    let result = try #require(seen.all.first)
    #expect(result.isError)
    #expect(result.diagnostics.compactMap(\.code) == ["blocked"])
    #expect(result.structuredOutput == "")
    try await bench.end(engine)
  }

  @Test func `NC-4: what hooks make of a result is held against the schema`() async throws {
    let seen = Log<NestedToolResult>()
    let hook = Hook.afterTool(tools: ["typed"]) { _, result, _ in
      var changed = result
      changed.structuredOutput = "no number"
      return .change(changed)
    }
    var typed = plainTool("typed") { _ in
      var result = ToolResult.text("")
      result.structuredOutput = 1
      return result
    }
    typed.structuredOutputSchema = ["type": "integer"]
    let outer = plainTool("outer") { call in
      seen.add(try await call.executeTool("typed"))
      return .text("")
    }
    let engine = try await open([typed, outer], hook)
    _ = try await bench.ask(engine)
    #expect(seen.all.first?.diagnostics.compactMap(\.code) == ["invalid_structured_output"])
    #expect(seen.all.first?.structuredOutput == nil)
    try await bench.end(engine)
  }

  @Test func `hooks see what an aborted nested call had shown`() async throws {
    let (started, seen) = (Event(), Log<String?>())
    let hook = Hook.onAbort(tools: ["slow"]) { _, result, _ in
      seen.add(result.output?.first?["text"]?.text)
      return .proceed
    }
    let slow = plainTool("slow") { call in
      try call.host.output("half", skipped: nil)
      try await call.host.flushOutput()
      started.happen()
      await Event().waitOrCancel()
      return .text("late")
    }
    let outer = plainTool("outer") { call in
      _ = try await call.executeTool("slow")
      return .text("")
    }
    let engine = try await open([slow, outer], hook)
    let id = try await engine.submit("hi", to: .root)
    await started.wait()
    try await engine.abort(.root)
    _ = try await engine.wait(for: id)
    #expect(seen.all == ["half"])
    try await bench.end(engine)
  }

  @Test func `the deadline of a call stands still while it waits for a nested one`() async throws {
    let (mayEnd, reasons) = (Event(), Log<CancelReason?>())
    let inner = plainTool("inner", deadline: .seconds(50)) { _ in
      await mayEnd.wait()
      return .text("in time")
    }
    let outer = plainTool("outer", deadline: .seconds(10)) { call in
      let text = try await call.executeTool("inner").structuredOutput?.text ?? ""
      reasons.add(call.host.cancelReason)
      return .text(text)
    }
    let engine = try await open([inner, outer])
    let id = try await engine.submit("hi", to: .root)
    await bench.clock.waitForSleeper(of: .seconds(50))
    bench.clock.advance(by: .seconds(20))
    mayEnd.happen()
    #expect(try await engine.wait(for: id).status == .done)
    #expect(reasons.all == [nil])
    #expect(try await TestBench.results(engine).map(\.contentText) == ["in time"])
    try await bench.end(engine)
  }

  @Test func `a nested call waits for its approval, longer than its caller may run`() async throws {
    var bench = TestBench()
    bench.settings.waitsForApprovals = true
    var inner = plainTool("inner") { _ in .text("approved") }
    inner.approval = .required
    let outer = plainTool("outer", deadline: .seconds(10)) { call in
      .text(try await call.executeTool("inner").structuredOutput?.text ?? "")
    }
    let engine = try await bench.open(calling(("c1", "outer", [:])), tools: [inner, outer])
    _ = try await bench.start(engine)
    let commits = Commits(engine.session)
    let id = try await engine.submit("hi", to: .root)
    let asked = await commits.first { $0.tasks.contains { $0.kind == Approval.kind } }
    let question = try #require(asked.tasks.compactMap { Approval($0) }.first)
    #expect(question.callId == "c1/1")
    bench.clock.advance(by: .seconds(20))
    _ = try await engine.decide(question.id, .init(isAllowed: true))
    #expect(try await engine.wait(for: id).status == .done)
    #expect(try await TestBench.results(engine).map(\.contentText) == ["approved"])
    try await bench.end(engine)
  }
}
