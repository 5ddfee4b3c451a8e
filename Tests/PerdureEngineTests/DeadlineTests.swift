import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

@Suite(.timeLimit(.minutes(5))) struct DeadlineTests {
  @Test func `a value within the grace after the deadline counts`() async throws {
    let bench = TestBench()
    let reasons = Log<CancelReason?>()
    let tool = plainTool("late", deadline: .seconds(10)) { call in
      await Event().waitOrCancel()
      reasons.add(call.host.cancelReason)
      return .text("late but there")
    }
    let engine = try await bench.open(calling(("a", "late", [:])), tools: [tool])
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    await bench.clock.waitForSleeper(of: .seconds(10))
    bench.clock.advance(by: .seconds(10))
    #expect(try await engine.wait(for: id).status == .done)
    #expect(reasons.all == [.deadline])
    #expect(try await TestBench.results(engine).map(\.contentText) == ["late but there"])
    try await bench.end(engine)
  }

  @Test func `a silent call is abandoned and its late answer ignored`() async throws {
    let bench = TestBench()
    let (mayAnswer, hasAnswered) = (Event(), Event())
    let tool = plainTool("silent", deadline: .seconds(10), grace: .seconds(3)) { call in
      try call.host.output("begun", skipped: nil)
      await mayAnswer.wait()
      defer { hasAnswered.happen() }
      return .text("far too late")
    }
    let engine = try await bench.open(calling(("a", "silent", [:])), tools: [tool])
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    await bench.clock.waitForSleeper(of: .seconds(10))
    bench.clock.advance(by: .seconds(10))
    await bench.clock.waitForSleeper(of: .seconds(3))
    bench.clock.advance(by: .seconds(3))
    #expect(try await engine.wait(for: id).status == .done)
    let before = try await TestBench.entries(engine)
    mayAnswer.happen()
    await hasAnswered.wait()
    await engine.waitUntilQuiet()
    #expect(try await TestBench.entries(engine) == before)
    let result = try #require(try await TestBench.results(engine).first)
    #expect(result.contentText.hasPrefix("begun|<harness>\n[error]"))
    #expect(result["isError"] == true)
    let entry = before.first { $0.kind == "pi.tool-result" }
    #expect(entry?.data?["diagnostics"]?.array?.first?["code"] == "interrupted")
    let task = try await TestBench.tasks(engine).first { $0.kind == "pi.tool" }
    #expect(task?.state.outcome?.isCompleted == false)
    try await bench.end(engine)
  }

  @Test func `an error after the deadline is the tool's error`() async throws {
    let bench = TestBench()
    let tool = plainTool("gives-up", deadline: .seconds(10)) { _ in
      await Event().waitOrCancel()
      throw PerdureError(.cancelled, "gave up")
    }
    let engine = try await bench.open(calling(("a", "gives-up", [:])), tools: [tool])
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    await bench.clock.waitForSleeper(of: .seconds(10))
    bench.clock.advance(by: .seconds(10))
    _ = try await engine.wait(for: id)
    let entry = try await TestBench.entries(engine).first { $0.kind == "pi.tool-result" }
    #expect(entry?.data?["diagnostics"]?.array?.first?["code"] == "tool_error")
    try await bench.end(engine)
  }
}
