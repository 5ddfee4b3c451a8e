import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

@Suite(.timeLimit(.minutes(5))) struct RestartTests {
  /// Opens, lets `tool` start and dies; so often.
  private func die(_ times: Int, _ bench: TestBench) async throws -> TestBench {
    var bench = bench
    for _ in 0..<times {
      let (hasStarted, mayEnd) = (Event(), Event())
      let tool = plainTool("crashes", replay: .safe) { _ in
        hasStarted.happen()
        await mayEnd.wait()
        return .text("lost")
      }
      let engine = try await bench.open(calling(("a", "crashes", [:])), tools: [tool])
      _ = try await bench.start(engine)
      _ = try await engine.submit("hi", to: .root, requestId: "r")
      await hasStarted.wait()
      bench = bench.afterDeath()
      mayEnd.happen()
      try await engine.close()
    }
    return bench
  }

  private func toolTask(_ engine: Engine) -> TaskRecord? {
    engine.session.liveTasks.values.first { $0.kind == "pi.tool" }
  }

  private let calm = plainTool("crashes", replay: .safe) { _ in .text("fine") }

  @Test func `crashes without progress are counted`() async throws {
    let bench = try await die(3, TestBench())
    let engine = try await bench.open(calling(("a", "crashes", [:])), tools: [calm])
    #expect(toolTask(engine)?.restarts == 3)
    try await bench.end(engine)
  }

  @Test func `progress takes the count back`() async throws {
    let bench = try await die(3, TestBench())
    let engine = try await bench.open(calling(("a", "crashes", [:])), tools: [calm])
    let id = try await engine.submit("hi", to: .root, requestId: "r")
    #expect(try await engine.wait(for: id).status == .done)
    #expect(try await TestBench.tasks(engine).allSatisfy { $0.restarts == nil })
    try await bench.end(engine)
  }

  @Test func `a generation that moved on is not counted for its tool's crashes`() async throws {
    let bench = try await die(3, TestBench())
    let engine = try await bench.open(calling(("a", "crashes", [:])), tools: [calm])
    let generation = engine.session.liveTasks.values.first { $0.kind == "pi.generation" }
    #expect(generation?.restarts == nil)
    try await bench.end(engine)
  }

  @Test func `a task that crashes too often is parked and reported once`() async throws {
    let bench = try await die(5, TestBench())
    let engine = try await bench.open(calling(("a", "crashes", [:])), tools: [calm])
    try await engine.resume()
    await engine.waitUntilQuiet()
    #expect(engine.scheduler.obstacles.map(\.reason) == ["restart_limit"])
    // Something else happens meanwhile.
    let other = try await engine.createConversation()
    try await engine.configure(other, ["model": ScriptedModel.reference.json])
    _ = try await bench.ask(engine, in: other)
    await engine.waitUntilQuiet()
    #expect(bench.reports.all.map(\.type).filter { $0 == "task_parked" }.count == 1)
    try await bench.end(engine)
  }

  @Test func `a parked task whose calls end is not reported again`() async throws {
    let bench = try await die(1, TestBench())
    let session = try await Session.open(bench.memory, clock: bench.clock)
    var owner = try #require(session.liveTasks.values.first { $0.kind == "pi.generation" })
    owner.state = .pending(checkpoint: owner.state.checkpoint ?? .null)
    owner.restarts = 5
    _ = try await session.store.stage([.task(owner)])
    try await session.close()
    let next = bench.afterDeath()
    let engine = try await next.open(calling(("a", "crashes", [:])), tools: [calm])
    try await engine.resume()
    await engine.waitUntilQuiet()
    #expect(engine.session.liveTasks.count == 1)
    #expect(next.reports.all.map(\.type).filter { $0 == "task_parked" }.count == 1)
    try await next.end(engine)
  }

  @Test func `a higher limit lets a parked task go on`() async throws {
    var bench = try await die(5, TestBench())
    bench.settings.restartLimit = 9
    let engine = try await bench.open(calling(("a", "crashes", [:])), tools: [calm])
    let id = try await engine.submit("hi", to: .root, requestId: "r")
    #expect(try await engine.wait(for: id).status == .done)
    try await bench.end(engine)
  }

  @Test func `a limit below one is one`() async throws {
    var bench = try await die(1, TestBench())
    bench.settings.restartLimit = -3
    let engine = try await bench.open(calling(("a", "crashes", [:])), tools: [calm])
    try await engine.resume()
    await engine.waitUntilQuiet()
    #expect(engine.scheduler.obstacles.map(\.reason) == ["restart_limit"])
    try await bench.end(engine)
  }

  @Test func `a parked task is aborted`() async throws {
    let bench = try await die(5, TestBench())
    let engine = try await bench.open(calling(("a", "crashes", [:])), tools: [calm])
    let id = try await engine.submit("hi", to: .root, requestId: "r")
    await engine.waitUntilQuiet()
    try await engine.abort(.root)
    #expect(try await engine.wait(for: id).reason == "aborted")
    #expect(engine.scheduler.obstacles.isEmpty)
    try await bench.end(engine)
  }

  @Test func `an abort handler that is cut off too often faults`() async throws {
    let bench = try await die(1, TestBench())
    let session = try await Session.open(bench.memory, clock: bench.clock)
    for var task in session.liveTasks.values {
      task.abortRequested = true
      if task.kind == "pi.tool" { task.restarts = 4 }
      _ = try await session.store.stage([.task(task)])
    }
    try await session.close()
    let next = bench.afterDeath()
    let engine = try await next.open(calling(("a", "crashes", [:])), tools: [calm])
    let id = try await engine.submit("hi", to: .root, requestId: "r")
    #expect(try await engine.wait(for: id).reason == "aborted")
    let task = try await TestBench.tasks(engine).first { $0.kind == "pi.tool" }
    #expect(task?.state.outcome?.detail == ["reason": "restart_limit"])
    try await next.end(engine)
  }

  @Test func `a mark that a restart left becomes a request by an abort`() async throws {
    let bench = try await die(1, TestBench())
    let session = try await Session.open(bench.memory, clock: bench.clock)
    var marked = try #require(session.liveTasks.values.first { $0.kind == "pi.tool" })
    marked.abortRequested = true
    marked.abortReason = "restart"
    _ = try await session.store.stage([.task(marked)])
    try await session.close()
    let next = bench.afterDeath()
    let engine = try await next.open(calling(("a", "crashes", [:])), tools: [calm])
    let commits = Commits(engine.session)
    try await engine.abort(.root)
    let task = await commits.task("pi.tool") { $0.abortRequested }
    #expect(task?.abortReason == nil)
    await engine.waitUntilQuiet()
    try await next.end(engine)
  }

  @Test func `a call that a restart abandons says so`() async throws {
    let bench = try await die(1, TestBench())
    let session = try await Session.open(bench.memory, clock: bench.clock)
    var marked = try #require(session.liveTasks.values.first { $0.kind == "pi.tool" })
    marked.abortRequested = true
    marked.abortReason = "restart"
    _ = try await session.store.stage([.task(marked)])
    try await session.close()
    let next = bench.afterDeath()
    let engine = try await next.open(calling(("a", "crashes", [:])), tools: [calm])
    let id = try await engine.submit("hi", to: .root, requestId: "r")
    #expect(try await engine.wait(for: id).status == .done)
    let entry = try await TestBench.entries(engine).first { $0.kind == "pi.tool-result" }
    #expect(entry?.data?["diagnostics"]?.array?.last?["code"] == "interrupted")
    try await next.end(engine)
  }
}
