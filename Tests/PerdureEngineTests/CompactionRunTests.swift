import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// Summaries that a run needs, and what the run makes of them.
@Suite(.timeLimit(.minutes(5))) struct CompactionRunTests {
  private static func summaries(_ model: ScriptedModel) -> Int {
    model.seen.count { $0.purpose == .summary }
  }

  private static func requests(_ model: ScriptedModel) -> Int {
    model.seen.count { $0.purpose == .answer }
  }

  /// Opens an engine in which a conversation is longer than the limit.
  private static func long(
    _ bench: TestBench,
    _ model: any ModelProvider,
    tools: [Tool] = []
  ) async throws -> Engine {
    let engine = try await bench.open(model, tools: tools)
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine, TestBench.text(900))
    return engine
  }

  // MARK: Thresholds

  @Test func `a run whose context is too long waits for a summary`() async throws {
    let bench = TestBench.compacting()
    let model = TestBench.model { _ in ScriptedModel.text(TestBench.text(50)) }
    let engine = try await Self.long(bench, model)
    let commits = Commits(engine.session)
    let record = try await bench.ask(engine, TestBench.text(100))
    #expect(record.status == .done)
    #expect(Self.summaries(model) == 1 && Self.requests(model) == 2)
    let waiting = commits.all.flatMap(\.tasks).first {
      $0.kind == "pi.generation" && $0.state.status == .waiting
    }
    let task = try await TestBench.compaction(engine)
    guard case .waiting(let checkpoint, let on, let policy) = waiting?.state else {
      Issue.record("no wait")
      return
    }
    #expect(on == [task.id] && policy == .allSettled)
    #expect(
      checkpoint == [
        "phase": "prepare", "attempt": 1, "compacted": task.id.json, "threshold": true,
      ]
    )
    #expect(task.owner == waiting?.id && !task.background)
    #expect(task.input == ["reason": "threshold"])
    #expect(EntryID(task.state.outcome?.result?["entryId"]) != nil)
    // The input was there before the summary and is still shown.
    let last = try #require(model.seen.last?.messages)
    #expect(last.contains { $0.contentText.contains("<summary>") })
    #expect(last.last?["content"]?.text == TestBench.text(100))
    try await bench.end(engine)
  }

  @Test func `the status of a summary is listed exactly while it is undecided`() async throws {
    let bench = TestBench.compacting()
    let model = TestBench.model { _ in ScriptedModel.text(TestBench.text(50)) }
    let engine = try await Self.long(bench, model)
    let commits = Commits(engine.session)
    _ = try await bench.ask(engine, TestBench.text(100))
    let task = try await TestBench.compaction(engine)
    for publication in commits.all {
      guard let record = publication.tasks.first(where: { $0.id == task.id }) else { continue }
      let live = publication.changes.compactMap { change -> JSON? in
        guard case .document(let document, _, let value, _) = change,
          document.address.kind == "pi.live"
        else { return nil }
        return value
      }.last
      switch record.state.status {
      case .pending:
        #expect(
          live?["compactions"] == [
            ["taskId": task.id.json, "reason": "threshold", "blocking": true, "attempt": 1]
          ]
        )
      case .terminal: #expect(live != nil && live?["compactions"] == nil)
      default: #expect(live == nil)
      }
    }
    try await bench.end(engine)
  }

  @Test func `a summary in the background holds nobody up`() async throws {
    let bench = TestBench.compacting(limit: 50_000, background: 49_000)
    let gate = Event()
    let model = TestBench.model { _ in ScriptedModel.text(TestBench.text(50)) }
    let engine = try await Self.long(bench, model.gated(by: gate, when: { $0.purpose == .summary }))
    let record = try await bench.ask(engine, TestBench.text(100))
    #expect(record.status == .done)
    let task = try await TestBench.compaction(engine)
    #expect(task.isLive && task.background && task.owner == nil)
    #expect(task.input == ["reason": "threshold"])
    // One at a time, and idleness does not wait for it.
    _ = try await bench.ask(engine, TestBench.text(100))
    try await engine.waitForIdle(.root)
    #expect(Self.summaries(model) == 1)
    gate.happen()
    await engine.waitUntilQuiet()
    #expect(try await TestBench.context(engine).head?.data == ["reason": "threshold"])
    try await bench.end(engine)
  }

  @Test func `a summary for which a run waited and that failed ends the run`() async throws {
    let bench = TestBench.compacting()
    let summary: ScriptedModel.Answer = { _ in ScriptedModel.failure(ProviderFailure(.stop, "no")) }
    let model = TestBench.model(summary: summary) { _ in ScriptedModel.text(TestBench.text(50)) }
    let engine = try await Self.long(bench, model)
    let record = try await bench.ask(engine, TestBench.text(100))
    guard case .unanswered("model_error", let detail, _) = record.state else {
      Issue.record("\(record.state)")
      return
    }
    #expect(detail?.text?.contains("could not be made shorter") == true)
    #expect(Self.requests(model) == 1)
    #expect(try await TestBench.live(engine)["compactionFailure"]?["reason"] == "threshold")
    try await bench.end(engine)
  }

  @Test func `a summary that was declined lets the run go on`() async throws {
    let bench = TestBench.compacting()
    let model = TestBench.model { _ in ScriptedModel.text(TestBench.text(50)) }
    let settings = bench.settings
    let registry = Registry()
    try registry.install(
      Extension(name: "decides", hooks: [.beforeCompact { _, _ in .decline }])
    )
    let options = Engine.Options(
      models: model,
      registry: registry,
      settings: { settings },
      clock: bench.clock,
      report: { bench.reports.add($0) }
    )
    let engine = try await Engine.open(bench.memory, options)
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine, TestBench.text(900))
    #expect(try await bench.ask(engine, TestBench.text(100)).status == .done)
    #expect(Self.summaries(model) == 0 && Self.requests(model) == 2)
    try await bench.end(engine)
  }

  @Test func `an abort reaches the run and the summary for which it waits`() async throws {
    let bench = TestBench.compacting()
    let gate = Event()
    let model = TestBench.model { _ in ScriptedModel.text(TestBench.text(50)) }
    let engine = try await Self.long(bench, model.gated(by: gate, when: { $0.purpose == .summary }))
    let id = try await engine.submit(.string(TestBench.text(100)), to: .root)
    _ = await model.asked(for: .summary)
    try await engine.abortAndWait(.root)
    #expect(try await engine.wait(for: id).reason == "aborted")
    #expect(try await TestBench.compaction(engine).state.outcome == .aborted())
    #expect(try await TestBench.live(engine) == [:])
    try await bench.end(engine)
  }

  @Test func `a summary that does not help is not made before each request`() async throws {
    let bench = TestBench.compacting(limit: 100)
    // The summary is as long as what it replaces.
    let summary: ScriptedModel.Answer = { _ in ScriptedModel.text(TestBench.text(900)) }
    let model = TestBench.model(summary: summary) { _ in ScriptedModel.text(TestBench.text(50)) }
    let engine = try await Self.long(bench, model)
    for _ in 0..<6 { #expect(try await bench.ask(engine, TestBench.text(50)).status == .done) }
    #expect(Self.summaries(model) == 1)
    // Once enough has come to replace, another one is tried.
    _ = try await bench.ask(engine, TestBench.text(900))
    _ = try await bench.ask(engine, TestBench.text(50))
    #expect(Self.summaries(model) == 2)
    try await bench.end(engine)
  }

  // MARK: Overflow

  /// A model that refuses contexts until they begin with a summary.
  private static func narrow(
    always: Bool = false,
    window: Int = 0,
    summary: @escaping ScriptedModel.Answer = { _ in ScriptedModel.text("short") }
  ) -> ScriptedModel {
    ScriptedModel(contextWindow: window) { request in
      if request.purpose == .summary { return summary(request) }
      let isShort = request.messages.contains { $0.contentText.contains("<summary>") }
      let length = request.messages.reduce(0) { $0 + TokenEstimate.tokens(of: $1) }
      if always && length > 500 || length > 500 && !isShort {
        return ScriptedModel.failure(ProviderFailure(.overflow, "the context is too long"))
      }
      return ScriptedModel.text(TestBench.text(400))
    }
  }

  @Test func `an overflow is summarized and the request sent once more`() async throws {
    let bench = TestBench()
    let model = Self.narrow()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine, TestBench.text(90))
    let commits = Commits(engine.session)
    let record = try await bench.ask(engine, TestBench.text(90))
    #expect(record.status == .done)
    // The window is not known, so what was refused says how small it is.
    #expect(Self.summaries(model) == 1)
    #expect(model.seen.map(\.attempt) == [1, 1, 1, 1])
    let task = try await TestBench.compaction(engine)
    #expect(task.input == ["reason": "overflow"])
    let entries = try await TestBench.entries(engine)
    let failed = entries.filter { $0.model?.first?["stopReason"] == "error" }
    #expect(failed.count == 1)
    let waiting = commits.all.flatMap(\.tasks).first { $0.state.status == .waiting }
    #expect(
      waiting?.state.checkpoint == [
        "phase": "prepare", "attempt": 1, "compacted": task.id.json,
        "overflow": "the context is too long",
      ]
    )
    #expect(waiting?.id == task.owner)
    try await bench.end(engine)
  }

  @Test func `a second overflow of a run ends it`() async throws {
    let bench = TestBench()
    let model = Self.narrow(always: true, summary: { _ in ScriptedModel.text(TestBench.text(600)) })
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine, TestBench.text(90))
    let record = try await bench.ask(engine, TestBench.text(90))
    guard case .unanswered("model_error", "the context is too long", _) = record.state else {
      Issue.record("\(record.state)")
      return
    }
    #expect(Self.summaries(model) == 1)
    #expect(try await engine.failure(of: record.id)?["kind"] == "overflow")
    try await bench.end(engine)
  }

  @Test func `an overflow that could not be summarized ends the run with its own text`()
    async throws
  {
    let bench = TestBench()
    let model = Self.narrow(summary: { _ in ScriptedModel.failure(ProviderFailure(.stop, "no")) })
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine, TestBench.text(90))
    let record = try await bench.ask(engine, TestBench.text(90))
    guard case .unanswered("model_error", "the context is too long", _) = record.state else {
      Issue.record("\(record.state)")
      return
    }
    try await bench.end(engine)
  }

  static let helpless = ["switched off", "nothing to cut"]

  @Test(arguments: helpless)
  func `an overflow without a remedy fails at once`(_ why: String) async throws {
    var bench = TestBench()
    if why == "switched off" { bench.settings.compaction.policy.isEnabled = false }
    let model = Self.narrow()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    if why == "switched off" { _ = try await bench.ask(engine, TestBench.text(90)) }
    let record = try await bench.ask(engine, TestBench.text(why == "switched off" ? 90 : 900))
    #expect(record.reason == "model_error")
    #expect(Self.summaries(model) == 0)
    try await bench.end(engine)
  }

  @Test func `a run that has waited for a summary keeps that in mind over retries`() async throws {
    var bench = TestBench.compacting()
    bench.settings.retry.baseDelayMs = 0
    let failures = Mutex(1)
    let model = TestBench.model { request in
      let isShort = request.messages.contains { $0.contentText.contains("<summary>") }
      let fails =
        isShort
        && failures.withLock { count in
          defer { count -= 1 }
          return count > 0
        }
      return fails
        ? ScriptedModel.failure(ProviderFailure(.retry, "busy"))
        : ScriptedModel.text(TestBench.text(50))
    }
    let engine = try await Self.long(bench, model)
    let commits = Commits(engine.session)
    #expect(try await bench.ask(engine, TestBench.text(100)).status == .done)
    let task = try await TestBench.compaction(engine)
    let later = commits.all.flatMap(\.tasks).filter {
      $0.kind == "pi.generation" && $0.id == task.owner
        && $0.state.checkpoint?["compacted"] != nil
    }
    #expect(
      Set(later.compactMap { $0.state.checkpoint?["phase"]?.text }) == [
        "prepare", "request", "retry",
      ]
    )
    #expect(Self.summaries(model) == 1)
    try await bench.end(engine)
  }

  /// What ends an answer, in the order in which it is judged.
  static let ends: [(String, [ModelEvent], JSONString)] = [
    ("deferred", [.deferred(handle: ["pollAfterMs": 10])], "poll"),
    ("an overflow", [.failed(ProviderFailure(.overflow, "long"))], "prepare"),
    ("a transient failure", [.failed(ProviderFailure(.retry, "busy"))], "retry"),
  ]

  @Test(arguments: ends)
  func `each end of an answer leads to its phase`(
    _ name: String,
    _ end: [ModelEvent],
    _ phase: JSONString
  ) async throws {
    let bench = TestBench.compacting(limit: 50_000)
    let model = TestBench.model { request in
      request.messages.last?["content"]?.text == "end"
        ? [end] : ScriptedModel.text(TestBench.text(50))
    }
    let engine = try await Self.long(bench, model)
    let commits = Commits(engine.session)
    _ = try await engine.submit("end", to: .root)
    let task = await commits.task("pi.generation") {
      [.waiting, .sleeping].contains($0.state.status)
    }
    #expect(task?.state.checkpoint?["phase"]?.string == phase)
    try await engine.close()
  }
}
