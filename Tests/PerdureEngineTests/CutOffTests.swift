import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// Calls and tasks whose code was in a process that died, while the host goes on.
@Suite(.timeLimit(.minutes(5))) struct CutOffTests {
  private static let fault = PerdureError(.pluginFault, "the process of plugin p crashed")

  /// Runs one call of a tool whose process dies in the first run; returns how each run was made, the
  /// result and the task.
  private func run(
    _ replay: ReplayPolicy
  ) async throws -> (runs: [Bool], result: JSON, task: TaskRecord) {
    let runs = Log<Bool>()
    let tool = plainTool("dies", replay: replay) { call in
      runs.add(call.recovered)
      guard runs.all.count > 1 else { throw Self.fault }
      return .text("fine \(call.arguments["n"]?.int ?? 0)")
    }
    let bench = TestBench()
    let engine = try await bench.open(calling(("a", "dies", ["n": 7])), tools: [tool])
    _ = try await bench.start(engine)
    #expect(try await bench.ask(engine).status == .done)
    let entry = try #require(
      try await TestBench.entries(engine).first { $0.kind == "pi.tool-result" }
    )
    let task = try #require(try await TestBench.tasks(engine).first { $0.kind == "pi.tool" })
    try await bench.end(engine)
    return (runs.all, entry.model?.first ?? .null, task)
  }

  @Test func `a safe call whose process dies is made again with the stored arguments`()
    async throws
  {
    let (runs, result, task) = try await run(.safe)
    #expect(runs == [false, true])
    #expect(result["content"]?.array?.first?["text"] == "fine 7")
    #expect(task.state.outcome?.result != nil)
  }

  @Test func `an unsafe call whose process dies is interrupted and not made again`()
    async throws
  {
    let (runs, result, task) = try await run(.unsafe)
    #expect(runs == [false])
    #expect(result["isError"] == true)
    guard case .failed? = task.state.outcome else {
      Issue.record("the task ended as \(String(describing: task.state.outcome))")
      return
    }
  }

  @Test func `a task whose process dies goes on from its checkpoint and is counted`()
    async throws
  {
    let restarts = Log<Int64>()
    let work = TestTask(
      "work",
      phases: [
        "start": { runtime, record in
          restarts.add(record.restarts ?? 0)
          guard restarts.all.count > 1 else { throw Self.fault }
          try await runtime.commit { _, _ in .terminal(.completed(result: "done")) }
        }
      ]
    )
    let bench = TestBench()
    let engine = try await bench.open([work])
    let id = try await engine.create(work)
    #expect(try await engine.outcome(id) == .completed(result: "done"))
    #expect(restarts.all == [0, 1])
    try await bench.end(engine)
  }
}
