import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// Calls that ignore their cancellation: never two effects at once, and nobody waits beyond the grace.
@Suite(.timeLimit(.minutes(5))) struct AbandonedCallTests {
  /// A tool that returns only when the test lets it, whatever happens to its calls.
  final class Deaf: Sendable {
    private struct State {
      var running = 0
      var most = 0
    }

    private let state = Mutex(State())
    private let arrivals: [Event]
    private let gates: [Event]
    private let next = Mutex(0)

    init(calls: Int = 4) {
      arrivals = (0..<calls).map { _ in Event() }
      gates = (0..<calls).map { _ in Event() }
    }

    /// The greatest number of calls that ran at the same time.
    var most: Int { state.withLock { $0.most } }
    var count: Int { next.withLock { $0 } }

    func hasStarted(_ number: Int) async { await arrivals[number].wait() }
    func release(_ number: Int) { gates[number].happen() }

    func run() async {
      let number = next.withLock { next in
        defer { next += 1 }
        return next
      }
      state.withLock { state in
        state.running += 1
        state.most = max(state.most, state.running)
      }
      arrivals[number].happen()
      await gates[number].wait()
      state.withLock { $0.running -= 1 }
    }

    func tool(replay: ReplayPolicy = .unsafe, maxConcurrency: Int? = nil) -> Tool {
      Tool(
        name: "deaf",
        description: "A tool of a test.",
        parameters: ["type": "object"],
        replay: replay,
        deadline: .seconds(100),
        grace: .seconds(4),
        maxConcurrency: maxConcurrency
      ) { [self] _ in
        await run()
        return .text("late")
      }
    }
  }

  private static let model = ScriptedModel { request in
    guard ScriptedModel.turn(of: request) == 0 else { return ScriptedModel.text("done") }
    return [
      [
        .blockStart(index: 0, .toolCall(id: "a", name: "deaf")),
        .blockEnd(index: 0, arguments: [:]), .finished(.toolUse),
      ]
    ]
  }

  private static func passDeadline(_ bench: TestBench) async {
    await bench.clock.waitForSleeper(ofExactly: .seconds(100))
    bench.clock.advance(by: .seconds(100))
    await bench.clock.waitForSleeper(ofExactly: .seconds(4))
    bench.clock.advance(by: .seconds(4))
  }

  private static func second(_ engine: Engine) async throws -> ConversationID {
    try await engine.createConversation(configure: ["model": ScriptedModel.reference.json])
  }

  enum Kind: String, CaseIterable {
    case unsafe, limited

    func tool(_ deaf: Deaf) -> Tool {
      switch self {
      case .unsafe: deaf.tool()
      case .limited: deaf.tool(replay: .safe, maxConcurrency: 1)
      }
    }
  }

  @Test(arguments: Kind.allCases)
  func `LC-4: a call that waits too long for one that was given up is not made`(
    _ kind: Kind
  ) async throws {
    let bench = TestBench()
    let deaf = Deaf()
    // The model does not believe that the first call has failed.
    let model = ScriptedModel { request in
      ScriptedModel.turn(of: request) < 2
        ? ScriptedModel.calls((id: "a", name: "deaf", arguments: [:])) : ScriptedModel.text("done")
    }
    let engine = try await bench.open(model, tools: [kind.tool(deaf)])
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    await deaf.hasStarted(0)
    await Self.passDeadline(bench)
    await bench.clock.waitForSleeper(ofExactly: .seconds(104))
    bench.clock.advance(by: .seconds(104))
    #expect(try await engine.wait(for: id).status == .done)
    #expect(deaf.count == 1)
    let result = try await TestBench.results(engine).last
    #expect(result?["isError"] == true)
    #expect(result?.contentText.contains("that was given up may still be running") == true)
    deaf.release(0)
    try await bench.end(engine)
  }

  @Test(arguments: Kind.allCases)
  func `the next call of another conversation waits for one that was given up`(
    _ kind: Kind
  )
    async throws
  {
    let bench = TestBench()
    let deaf = Deaf()
    let engine = try await bench.open(Self.model, tools: [kind.tool(deaf)])
    _ = try await bench.start(engine)
    let other = try await Self.second(engine)
    let first = try await engine.submit("hi", to: .root)
    await deaf.hasStarted(0)
    await Self.passDeadline(bench)
    #expect(try await engine.wait(for: first).status == .done)
    let result = try #require(try await TestBench.results(engine).first)
    #expect(result.contentText.contains("it may still be running"))

    let commits = Commits(engine.session)
    let second = try await engine.submit("hi", to: other)
    await commits.task("pi.tool") { $0.conversationId == other && $0.state.status == .running }
    #expect(deaf.count == 1)
    deaf.release(0)
    await deaf.hasStarted(1)
    deaf.release(1)
    #expect(try await engine.wait(for: second).status == .done)
    #expect(deaf.most == 1)
    try await bench.end(engine)
  }

  @Test func `a call after an abort waits for the one that was given up`() async throws {
    let bench = TestBench()
    let deaf = Deaf()
    let engine = try await bench.open(Self.model, tools: [deaf.tool()])
    _ = try await bench.start(engine)
    let first = try await engine.submit("hi", to: .root)
    await deaf.hasStarted(0)
    try await engine.abort(.root)
    await bench.clock.waitForSleeper(ofExactly: .seconds(4))
    bench.clock.advance(by: .seconds(4))
    #expect(try await engine.wait(for: first).reason == "aborted")

    let other = try await Self.second(engine)
    let second = try await engine.submit("hi", to: other)
    deaf.release(0)
    await deaf.hasStarted(1)
    deaf.release(1)
    #expect(try await engine.wait(for: second).status == .done)
    #expect(deaf.most == 1)
    try await bench.end(engine)
  }

  @Test func `a call that waits for one that was given up is aborted at once`() async throws {
    let bench = TestBench()
    let deaf = Deaf()
    let engine = try await bench.open(Self.model, tools: [deaf.tool()])
    _ = try await bench.start(engine)
    let first = try await engine.submit("hi", to: .root)
    await deaf.hasStarted(0)
    await Self.passDeadline(bench)
    _ = try await engine.wait(for: first)
    let other = try await Self.second(engine)
    let commits = Commits(engine.session)
    let second = try await engine.submit("hi", to: other)
    await commits.task("pi.tool") { $0.conversationId == other && $0.state.status == .running }
    try await engine.abort(other)
    #expect(try await engine.wait(for: second).reason == "aborted")
    #expect(deaf.count == 1)
    deaf.release(0)
    try await bench.end(engine)
  }

  @Test func `a late effect holds the next call back in another opening of the process, too`()
    async throws
  {
    let bench = TestBench()
    let deaf = Deaf()
    let tool = deaf.tool()
    var engine = try await bench.open(Self.model, tools: [tool])
    _ = try await bench.start(engine)
    _ = try await engine.submit("hi", to: .root)
    await deaf.hasStarted(0)
    let (closing, closed) = (engine, Event())
    let close = Task {
      try await closing.close()
      closed.happen()
    }
    // Closing waits as long as the grace and no longer.
    await bench.clock.waitForSleeper(ofExactly: .seconds(4))
    #expect(!closed.hasHappened)
    bench.clock.advance(by: .seconds(4))
    try await close.value

    let next = bench.afterDeath()
    engine = try await next.open(Self.model, tools: [tool])
    let other = try await Self.second(engine)
    let second = try await engine.submit("hi", to: other)
    deaf.release(0)
    await deaf.hasStarted(1)
    deaf.release(1)
    #expect(try await engine.wait(for: second).status == .done)
    #expect(deaf.most == 1)
    try await next.end(engine)
  }

  @Test func `calls of a tool with a limit of one follow each other`() async throws {
    let bench = TestBench()
    let deaf = Deaf()
    let engine = try await bench.open(
      calling(("a", "deaf", [:]), ("b", "deaf", [:]), ("c", "deaf", [:])),
      tools: [deaf.tool(maxConcurrency: 1)]
    )
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    for number in 0..<3 {
      await deaf.hasStarted(number)
      deaf.release(number)
    }
    #expect(try await engine.wait(for: id).status == .done)
    #expect(deaf.most == 1)
    try await bench.end(engine)
  }

  @Test func `calls of a safe tool do not wait for one that was given up`() async throws {
    let bench = TestBench()
    let deaf = Deaf()
    let engine = try await bench.open(Self.model, tools: [deaf.tool(replay: .safe)])
    _ = try await bench.start(engine)
    let first = try await engine.submit("hi", to: .root)
    await deaf.hasStarted(0)
    await Self.passDeadline(bench)
    _ = try await engine.wait(for: first)
    let other = try await Self.second(engine)
    let second = try await engine.submit("hi", to: other)
    await deaf.hasStarted(1)
    deaf.release(1)
    #expect(try await engine.wait(for: second).status == .done)
    deaf.release(0)
    try await bench.end(engine)
  }

  @Test func `operations of a call that was given up say that it is over`() async throws {
    let bench = TestBench()
    let (mayEnd, answer) = (Event(), Log<PerdureError.Code?>())
    let told = Event()
    let tool = plainTool("deaf", deadline: .seconds(100), grace: .seconds(4)) { call in
      await mayEnd.wait()
      do {
        try call.host.output("late", skipped: nil)
        answer.add(nil)
      } catch {
        answer.add((error as? PerdureError)?.code)
      }
      told.happen()
      return .text("late")
    }
    let engine = try await bench.open(Self.model, tools: [tool])
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    await Self.passDeadline(bench)
    _ = try await engine.wait(for: id)
    mayEnd.happen()
    await told.wait()
    #expect(answer.all == [.invocationEnded])
    try await bench.end(engine)
  }
}
