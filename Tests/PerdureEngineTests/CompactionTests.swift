import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

extension TestBench {
  /// A bench on which contexts of more than `limit` tokens are summarized and few are kept.
  static func compacting(
    limit: Int64 = 1_000,
    keeps: Int64 = 20,
    background: Int64 = 0
  ) -> TestBench {
    var bench = TestBench()
    bench.settings.compaction.policy.reserveTokens = 100_000 - limit
    bench.settings.compaction.policy.keepRecentTokens = keeps
    bench.settings.compaction.policy.backgroundTokens = background
    return bench
  }

  /// A model with room for 100,000 tokens that answers a request for a summary with `summary`.
  static func model(
    maxTokens: Int = 0,
    summary: @escaping ScriptedModel.Answer = { _ in ScriptedModel.text("All in short.") },
    _ answer: @escaping ScriptedModel.Answer
  ) -> ScriptedModel {
    ScriptedModel(contextWindow: 100_000, maxTokens: maxTokens) { request in
      request.purpose == .summary ? summary(request) : answer(request)
    }
  }

  /// Text of about so many tokens.
  static func text(_ tokens: Int) -> String { String(repeating: "word ", count: tokens * 7 / 10) }

  static func live(_ engine: Engine) async throws -> JSON {
    try await engine.session.snapshot(.live, .root)
  }

  static func compaction(_ engine: Engine) async throws -> TaskRecord {
    let tasks = try await tasks(engine).filter { $0.kind == "pi.compaction" }
    return try #require(tasks.max { $0.id < $1.id })
  }

  static func context(_ engine: Engine) async throws -> ContextView {
    try await engine.context(of: .root)
  }
}

