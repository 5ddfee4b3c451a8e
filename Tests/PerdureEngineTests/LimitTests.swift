import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

@Suite struct LimitTests {
  /// A model that calls `echo` without end, each answer for the same price.
  private static let tireless = ScriptedModel { _ in
    var usage = Usage()
    usage.input = 60
    usage.output = 40
    usage.totalTokens = 100
    usage.cost.total = 0.5
    let call = AnswerBlock.toolCall(id: "c", name: "echo")
    return [
      [
        .blockStart(index: 0, call), .blockEnd(index: 0, arguments: HookTests.sayHi),
        .usage(usage), .finished(.toolUse),
      ]
    ]
  }

  static let limits:
    [(name: String, reason: String, turns: Int, set: @Sendable (inout Settings) -> Void)] =
      [
        ("turns", "max_turns", 3, { $0.maxTurns = 3 }),
        ("no turns", "max_turns", 0, { $0.maxTurns = 0 }),
        ("tokens", "budget", 3, { $0.runBudget.tokens = 250 }),
        ("tokens to the last", "budget", 2, { $0.runBudget.tokens = 200 }),
        ("money", "budget", 2, { $0.runBudget.cost = 0.9 }),
        ("tokens of the conversation", "budget", 3, { $0.conversationBudget.tokens = 201 }),
        ("money of the conversation", "budget", 1, { $0.conversationBudget.cost = 0.5 }),
        (
          "the narrowest", "budget", 1,
          {
            $0.maxTurns = 5
            $0.runBudget.tokens = 100
          }
        ),
      ]

  @Test(arguments: 0..<limits.count)
  func `a run that has reached a limit ends before its next request`(_ index: Int) async throws {
    let limit = Self.limits[index]
    var bench = TestBench()
    limit.set(&bench.settings)
    let engine = try await bench.open(Self.tireless, tools: [echo])
    _ = try await bench.start(engine)
    let submission = try await bench.ask(engine)
    guard case .unanswered(let reason, let detail, _) = submission.state else {
      throw PerdureError(.invalidInput, "the run went on")
    }
    #expect(reason == limit.reason, "\(limit.name)")
    #expect(detail?.text?.isEmpty == false)
    let answers = try await TestBench.entries(engine).filter { $0.kind == "pi.assistant" }
    #expect(answers.count == limit.turns, "\(limit.name)")
    let last = try await TestBench.tasks(engine).last { $0.kind == "pi.generation" }
    guard case .failed(_, let failure, _)? = last?.state.outcome else {
      throw PerdureError(.invalidInput, "the generation did not fail")
    }
    #expect(failure == ["reason": .string(reason)])
    try await bench.end(engine)
  }

  @Test func `the next run begins to count anew, the conversation goes on counting`() async throws {
    var bench = TestBench()
    bench.settings.maxTurns = 2
    bench.settings.conversationBudget.tokens = 350
    let engine = try await bench.open(Self.tireless, tools: [echo])
    _ = try await bench.start(engine)
    var reasons: [String] = []
    for _ in 0..<3 {
      if case .unanswered(let reason, _, _) = try await bench.ask(engine).state {
        reasons.append(reason)
      }
    }
    #expect(reasons == ["max_turns", "max_turns", "budget"])
    try await bench.end(engine)
  }

  @Test func `a restart forgets nothing of what was used`() async throws {
    var bench = TestBench()
    bench.settings.maxTurns = 2
    let started = Event()
    let stuck = plainTool("echo", replay: .safe) { _ in
      started.happen()
      await Event().waitOrCancel()
      return .text("")
    }
    let engine = try await bench.open(Self.tireless, tools: [stuck])
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    await started.wait()
    try await engine.session.barrier()
    let next = bench.afterDeath()
    let reopened = try await next.open(Self.tireless, tools: [echo])
    guard case .unanswered(let reason, _, _) = try await reopened.wait(for: id).state else {
      throw PerdureError(.invalidInput, "the run went on")
    }
    #expect(reason == "max_turns")
    let answers = try await TestBench.entries(reopened).filter { $0.kind == "pi.assistant" }
    #expect(answers.count == 2)
    try await next.end(reopened)
    try? await engine.close()
  }

  @Test func `failed attempts are no answers, but what they cost counts`() async throws {
    var bench = TestBench()
    bench.settings.maxTurns = 1
    let model = ScriptedModel { request in
      request.attempt == 1
        ? ScriptedModel.failure(ProviderFailure(.retry, "busy")) : ScriptedModel.text("hello")
    }
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    async let submission = bench.ask(engine)
    await bench.clock.waitForSleeper(of: .seconds(2))
    bench.clock.advance(by: .seconds(2))
    #expect(try await submission.status == .done)
    try await bench.end(engine)
  }
}
