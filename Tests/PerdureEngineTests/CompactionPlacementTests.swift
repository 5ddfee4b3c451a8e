import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// Where summaries go that are made beside other work.
@Suite(.timeLimit(.minutes(5))) struct CompactionPlacementTests {
  @Test func `a summary made beside a run is queued and placed at its end`() async throws {
    let bench = TestBench.compacting(limit: 50_000)
    let gate = Event()
    let model = CompactionTests.answering()
    let engine = try await bench.open(
      model.gated(by: gate, when: { $0.purpose == .answer && $0.messages.count > 6 })
    )
    _ = try await bench.start(engine)
    for _ in 0..<3 { _ = try await bench.ask(engine, TestBench.text(30)) }
    let commits = Commits(engine.session)
    let id = try await engine.submit(.string(TestBench.text(30)), to: .root)
    let task = try await engine.compact(.root)
    let ended = await commits.task("pi.compaction") { $0.state.outcome != nil }
    let submission = try #require(SubmissionID(ended?.state.outcome?.result?["submissionId"]))
    #expect(ended?.id == task)
    try await engine.session.barrier()
    #expect(try await engine.submission(submission)?.status == .queued)
    gate.happen()
    _ = try await engine.wait(for: id)
    #expect(try await engine.wait(for: submission).status == .done)
    #expect(try await TestBench.context(engine).head?.kind == "pi.compaction")
    try await bench.end(engine)
  }

  @Test func `a summary that cuts before the active context is stale`() async throws {
    let bench = TestBench.compacting(limit: 50_000)
    let gate = Event()
    let model = CompactionTests.answering()
    let engine = try await bench.open(model.gated(by: gate, when: { $0.purpose == .summary }))
    _ = try await bench.start(engine)
    for _ in 0..<3 { _ = try await bench.ask(engine, TestBench.text(30)) }
    let task = try await engine.compact(.root)
    _ = await model.asked(for: .summary)
    let reset = try await engine.reset(.root)
    _ = try await engine.wait(for: reset)
    gate.happen()
    try await engine.waitForIdle(.root)
    let result = try await engine.session.store.task(task)?.state.outcome?.result
    let submission = try #require(SubmissionID(result?["submissionId"]))
    #expect(try await engine.submission(submission)?.reason == "stale")
    #expect(try await TestBench.context(engine).head?.kind == "pi.reset")
    #expect(try await TestBench.live(engine) == [:])
    try await bench.end(engine)
  }

  @Test func `a later cut is placed although it was chosen before another one`() async throws {
    let bench = TestBench.compacting(limit: 50_000)
    let gate = Event()
    let model = CompactionTests.answering()
    let engine = try await bench.open(model.gated(by: gate, when: { $0.purpose == .summary }))
    _ = try await bench.start(engine)
    for _ in 0..<3 { _ = try await bench.ask(engine, TestBench.text(30)) }
    let first = try #require(try await TestBench.entries(engine).first)
    let task = try await engine.compact(.root)
    _ = await model.asked(for: .summary)
    // A marker that begins the context where it begins anyhow.
    let marker = EntryDraft(kind: "mark", data: [:], head: .entry(first.id))
    _ = try await engine.wait(for: try await engine.write(marker, to: .root))
    gate.happen()
    try await engine.waitForIdle(.root)
    let result = try await engine.session.store.task(task)?.state.outcome?.result
    let submission = try #require(SubmissionID(result?["submissionId"]))
    #expect(try await engine.submission(submission)?.status == .done)
    try await bench.end(engine)
  }

  @Test func `an idle conversation with queued inputs starts them behind a summary`() async throws {
    var bench = TestBench.compacting(limit: 50_000)
    bench.settings.retry.isEnabled = false
    let gate = Event()
    let model = TestBench.model { request in
      request.messages.last?["content"]?.text == "fail"
        ? ScriptedModel.failure(ProviderFailure(.stop, "no"))
        : ScriptedModel.text(TestBench.text(10))
    }
    let isFailing: @Sendable (ModelRequest) -> Bool = {
      $0.messages.last?["content"]?.text == "fail"
    }
    let engine = try await bench.open(model.gated(by: gate, when: isFailing))
    _ = try await bench.start(engine)
    for _ in 0..<3 { _ = try await bench.ask(engine, TestBench.text(30)) }
    let failing = try await engine.submit("fail", to: .root)
    let queued = try await engine.submit("next", to: .root)
    gate.happen()
    _ = try await engine.wait(for: failing)
    #expect(try await engine.submission(queued)?.status == .queued)
    _ = try await engine.compact(.root)
    let settled = try await engine.wait(for: queued)
    let head = try #require(try await TestBench.context(engine).head)
    #expect(settled.status == .done && settled.entry.map { $0 > head.id } == true)
    try await bench.end(engine)
  }

  @Test func `the request after a summary restates the prompt once`() async throws {
    let bench = TestBench.compacting(limit: 50_000)
    let model = CompactionTests.answering()
    let engine = try await bench.open(model, tools: [echo])
    _ = try await bench.start(engine)
    for _ in 0..<3 { _ = try await bench.ask(engine, TestBench.text(30)) }
    _ = try await CompactionTests.compact(engine)
    _ = try await bench.ask(engine, "on")
    let messages = try #require(model.seen.last?.messages)
    #expect(messages.first?["role"] == "system")
    #expect(PromptState(replaying: messages).toolNames == ["echo"])
    #expect(messages.count { $0["role"] == "system" } == 1)
    try await bench.end(engine)
  }
}

/// Serves the requests of another model, one kind of them only once something has happened.
struct GatedModel: ModelProvider {
  let base: ScriptedModel
  let gate: Event
  let waits: @Sendable (ModelRequest) -> Bool

  func model(_ reference: ModelReference) -> ModelInfo? { base.model(reference) }

  func stream(_ request: ModelRequest) -> any ModelStream {
    let stream = base.stream(request)
    return waits(request) ? Stream(base: stream, gate: gate) : stream
  }

  struct Stream: ModelStream {
    let base: any ModelStream
    let gate: Event

    func next() async -> [ModelEvent] {
      await gate.waitOrCancel()
      return await base.next()
    }

    func cancel() { base.cancel() }
  }
}

extension ScriptedModel {
  func gated(
    by gate: Event,
    when waits: @escaping @Sendable (ModelRequest) -> Bool
  ) -> GatedModel { GatedModel(base: self, gate: gate, waits: waits) }

  /// Returns the first request of this purpose, once there is one.
  func asked(for purpose: ModelRequest.Purpose) async -> ModelRequest {
    while true {
      if let request = seen.first(where: { $0.purpose == purpose }) { return request }
      await Task.yield()
    }
  }
}

/// Lets requests for summaries hang until they are cancelled.
struct HangingModel: ModelProvider {
  let base: ScriptedModel
  let hangs: Bool
  let reached: Event

  init(base: ScriptedModel, hangs: Bool, _ reached: Event) {
    (self.base, self.hangs, self.reached) = (base, hangs, reached)
  }

  func model(_ reference: ModelReference) -> ModelInfo? { base.model(reference) }

  func stream(_ request: ModelRequest) -> any ModelStream {
    guard hangs, request.purpose == .summary else { return base.stream(request) }
    reached.happen()
    return GatedModel.Stream(base: base.stream(request), gate: Event())
  }
}
