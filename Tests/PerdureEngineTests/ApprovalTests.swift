import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

/// The rules AP of the documentation, on the side of the engine.
@Suite(.timeLimit(.minutes(5))) struct ApprovalTests {
  private static func waiting() -> TestBench {
    var bench = TestBench()
    bench.settings.waitsForApprovals = true
    return bench
  }

  private static func guarded(_ runs: Log<JSON>, _ approval: ToolApproval = .required) -> Tool {
    Tool(
      name: "rm",
      description: "Removes.",
      parameters: ["type": "object"],
      approval: approval
    ) { call in
      runs.add(call.arguments)
      return .text("removed")
    }
  }

  /// Opens an engine whose model calls `rm`, submits, and returns the question.
  private static func asked(
    _ bench: TestBench,
    _ tools: [Tool],
    _ model: ScriptedModel = calling(("a", "rm", ["path": "x"]))
  ) async throws -> (Engine, SubmissionID, Approval) {
    let engine = try await bench.open(model, tools: tools)
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    await engine.waitUntilQuiet()
    return (engine, id, try #require(try await questions(engine).first))
  }

  private static func questions(_ engine: Engine) async throws -> [Approval] {
    try await TestBench.tasks(engine).compactMap { Approval($0) }
      .filter { $0.status == .pending }.sorted { $0.id < $1.id }
  }

  private static func code(_ engine: Engine) async throws -> JSON? {
    try await TestBench.entries(engine).first { $0.kind == "pi.tool-result" }?
      .data?["diagnostics"]?.array?.first?["code"]
  }

  @Test func `a call waits in its first phase for a question below it`() async throws {
    let bench = Self.waiting()
    let runs = Log<JSON>()
    let (engine, _, question) = try await Self.asked(bench, [Self.guarded(runs)])
    #expect(runs.all == [])
    #expect(question.tool == "rm")
    #expect(question.arguments == ["path": "x"])
    #expect(question.callId == "a")
    let tasks = try await TestBench.tasks(engine)
    let tool = try #require(tasks.first { $0.kind == "pi.tool" })
    #expect(question.owner == tool.id)
    #expect(
      tool.state == .waiting(checkpoint: ["phase": "call"], on: [question.id], policy: .allSettled)
    )
    #expect(tasks.first { $0.id == question.id }?.state.status == .sleeping)
    let slot = try await engine.session.snapshot(.live, .root)["tools"]?.array?.first
    #expect(slot?["status"] == "pending")
    try await bench.end(engine)
  }

  @Test func `an approved call is made`() async throws {
    let bench = Self.waiting()
    let runs = Log<JSON>()
    let (engine, id, question) = try await Self.asked(bench, [Self.guarded(runs)])
    let answered = try await engine.decide(question.id, .init(isAllowed: true, by: "ann"))
    guard case .answered(let answer) = answered.status else {
      Issue.record("\(answered.status)")
      return
    }
    #expect(answer.by == "ann")
    #expect(answer.choice == "allow")
    #expect(try await engine.wait(for: id).status == .done)
    #expect(runs.all == [["path": "x"]])
    try await bench.end(engine)
  }

  @Test func `a denied call is blocked with the reason`() async throws {
    let bench = Self.waiting()
    let runs = Log<JSON>()
    let (engine, id, question) = try await Self.asked(bench, [Self.guarded(runs)])
    _ = try await engine.decide(question.id, .init(isAllowed: false, by: "ann", note: "too risky"))
    #expect(try await engine.wait(for: id).status == .done)
    #expect(runs.all == [])
    #expect(try await Self.code(engine) == "blocked")
    let result = try #require(try await TestBench.results(engine).first)
    #expect(result.contentText.contains("[error] the call was denied by ann: too risky"))
    try await bench.end(engine)
  }

  @Test func `a call is denied at once where nobody can be asked`() async throws {
    let bench = TestBench()
    let runs = Log<JSON>()
    let engine = try await bench.open(
      calling(("a", "rm", [:])),
      tools: [Self.guarded(runs)]
    )
    _ = try await bench.start(engine)
    #expect(try await bench.ask(engine).status == .done)
    #expect(runs.all == [])
    #expect(try await Self.code(engine) == "blocked")
    let result = try #require(try await TestBench.results(engine).first)
    #expect(result.contentText.contains("nobody can be asked here"))
    #expect(bench.reports.all.map(\.type) == ["approval_denied"])
    #expect(try await TestBench.tasks(engine).allSatisfy { $0.kind != Approval.kind })
    try await bench.end(engine)
  }

  @Test func `a question that nobody answers in time is answered with no`() async throws {
    var bench = Self.waiting()
    bench.settings.approvalExpiryMs = 60_000
    let runs = Log<JSON>()
    let (engine, id, question) = try await Self.asked(bench, [Self.guarded(runs)])
    #expect(question.expiresAt == bench.clock.now() + 60_000)
    await bench.clock.waitForSleeper(of: .seconds(60))
    bench.clock.advance(by: .seconds(60))
    #expect(try await engine.wait(for: id).status == .done)
    #expect(runs.all == [])
    let result = try #require(try await TestBench.results(engine).first)
    #expect(result.contentText.contains("nobody answered in time"))
    try await bench.end(engine)
  }

  enum Predicate: String, CaseIterable {
    case yes, no, fails

    var approval: ToolApproval {
      .when { _ in
        if self == .fails { throw PerdureError(.invalidInput, "broken") }
        return self == .yes
      }
    }
  }

  @Test(arguments: Predicate.allCases)
  func `the arguments decide whether a call waits, and a broken decision asks`(
    _ predicate: Predicate
  ) async throws {
    let bench = Self.waiting()
    let runs = Log<JSON>()
    let engine = try await bench.open(
      calling(("a", "rm", [:])),
      tools: [Self.guarded(runs, predicate.approval)]
    )
    _ = try await bench.start(engine)
    _ = try await engine.submit("hi", to: .root)
    await engine.waitUntilQuiet()
    #expect(try await Self.questions(engine).count == (predicate == .no ? 0 : 1))
    #expect(runs.all.count == (predicate == .no ? 1 : 0))
    try await bench.end(engine)
  }

  @Test func `calls that need no approval run meanwhile`() async throws {
    let bench = Self.waiting()
    let runs = Log<JSON>()
    let others = Log<String>()
    let free = plainTool("free") { _ in
      others.add("ran")
      return .text("free")
    }
    let (engine, id, question) = try await Self.asked(
      bench,
      [Self.guarded(runs), free],
      calling(("a", "rm", [:]), ("b", "free", [:]), ("c", "free", [:]))
    )
    #expect(others.all.count == 2)
    #expect(try await TestBench.results(engine).count == 2)
    _ = try await engine.decide(question.id, .init(isAllowed: true))
    #expect(try await engine.wait(for: id).status == .done)
    #expect(runs.all.count == 1)
    try await bench.end(engine)
  }

  @Test func `an abort withdraws the question`() async throws {
    let bench = Self.waiting()
    let runs = Log<JSON>()
    let (engine, id, question) = try await Self.asked(bench, [Self.guarded(runs)])
    try await engine.abortAndWait(.root)
    #expect(try await engine.wait(for: id).reason == "aborted")
    let task = try #require(try await engine.task(question.id))
    #expect(Approval(task)?.status == .withdrawn)
    #expect(runs.all == [])
    await #expect(throws: PerdureError.self) {
      _ = try await engine.decide(question.id, .init(isAllowed: true))
    }
    try await bench.end(engine)
  }

  @Test func `a question is answered once`() async throws {
    let bench = Self.waiting()
    let runs = Log<JSON>()
    let (engine, id, question) = try await Self.asked(bench, [Self.guarded(runs)])
    _ = try await engine.decide(question.id, .init(isAllowed: false))
    let error = await #expect(throws: PerdureError.self) {
      _ = try await engine.decide(question.id, .init(isAllowed: true))
    }
    #expect(error?.code == .invalidRequest)
    _ = try await engine.wait(for: id)
    #expect(runs.all == [])
    try await bench.end(engine)
  }

  @Test func `what is no question cannot be answered`() async throws {
    let bench = Self.waiting()
    let (engine, _, question) = try await Self.asked(bench, [Self.guarded(Log<JSON>())])
    for id in [question.owner, TaskID(9_999)].compactMap({ $0 }) {
      let error = await #expect(throws: PerdureError.self) {
        _ = try await engine.decide(id, .init(isAllowed: true))
      }
      #expect(error?.code == .notFound)
    }
    let error = await #expect(throws: PerdureError.self) {
      _ = try await engine.decide(question.id, .init(isAllowed: true, choice: "always"))
    }
    #expect(error?.code == .invalidRequest)
    try await bench.end(engine)
  }

  @Test(arguments: [true, false])
  func `a question outlives the death of the process`(_ isAllowed: Bool) async throws {
    let bench = Self.waiting()
    let runs = Log<JSON>()
    let (_, id, question) = try await Self.asked(bench, [Self.guarded(runs)])
    let next = bench.afterDeath()
    let engine = try await next.open(
      calling(("a", "rm", ["path": "x"])),
      tools: [Self.guarded(runs)]
    )
    #expect(try await Self.questions(engine).map(\.id) == [question.id])
    // Decided before anything runs, as the verbs of the program do.
    _ = try await engine.decide(question.id, .init(isAllowed: isAllowed))
    #expect(runs.all == [])
    try await engine.resume()
    #expect(try await engine.wait(for: id).status == .done)
    #expect(runs.all.count == (isAllowed ? 1 : 0))
    try await next.end(engine)
  }

  @Test func `a death after any commit neither loses a question nor makes a call unasked`()
    async throws
  {
    var bench = Self.waiting()
    let recording = RecordingStorage(bench.memory)
    bench.front = { _ in recording }
    let runs = Log<JSON>()
    let (first, id, question) = try await Self.asked(bench, [Self.guarded(runs)])
    _ = try await first.decide(question.id, .init(isAllowed: true))
    _ = try await first.wait(for: id)
    try await first.close()
    bench.front = nil
    let batches = recording.batches
    #expect(batches.count > 8)
    let nextId = try await MemoryStorage(continuing: bench.memory).counters().nextId
    for count in 1...batches.count {
      bench.memory = MemoryStorage()
      try await bench.memory.apply(
        Array(batches.prefix(count)),
        expecting: StoreCounters(),
        nextId: nextId
      )
      guard try await bench.memory.submission(id) != nil else { continue }
      let isAnswered = try await bench.memory.task(question.id)?.isLive == false
      let name: Comment = "commit \(count)"
      let later = Log<JSON>()
      let engine = try await bench.open(
        calling(("a", "rm", ["path": "x"])),
        tools: [Self.guarded(later)]
      )
      try await engine.resume()
      await engine.waitUntilQuiet()
      let open = try await Self.questions(engine)
      #expect(open.count == (isAnswered ? 0 : 1), name)
      if !isAnswered { #expect(later.all == [], name) }
      for question in open { _ = try await engine.decide(question.id, .init(isAllowed: true)) }
      #expect(try await engine.wait(for: id).status == .done, name)
      #expect(later.all.count <= 1, name)
      try await bench.end(engine)
    }
  }

  @Test
  func `a question that is aborted by itself counts as a no`()
    async throws
  {
    let bench = Self.waiting()
    let runs = Log<JSON>()
    let (engine, id, question) = try await Self.asked(bench, [Self.guarded(runs)])
    _ = try await engine.abortTask(question.id)
    #expect(try await engine.wait(for: id).status == .done)
    #expect(runs.all == [])
    #expect(try await Self.code(engine) == "blocked")
    try await bench.end(engine)
  }
}