/// A summary that somebody asks for, and what all summaries have in common.
@Suite(.timeLimit(.minutes(5))) struct CompactionTests {
  /// A conversation of three long rounds.
  private static func talk(
    _ bench: TestBench,
    _ model: ScriptedModel,
    rounds: Int = 3
  ) async throws -> Engine {
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    for round in 0..<rounds { _ = try await bench.ask(engine, "\(round) " + TestBench.text(30)) }
    return engine
  }

  static func answering(
    _ summary: @escaping ScriptedModel.Answer = { _ in ScriptedModel.text("All in short.") }
  ) -> ScriptedModel {
    TestBench.model(summary: summary) { _ in ScriptedModel.text(TestBench.text(10)) }
  }

  /// Asks for a summary and waits until everything is quiet.
  static func compact(
    _ engine: Engine,
    instructions: JSONString? = nil
  ) async throws -> TaskRecord {
    let id = try await engine.compact(.root, instructions: instructions)
    try await engine.waitForIdle(.root)
    return try #require(try await engine.session.store.task(id))
  }

  @Test func `a summary takes the place of the older messages`() async throws {
    let bench = TestBench.compacting(limit: 50_000)
    let engine = try await Self.talk(bench, Self.answering())
    let before = try await TestBench.context(engine)
    let task = try await Self.compact(engine)
    guard case .completed(let result) = task.state.outcome else {
      Issue.record("\(task.state)")
      return
    }
    let submission = try #require(SubmissionID(result["submissionId"]))
    let record = try #require(try await engine.submission(submission))
    #expect(record.status == .done)
    #expect(record.requestId == JSONString("compaction:\(task.id)"))
    let view = try await TestBench.context(engine)
    #expect(view.head?.kind == "pi.compaction")
    #expect(view.head?.data == ["reason": "manual"])
    #expect(view.head?.byTaskId == task.id)
    #expect(
      view.messages.first?.contentText.contains("<summary>\nAll in short.\n</summary>") == true
    )
    #expect(view.messages.count < before.messages.count)
    #expect(try await TestBench.live(engine) == [:])
    try await bench.end(engine)
  }

  @Test func `a manual summary is made although summaries are switched off`() async throws {
    var bench = TestBench.compacting()
    bench.settings.compaction.policy.isEnabled = false
    let engine = try await Self.talk(bench, Self.answering())
    _ = try await Self.compact(engine)
    #expect(try await TestBench.context(engine).head != nil)
    try await bench.end(engine)
  }

  @Test func `with nothing to summarize the task completes with nothing`() async throws {
    let bench = TestBench.compacting(keeps: 50_000)
    let model = Self.answering()
    let engine = try await Self.talk(bench, model)
    let task = try await Self.compact(engine)
    #expect(task.state.outcome == .completed(result: [:]))
    #expect(try await TestBench.live(engine) == [:])
    #expect(!model.seen.contains { $0.purpose == .summary })
    try await bench.end(engine)
  }

  @Test func `without a model there is no summary`() async throws {
    let bench = TestBench.compacting()
    let engine = try await Self.talk(bench, Self.answering())
    try await engine.configure(.root, ["model": .null])
    let task = try await Self.compact(engine)
    #expect(task.state.outcome?.detail == ["reason": "no_model"])
    let failure = try await TestBench.live(engine)["compactionFailure"]
    #expect(failure?["taskId"] == task.id.json && failure?["reason"] == "manual")
    try await bench.end(engine)
  }

  @Test func `the request for a summary is fixed and offers no tools`() async throws {
    var bench = TestBench.compacting(limit: 50_000)
    bench.settings.stream = ["timeoutMs": 7, "deferred": true, "cacheRetention": "long"]
    let model = TestBench.model(maxTokens: 1_234) { _ in ScriptedModel.text(TestBench.text(10)) }
    let engine = try await Self.talk(bench, model)
    try await engine.configure(.root, ["thinkingLevel": "high"])
    _ = try await Self.compact(engine, instructions: "names")
    let request = try #require(model.seen.last)
    #expect(request.purpose == .summary && request.attempt == 1 && request.reasoning == "high")
    #expect(
      request.streamOptions == ["timeoutMs": 7, "cacheRetention": "none", "maxTokens": 1_234]
    )
    #expect(request.sessionId == model.seen.first?.sessionId)
    #expect(request.messages.compactMap { $0["role"]?.text } == ["system", "user"])
    let text = request.messages.last?.contentText ?? ""
    #expect(text.hasPrefix("<conversation>\n[User]: 0 word"))
    #expect(text.hasSuffix("\n\nAdditional focus: names"))
    try await bench.end(engine)
  }

  @Test func `the transcript of a summary is labelled text, with results cut`() async throws {
    let bench = TestBench.compacting(limit: 50_000)
    let long = String(repeating: "é", count: 2_500)
    let model = TestBench.model { request in
      ScriptedModel.turn(of: request) == 0
        ? ScriptedModel.calls(("c1", "echo", ["text": .string(long)])) : ScriptedModel.text("done")
    }
    let engine = try await bench.open(model, tools: [echo])
    _ = try await bench.start(engine)
    for _ in 0..<2 { _ = try await bench.ask(engine, TestBench.text(30)) }
    _ = try await Self.compact(engine)
    let text = try #require(model.seen.last?.messages.last?.contentText)
    #expect(text.contains("\n\n[Assistant's tool calls]: echo(text=\"ééé"))
    let cut = "[Tool result]: " + String(repeating: "é", count: 2_000)
    #expect(text.contains(cut + "\n\n[500 more characters are left out]\n\n[Assistant]: done"))
    try await bench.end(engine)
  }

  // MARK: Answers that are no summary

  static let refusals: [(String, [[ModelEvent]], String)] = [
    (
      "cut off", [[.blockStart(index: 0, .text), .delta(index: 0, "x"), .finished(.length)]],
      "cut off"
    ),
    (
      "empty", [[.blockStart(index: 0, .text), .delta(index: 0, " \n "), .finished(.stop)]],
      "no text"
    ),
    ("a call", ScriptedModel.calls(("c", "echo", [:])), "called a tool"),
    ("refused", ScriptedModel.failure(ProviderFailure(.stop, "no")), "failed: no"),
    ("too long", ScriptedModel.failure(ProviderFailure(.overflow, "too long")), "failed: too long"),
  ]

  @Test(arguments: refusals)
  func `anything but a clean answer with text fails the summary`(
    _ name: String,
    _ answer: [[ModelEvent]],
    _ words: String
  ) async throws {
    let bench = TestBench.compacting(limit: 50_000)
    let engine = try await Self.talk(bench, Self.answering { _ in answer })
    let task = try await Self.compact(engine)
    guard case .failed(let message, let detail, _) = task.state.outcome else {
      Issue.record("\(task.state)")
      return
    }
    #expect(message.contains(words) && detail == ["reason": "model_error"])
    let live = try await TestBench.live(engine)
    #expect(
      live == [
        "compactionFailure": [
          "taskId": task.id.json, "reason": "manual", "error": .string(message),
        ]
      ]
    )
    #expect(try await TestBench.context(engine).head == nil)
    try await bench.end(engine)
  }

  @Test func `the next summary takes the failure away`() async throws {
    let bench = TestBench.compacting(limit: 50_000)
    let fails = Mutex(true)
    let engine = try await Self.talk(
      bench,
      Self.answering { _ in
        fails.withLock { $0 }
          ? ScriptedModel.failure(ProviderFailure(.stop, "no")) : ScriptedModel.text("short")
      }
    )
    _ = try await Self.compact(engine)
    #expect(try await TestBench.live(engine)["compactionFailure"] != nil)
    fails.withLock { $0 = false }
    _ = try await Self.compact(engine)
    #expect(try await TestBench.live(engine) == [:])
    try await bench.end(engine)
  }

  @Test func `each attempt at a summary counts into the usage`() async throws {
    let bench = TestBench.compacting(limit: 50_000)
    let engine = try await Self.talk(
      bench,
      Self.answering { request in
        var usage = Usage()
        usage.totalTokens = 100
        let end: ModelEvent =
          request.attempt == 1 ? .failed(ProviderFailure(.retry, "busy")) : .finished(.stop)
        return [[.blockStart(index: 0, .text), .delta(index: 0, "x"), .usage(usage), end]]
      }
    )
    let before = try await engine.session.snapshot(.usage, .root)
    let id = try await engine.compact(.root)
    await bench.clock.waitForSleeper(of: .milliseconds(1_500))
    bench.clock.advance(by: .seconds(2))
    try await engine.waitForIdle(.root)
    #expect(try await engine.session.store.task(id)?.state.outcome?.isCompleted == true)
    let after = try await engine.session.snapshot(.usage, .root)
    func tokens(_ usage: JSON) -> Int64 {
      usage["models"]?["scripted/one"]?["totalTokens"]?.int ?? 0
    }
    #expect(tokens(after) - tokens(before) == 200)
    try await bench.end(engine)
  }

  // MARK: Retries

  @Test func `a summary is tried again after a durable delay, with the same request`() async throws
  {
    let bench = TestBench.compacting(limit: 50_000)
    let model = Self.answering { request in
      request.attempt == 1
        ? ScriptedModel.failure(ProviderFailure(.retry, "busy", retryAfterMs: 3_000))
        : ScriptedModel.text("short")
    }
    let engine = try await Self.talk(bench, model)
    let commits = Commits(engine.session)
    let id = try await engine.compact(.root)
    let sleeping = await commits.task("pi.compaction") { $0.state.status == .sleeping }
    try await engine.session.barrier()
    let live = try await TestBench.live(engine)
    let retry = live["compactions"]?.array?.first?["retry"]
    #expect(retry?["error"] == "the summary failed: busy")
    guard case .sleeping(let checkpoint, let until) = sleeping?.state else { return }
    #expect(checkpoint["until"] == .int(until) && retry?["at"] == .int(until))
    #expect(until == bench.clock.now() + 3_000)
    // Another process sleeps the rest.
    try await engine.close()
    let next = bench.afterDeath()
    let second = try await next.open(model)
    try await second.resume()
    await next.clock.waitForSleeper(of: .milliseconds(2_000))
    next.clock.advance(by: .seconds(3))
    try await second.waitForIdle(.root)
    #expect(try await second.session.store.task(id)?.state.outcome?.isCompleted == true)
    let requests = model.seen.filter { $0.purpose == .summary }
    #expect(requests.map(\.attempt) == [1, 2])
    #expect(requests.first?.messages.last?.contentText == requests.last?.messages.last?.contentText)
    try await next.end(second)
  }

  @Test func `retries of a summary end as those of a run`() async throws {
    var bench = TestBench.compacting(limit: 50_000)
    bench.settings.retry.maxRetries = 2
    bench.settings.retry.baseDelayMs = 0
    let model = Self.answering { _ in ScriptedModel.failure(ProviderFailure(.retry, "busy")) }
    let engine = try await Self.talk(bench, model)
    let task = try await Self.compact(engine)
    #expect(task.state.outcome?.detail == ["reason": "model_error"])
    #expect(model.seen.filter { $0.purpose == .summary }.map(\.attempt) == [1, 2, 3])
    try await bench.end(engine)
  }

  // MARK: Decisions of extensions

  private static func deciding(
    _ decide: @escaping @Sendable (PendingCompaction) async throws -> CompactionDecision
  ) async throws -> (TestBench, Engine, ScriptedModel) {
    let bench = TestBench.compacting(limit: 50_000)
    let model = answering()
    let registry = Registry()
    try registry.install(
      Extension(name: "decides", hooks: [.beforeCompact { plan, _ in try await decide(plan) }])
    )
    let engine = try await Engine.open(
      bench.memory,
      {
        let settings = bench.settings
        return Engine.Options(
          models: model,
          registry: registry,
          settings: { settings },
          clock: bench.clock,
          report: { bench.reports.add($0) }
        )
      }()
    )
    _ = try await bench.start(engine)
    for _ in 0..<3 { _ = try await bench.ask(engine, TestBench.text(30)) }
    return (bench, engine, model)
  }

  @Test func `a summary that is declined leaves everything as it is`() async throws {
    let plans = Log<PendingCompaction>()
    let (bench, engine, model) = try await Self.deciding { plan in
      plans.add(plan)
      return .decline
    }
    let task = try await Self.compact(engine, instructions: "names")
    #expect(task.state.outcome == .completed(result: [:]))
    #expect(!model.seen.contains { $0.purpose == .summary })
    let plan = try #require(plans.all.first)
    #expect(plan.reason == "manual" && plan.instructions == "names")
    #expect(plan.entries.map(\.id).max().map { $0 < plan.firstKept } == true)
    #expect(!plan.messages.isEmpty)
    try await bench.end(engine)
  }

  @Test func `a summary that an extension gives is placed without the model`() async throws {
    let (bench, engine, model) = try await Self.deciding { _ in .summary("mine") }
    _ = try await Self.compact(engine)
    #expect(
      try await TestBench.context(engine).messages.first?.contentText.contains("mine") == true
    )
    #expect(!model.seen.contains { $0.purpose == .summary })
    try await bench.end(engine)
  }

  @Test func `a decision that fails is reported, and the model writes the summary`() async throws {
    let (bench, engine, _) = try await Self.deciding { _ in throw CancellationError() }
    _ = try await Self.compact(engine)
    #expect(try await TestBench.context(engine).head != nil)
    #expect(bench.reports.all.contains { $0.type == "extension_error" })
    try await bench.end(engine)
  }

  // MARK: Aborts and faults

  static let phases = ["select", "summarize", "retry"]

  @Test(arguments: phases)
  func `an abort in each phase ends the summary without an entry`(_ phase: String) async throws {
    let bench = TestBench.compacting(limit: 50_000)
    let reached = Event()
    let blocked = Event()
    let model = Self.answering { _ in
      phase == "retry" ? ScriptedModel.failure(ProviderFailure(.retry, "busy")) : [[]]
    }
    let hanging = HangingModel(base: model, hangs: phase == "summarize", reached)
    let settings = bench.settings
    let registry = Registry()
    try registry.install(
      Extension(
        name: "waits",
        hooks: [
          .beforeCompact { _, _ in
            guard phase == "select" else { return .proceed }
            reached.happen()
            await blocked.waitOrCancel()
            return .proceed
          }
        ]
      )
    )
    let options = Engine.Options(
      models: hanging,
      registry: registry,
      settings: { settings },
      clock: bench.clock,
      report: { bench.reports.add($0) }
    )
    let engine = try await Engine.open(bench.memory, options)
    _ = try await bench.start(engine)
    for _ in 0..<3 { _ = try await bench.ask(engine, TestBench.text(30)) }
    let commits = Commits(engine.session)
    let id = try await engine.compact(.root)
    if phase == "retry" {
      await commits.task("pi.compaction") { $0.state.status == .sleeping }
    } else {
      await reached.wait()
    }
    try await engine.abortAndWait(.root)
    #expect(try await engine.session.store.task(id)?.state.outcome == .aborted())
    #expect(try await TestBench.live(engine) == [:])
    #expect(try await TestBench.context(engine).head == nil)
    try await bench.end(engine)
  }

  @Test func `a summary that the scheduler ends leaves its failure`() async throws {
    let bench = TestBench.compacting(limit: 50_000)
    let engine = try await Self.talk(bench, Self.answering())
    let (id, _) = try await engine.session.stage { tx in
      let id = try await tx.createCompaction(.manual, in: .root)
      let record = TaskRecord(
        id: id,
        conversationId: .root,
        kind: "pi.compaction",
        version: 1,
        input: ["reason": "manual"],
        state: .pending(checkpoint: ["phase": "nowhere"])
      )
      try await tx.replace(record)
      return id
    }
    try await engine.waitForIdle(.root)
    let outcome = try await engine.session.store.task(id)?.state.outcome
    guard case .faulted(let message, _) = outcome else {
      Issue.record("\(String(describing: outcome))")
      return
    }
    #expect(
      try await TestBench.live(engine) == [
        "compactionFailure": [
          "taskId": id.json, "reason": "manual", "error": .string(message),
        ]
      ]
    )
    try await bench.end(engine)
  }
}
