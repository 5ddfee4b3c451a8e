import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct GenerationTests {
  private static func failing(_ failure: ProviderFailure, times: Int = .max) -> ScriptedModel {
    ScriptedModel { request in
      request.attempt <= times ? ScriptedModel.failure(failure) : ScriptedModel.text("at last")
    }
  }

  @Test(arguments: ["none", "unknown"])
  func `without a model the input is unanswered`(_ which: String) async throws {
    let bench = TestBench()
    let engine = try await bench.open(ScriptedModel { _ in [] })
    _ = try await engine.root()
    if which == "unknown" {
      try await engine.configure(.root, ["model": ["provider": "p", "modelId": "m"]])
    }
    let record = try await bench.ask(engine)
    guard case .unanswered("no_model", _, _) = record.state else {
      Issue.record("\(record.state)")
      return
    }
    #expect(try await engine.failure(of: record.id)?["kind"] == "no_model")
    #expect(
      try await TestBench.tasks(engine).first?.state.outcome?.detail == ["reason": "no_model"]
    )
    try await bench.end(engine)
  }

  @Test func `a model that was removed during a retry is no model`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(Self.failing(ProviderFailure(.retry, "busy")))
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    await bench.clock.waitForSleeper(of: .milliseconds(1_500))
    try await engine.configure(.root, ["model": .null])
    bench.clock.advance(by: .seconds(2))
    let record = try await engine.wait(for: id)
    #expect(record.reason == "no_model")
    try await bench.end(engine)
  }

  @Test func `retries wait twice as long each time and are durable`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(Self.failing(ProviderFailure(.retry, "busy"), times: 3))
    let commits = Commits(engine.session)
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    for (attempt, delay) in [(1, 2_000), (2, 4_000), (3, 8_000)] as [(Int64, Int64)] {
      let task = await commits.task("pi.generation") { record in
        guard case .sleeping(let checkpoint, _) = record.state else { return false }
        return checkpoint["attempt"]?.int == attempt
      }
      let until = bench.clock.now() + delay
      #expect(
        task?.state
          == .sleeping(
            checkpoint: ["phase": "retry", "attempt": .int(attempt), "until": .int(until)],
            until: until
          )
      )
      await bench.clock.waitForSleeper(of: .milliseconds(delay))
      bench.clock.advance(by: .milliseconds(delay - 1))
      #expect(engine.session.liveTasks.values.first?.state.status == .sleeping)
      bench.clock.advance(by: .milliseconds(1))
    }
    #expect(try await engine.wait(for: id).status == .done)
    let reasons = try await TestBench.entries(engine).dropFirst().map {
      $0.model?.first?["stopReason"]?.text
    }
    #expect(reasons == ["error", "error", "error", "stop"])
    try await bench.end(engine)
  }

  @Test func `the retries end at their limit`() async throws {
    var bench = TestBench()
    bench.settings.retry.maxRetries = 2
    bench.settings.retry.baseDelayMs = 0
    let model = Self.failing(ProviderFailure(.retry, "busy"))
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let record = try await bench.ask(engine)
    #expect(record.reason == "model_error")
    #expect(model.seen.map(\.attempt) == [1, 2, 3])
    try await bench.end(engine)
  }

  @Test(arguments: [0, 1_000, 5_000, 60_000] as [Int64])
  func `a provider's wish for a longer delay is granted`(_ wish: Int64) async throws {
    let bench = TestBench()
    let failure = ProviderFailure(.retry, "busy", retryAfterMs: wish)
    let engine = try await bench.open(Self.failing(failure, times: 1))
    let commits = Commits(engine.session)
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    let task = await commits.task("pi.generation") { $0.state.status == .sleeping }
    let delay = max(wish, 2_000)
    #expect(task?.state.checkpoint?["until"] == .int(bench.clock.now() + delay))
    await bench.clock.waitForSleeper(of: .milliseconds(delay))
    bench.clock.advance(by: .milliseconds(delay))
    #expect(try await engine.wait(for: id).status == .done)
    try await bench.end(engine)
  }

  static let finals: [(failure: ProviderFailure, retries: Bool)] = [
    (ProviderFailure(.retry, "m", retryAfterMs: 60_001), true),
    (ProviderFailure(.retry, "m", retryAfterMs: .max), true),
    (ProviderFailure(.retry, "m"), false), (ProviderFailure(.authentication, "m"), true),
    (ProviderFailure(.quota, "m"), true), (ProviderFailure(.overflow, "m"), true),
    (ProviderFailure(.stop, "m"), true),
  ]

  @Test(arguments: 0..<finals.count)
  func `a failure that is not retried is a model error`(_ index: Int) async throws {
    let (failure, retries) = Self.finals[index]
    var bench = TestBench()
    bench.settings.retry.isEnabled = retries
    let model = Self.failing(failure)
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let record = try await bench.ask(engine)
    #expect(record.reason == "model_error")
    #expect(record.detail == "m")
    let known = try await engine.failure(of: record.id)
    #expect(known?["kind"]?.text == failure.action.rawValue)
    #expect(known?["retryAfterMs"]?.int == failure.retryAfterMs)
    #expect(model.seen.count == 1)
    let outcome = try await TestBench.tasks(engine).first?.state.outcome
    #expect(outcome?.detail == ["reason": "model_error"])
    try await bench.end(engine)
  }

  @Test func `settings without bounds do not trap`() async throws {
    var bench = TestBench()
    bench.settings.retry.maxAgentDelayMs = .max
    bench.settings.retry.baseDelayMs = .max
    bench.settings.partialIntervalMs = .max
    bench.settings.outputIntervalMs = .max
    let engine = try await bench.open(Self.failing(ProviderFailure(.retry, "busy")))
    let commits = Commits(engine.session)
    _ = try await bench.start(engine)
    _ = try await engine.submit("hi", to: .root)
    let task = await commits.task("pi.generation") { $0.state.status == .sleeping }
    #expect(task?.state.checkpoint?["until"] == .int(.max))
    try await bench.end(engine)
  }

  static let endings: [(StopReason, JSONString)] = [
    (.stop, "done"), (.length, "done"), (.toolUse, "done"), (.error, "unanswered"),
    (.aborted, "unanswered"), (.deferred, "unanswered"),
  ]

  @Test(arguments: 0..<endings.count)
  func `a stop reason decides about the answer`(_ index: Int) async throws {
    let (reason, status) = Self.endings[index]
    let bench = TestBench()
    let engine = try await bench.open(
      ScriptedModel { _ in
        [[.blockStart(index: 0, .text), .delta(index: 0, "x"), .finished(reason)]]
      }
    )
    _ = try await bench.start(engine)
    #expect(try await bench.ask(engine).status.rawValue == status.string)
    #expect(
      try await TestBench.entries(engine).last?.model?.first?["stopReason"]?.text == reason.rawValue
    )
    try await bench.end(engine)
  }

  static let junk: [[ModelEvent]] = [
    [], [.delta(index: 0, "x")], [.blockEnd(index: 3)], [.blockStart(index: 1, .text)],
    [.blockStart(index: -1, .text)], [.blockStart(index: 0, .text), .delta(index: .max, "x")],
  ]

  @Test(arguments: 0..<junk.count)
  func `an answer that makes no sense is asked for again`(_ index: Int) async throws {
    var bench = TestBench()
    bench.settings.retry.baseDelayMs = 0
    let model = ScriptedModel { request in
      request.attempt == 1 ? [Self.junk[index]] : ScriptedModel.text("sense")
    }
    let engine = try await bench.open(model, tools: [echo])
    _ = try await bench.start(engine)
    #expect(try await bench.ask(engine).status == .done)
    #expect(model.seen.count == 2)
    try await bench.end(engine)
  }

  @Test func `the usage of all attempts is summed`() async throws {
    var bench = TestBench()
    bench.settings.retry.baseDelayMs = 0
    var usage = Usage()
    usage.input = 10
    usage.output = .max
    usage.reasoning = 3
    let model = ScriptedModel { [usage] request in
      request.attempt == 1
        ? [[.usage(usage), .failed(ProviderFailure(.retry, "busy"))]]
        : [[.usage(usage), .blockStart(index: 0, .text), .finished(.stop)]]
    }
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine)
    let stored = try await engine.session.snapshot(.usage, .root)["models"]?["scripted/one"]
    #expect(stored?["input"] == 20)
    #expect(stored?["output"] == .int(.max))
    #expect(stored?["reasoning"] == 6)
    try await bench.end(engine)
  }

  // MARK: Partial answers

  @Test func `a growing answer is committed at its interval`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    let commits = Commits(engine.session)
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    let stream = await model.request(1)
    stream.send([.blockStart(index: 0, .text), .delta(index: 0, "one")])
    await bench.clock.waitForSleeper(of: .milliseconds(100))
    bench.clock.advance(by: .milliseconds(100))
    await commits.first { $0.partial?.contentText == "one" }
    stream.send([.delta(index: 0, " two")])
    await bench.clock.waitForSleeper(of: .milliseconds(100))
    bench.clock.advance(by: .milliseconds(100))
    let second = await commits.first { $0.partial?.contentText == "one two" }
    // Only what is new is written.
    #expect(second.liveOperations.contains { $0.contains("\"a\"") && $0.contains(" two") })
    stream.send([.finished(.stop)])
    #expect(try await engine.wait(for: id).status == .done)
    #expect(try await engine.session.snapshot(.live, .root) == [:])
    try await bench.end(engine)
  }

  @Test func `a committed partial is an aborted entry after a restart`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    let commits = Commits(engine.session)
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    let stream = await model.request(1)
    var usage = Usage()
    usage.input = 5
    stream.send([.usage(usage), .blockStart(index: 0, .text), .delta(index: 0, "half")])
    await bench.clock.waitForSleeper(of: .milliseconds(100))
    bench.clock.advance(by: .milliseconds(100))
    await commits.first { $0.partial?.contentText == "half" }
    try await engine.session.barrier()
    let next = bench.afterDeath()
    try await engine.close()

    let again = try await next.open(ScriptedModel { _ in ScriptedModel.text("whole") })
    #expect(try await again.wait(for: id).status == .done)
    let messages = try await TestBench.entries(again).compactMap { $0.model?.first }
    #expect(messages.map(\.contentText) == ["", "half", "whole"])
    #expect(messages[1]["stopReason"] == "aborted")
    let usages = try await again.session.snapshot(.usage, .root)["models"]
    #expect(usages?["scripted/one"]?["input"] == 5)
    try await next.end(again)
  }

  @Test func `requests of a conversation carry one identity`() async throws {
    let bench = TestBench()
    let session = try await Session.open(bench.memory, clock: bench.clock)
    // A store of a plain session has no built-in documents.
    _ = try await session.store.stage([.conversation(ConversationRecord(id: .root))])
    try await session.close()
    let next = bench.afterDeath()
    let model = ScriptedModel { _ in ScriptedModel.text("hello") }
    let engine = try await next.open(model)
    _ = try await next.start(engine)
    _ = try await next.ask(engine)
    _ = try await next.ask(engine)
    let identities = model.seen.map(\.sessionId)
    #expect(identities.count == 2)
    #expect(identities[0] != nil)
    #expect(identities[0] == identities[1])
    try await next.end(engine)
  }

  @Test func `a request carries level attempt and stream options`() async throws {
    var bench = TestBench()
    bench.settings.stream = ["timeoutMs": 7]
    let model = ScriptedModel { _ in ScriptedModel.text("hello") }
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    try await engine.configure(.root, ["thinkingLevel": "high"])
    _ = try await bench.ask(engine)
    #expect(model.seen.first?.reasoning == "high")
    #expect(model.seen.first?.attempt == 1)
    #expect(model.seen.first?.streamOptions == ["timeoutMs": 7])
    try await bench.end(engine)
  }

  @Test func `the intent is on disk before the request is made`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    _ = try await engine.submit("hi", to: .root)
    _ = await model.request(1)
    let onDisk = try await bench.memory.scanTasks(.init(), PageRequest(limit: 9)).items
    #expect(onDisk.first?.state.checkpoint?["phase"] == "request")
    try await bench.end(engine)
  }
}

extension TaskOutcome {
  var detail: JSON? {
    switch self {
    case .failed(_, let detail, _), .faulted(_, let detail): detail
    default: nil
    }
  }

  var message: String? {
    switch self {
    case .failed(let message, _, _), .faulted(let message, _): message
    default: nil
    }
  }
}

extension SubmissionRecord {
  var reason: String? {
    if case .unanswered(let reason, _, _) = state { return reason }
    return nil
  }

  var detail: JSON? {
    if case .unanswered(_, let detail, _) = state { return detail }
    return nil
  }
}

extension Publication {
  /// The growing answer that this commit shows.
  var partial: JSON? {
    for case .document(let record, _, let value, _) in changes
    where record.address.kind == "pi.live" {
      return value?["generation"]?["message"]
    }
    return nil
  }

  /// The value of `pi.live` after this commit, if it changed it.
  var live: JSON? {
    for case .document(let record, _, let value, _) in changes
    where record.address.kind == "pi.live" {
      return value
    }
    return nil
  }

  var liveOperations: [String] {
    for case .document(let record, _, _, let operations) in changes
    where record.address.kind == "pi.live" {
      return operations.map { $0.json.compactText }
    }
    return []
  }
}
