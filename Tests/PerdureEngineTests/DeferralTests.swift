import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// Answers that a provider holds back.
@Suite(.timeLimit(.minutes(5))) struct DeferralTests {
  private static let handle: JSON = ["id": "h1", "pollAfterMs": 1_000]

  /// A model that defers each first request, and then `pending` times what is fetched.
  private static func deferring(
    pending: Int = 0,
    handle: JSON = handle,
    _ fetched: [[ModelEvent]] = ScriptedModel.text("at last")
  ) -> ScriptedModel {
    let left = Mutex(pending)
    let fetch: ScriptedModel.Fetch = { _ in
      let isPending = left.withLock { left in
        defer { left -= 1 }
        return left > 0
      }
      return isPending ? [[.deferred(handle: handle)]] : fetched
    }
    return ScriptedModel(fetch: fetch) { request in
      ScriptedModel.turn(of: request) == 0 && request.attempt == 1
        ? [[.deferred(handle: handle)]] : ScriptedModel.text("done")
    }
  }

  private static func sleeping(_ commits: Commits, _ number: Int) async -> TaskRecord? {
    let seen = Mutex(0)
    return await commits.task("pi.generation") { record in
      guard record.state.status == .sleeping else { return false }
      return seen.withLock { count in
        count += 1
        return count == number
      }
    }
  }

  @Test func `a deferred answer is fetched when it is time`() async throws {
    let bench = TestBench()
    let model = Self.deferring()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let commits = Commits(engine.session)
    let id = try await engine.submit("hi", to: .root)
    let task = await Self.sleeping(commits, 1)
    let pollAt = bench.clock.now() + 1_000
    guard case .sleeping(let checkpoint, let until) = task?.state else { return }
    #expect(until == pollAt)
    #expect(checkpoint["phase"] == "poll" && checkpoint["handle"] == Self.handle)
    #expect(checkpoint["pollAt"] == .int(pollAt) && checkpoint["attempt"] == 1)
    try await engine.session.barrier()
    #expect(
      try await TestBench.live(engine)["generation"] == [
        "attempt": 1, "deferred": ["pollAt": .int(pollAt)],
      ]
    )
    await bench.clock.waitForSleeper(of: .milliseconds(500))
    bench.clock.advance(by: .seconds(1))
    let record = try await engine.wait(for: id)
    #expect(record.status == .done)
    #expect(model.fetched == [Self.handle] && model.seen.count == 1)
    let entries = try await TestBench.entries(engine)
    #expect(entries.map(\.kind).filter { $0 == "pi.assistant" }.count == 1)
    #expect(entries.last?.model?.first?.contentText == "at last")
    try await bench.end(engine)
  }

  @Test func `an answer that is deferred again is asked for later than before`() async throws {
    let bench = TestBench()
    let model = Self.deferring(pending: 2, handle: ["pollAfterMs": 0])
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let commits = Commits(engine.session)
    let id = try await engine.submit("hi", to: .root)
    for number in 2...3 {
      _ = await Self.sleeping(commits, number)
      bench.clock.advance(by: .seconds(1))
    }
    #expect(try await engine.wait(for: id).status == .done)
    let times = commits.all.flatMap(\.tasks).compactMap { record -> Int64? in
      guard case .sleeping(_, let until) = record.state else { return nil }
      return until
    }
    #expect(times.count == 3 && zip(times, times.dropFirst()).allSatisfy { $0 < $1 })
    #expect(model.fetched.count == 3)
    try await bench.end(engine)
  }

  @Test func `without a time it is asked for after five seconds`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(Self.deferring(handle: ["id": 1]))
    _ = try await bench.start(engine)
    let commits = Commits(engine.session)
    _ = try await engine.submit("hi", to: .root)
    guard case .sleeping(_, let until) = await Self.sleeping(commits, 1)?.state else { return }
    #expect(until == bench.clock.now() + 5_000)
    try await engine.close()
  }

  @Test func `another process asks for the same answer`() async throws {
    let bench = TestBench()
    let model = Self.deferring()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let commits = Commits(engine.session)
    let id = try await engine.submit("hi", to: .root)
    _ = await Self.sleeping(commits, 1)
    try await engine.close()
    let next = bench.afterDeath()
    let second = try await next.open(model)
    try await second.resume()
    await next.clock.waitForSleeper(of: .milliseconds(500))
    next.clock.advance(by: .seconds(1))
    #expect(try await second.wait(for: id).status == .done)
    #expect(model.fetched == [Self.handle] && model.seen.count == 1)
    try await next.end(second)
  }

  @Test func `a fetched answer may call tools`() async throws {
    let bench = TestBench()
    let model = Self.deferring(ScriptedModel.calls(("c1", "echo", ["text": "x"])))
    let engine = try await bench.open(model, tools: [echo])
    _ = try await bench.start(engine)
    let commits = Commits(engine.session)
    let id = try await engine.submit("hi", to: .root)
    _ = await Self.sleeping(commits, 1)
    await bench.clock.waitForSleeper(of: .milliseconds(500))
    bench.clock.advance(by: .seconds(1))
    #expect(try await engine.wait(for: id).status == .done)
    #expect(try await TestBench.results(engine).map(\.contentText) == ["x"])
    try await bench.end(engine)
  }

  @Test func `a fetch that fails is retried with a new request`() async throws {
    var bench = TestBench()
    bench.settings.retry.baseDelayMs = 0
    let model = Self.deferring(ScriptedModel.failure(ProviderFailure(.retry, "busy")))
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let commits = Commits(engine.session)
    let id = try await engine.submit("hi", to: .root)
    _ = await Self.sleeping(commits, 1)
    await bench.clock.waitForSleeper(of: .milliseconds(500))
    bench.clock.advance(by: .seconds(1))
    #expect(try await engine.wait(for: id).status == .done)
    #expect(model.seen.map(\.attempt) == [1, 2])
    try await bench.end(engine)
  }

  @Test func `an abort tells the provider that nobody waits any more`() async throws {
    let bench = TestBench()
    let model = Self.deferring()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let commits = Commits(engine.session)
    let id = try await engine.submit("hi", to: .root)
    _ = await Self.sleeping(commits, 1)
    try await engine.abortAndWait(.root)
    #expect(try await engine.wait(for: id).reason == "aborted")
    #expect(model.cancelled == [Self.handle] && model.fetched.isEmpty)
    #expect(try await TestBench.live(engine) == [:])
    try await bench.end(engine)
  }

  @Test func `a deferral without a handle is a broken answer`() async throws {
    var bench = TestBench()
    bench.settings.retry.isEnabled = false
    let engine = try await bench.open(ScriptedModel { _ in [[.deferred(handle: "h")]] })
    _ = try await bench.start(engine)
    #expect(try await bench.ask(engine).reason == "model_error")
    try await bench.end(engine)
  }
}
