import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct RetentionTests {
  private func bench(documents: Int64?, contexts: Int64? = nil) -> TestBench {
    var bench = TestBench()
    bench.settings.documentRetentionMs = documents
    bench.settings.contextRetentionMs = contexts
    return bench
  }

  private func waitUntil(_ condition: () -> Bool) async {
    while !condition() { await Task.yield() }
  }

  @Test func `documents that nobody uses are dropped in time and come back as they were`()
    async throws
  {
    let bench = bench(documents: 10_000)
    let engine = try await bench.open(ScriptedModel { _ in [] })
    _ = try await bench.start(engine)
    #expect(engine.session.cachedDocumentCount == 5)
    await bench.clock.waitForBackgroundSleeper(of: .seconds(10))
    bench.clock.advance(by: .seconds(9))
    #expect(engine.session.cachedDocumentCount == 5)
    bench.clock.advance(by: .seconds(2))
    await waitUntil { engine.session.cachedDocumentCount == 0 }
    let agent = try await engine.session.snapshot(.agent, .root)
    #expect(agent["model"] == ScriptedModel.reference.json)
    try await bench.end(engine)
  }

  @Test func `a document that is used again stays`() async throws {
    let bench = bench(documents: 10_000)
    let engine = try await bench.open(ScriptedModel { _ in [] })
    _ = try await bench.start(engine)
    await bench.clock.waitForBackgroundSleeper(of: .seconds(10))
    bench.clock.advance(by: .seconds(8))
    _ = try await engine.session.snapshot(.agent, .root)
    bench.clock.advance(by: .seconds(3))
    await waitUntil { engine.session.cachedDocumentCount == 1 }
    await bench.clock.waitForBackgroundSleeper(of: .seconds(7))
    bench.clock.advance(by: .seconds(8))
    await waitUntil { engine.session.cachedDocumentCount == 0 }
    try await bench.end(engine)
  }

  @Test func `nobody is woken when there is nothing to drop`() async throws {
    let bench = bench(documents: 10_000)
    let engine = try await bench.open(ScriptedModel { _ in [] })
    #expect(bench.clock.backgroundSleeperCount == 0)
    _ = try await bench.start(engine)
    await bench.clock.waitForBackgroundSleeper()
    #expect(bench.clock.backgroundSleeperCount == 1)
    bench.clock.advance(by: .seconds(20))
    await waitUntil {
      engine.session.cachedDocumentCount == 0 && bench.clock.backgroundSleeperCount == 0
    }
    try await bench.end(engine)
  }

  @Test func `without an end everything is kept and nothing sleeps`() async throws {
    let bench = bench(documents: nil)
    let engine = try await bench.open(ScriptedModel { _ in ScriptedModel.text("yes") })
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine)
    bench.clock.advance(by: .seconds(1_000_000))
    _ = try await engine.session.commit { try await $0.append(EntryDraft(kind: "t"), to: .root) }
    #expect(engine.session.cachedDocumentCount == 5)
    #expect(bench.clock.backgroundSleeperCount == 0)
    try await bench.end(engine)
  }

  @Test func `what is observed is kept and what was observed is not`() async throws {
    let bench = bench(documents: 10_000)
    let engine = try await bench.open(ScriptedModel { _ in [] })
    _ = try await bench.start(engine)
    let address = DocumentDefinition.agent.address(in: .root)
    let state = try #require(try await engine.views.state(.agent, at: address))
    let watch = try await engine.views.watch(.agent, at: address)
    await bench.clock.waitForBackgroundSleeper()
    bench.clock.advance(by: .seconds(20))
    await waitUntil { engine.session.cachedDocumentCount == 1 }
    state.dispose()
    state.dispose()
    #expect(bench.clock.backgroundSleeperCount == 0)
    watch?.stop()
    await waitUntil { engine.session.cachedDocumentCount == 1 }
    await waitUntil {
      bench.clock.advance(by: .seconds(2))
      return engine.session.cachedDocumentCount == 0
    }
    try await bench.end(engine)
  }

  @Test func `what is not on disk is not dropped`() async throws {
    let bench = bench(documents: 10_000)
    let engine = try await bench.open(ScriptedModel { _ in [] })
    _ = try await bench.start(engine)
    await bench.clock.waitForBackgroundSleeper()
    try await engine.session.stage { try await $0.edit(.agent, .root) { try $0.set(["n"], 1) } }
    bench.clock.advance(by: .seconds(30))
    await waitUntil { engine.session.cachedDocumentCount == 1 }
    try await engine.session.stage { tx in
      let agent = try await tx.value(.agent, .root)
      #expect(agent["n"] == 1)
    }
    #expect(try await engine.session.snapshot(.agent, .root)["n"] == nil)
    try await bench.end(engine)
  }

  /// A host that must not be woken for memory.
  private struct DecliningClock: HostClock {
    let base: ManualClock

    func now() -> Int64 { base.now() }
    func monotonic() -> Int64 { base.monotonic() }
    func sleep(nanoseconds: Int64) async { await base.sleep(nanoseconds: nanoseconds) }
    func sleepInBackground(nanoseconds: Int64) async -> Bool { false }
  }

  @Test func `a host may decline to be woken and then commits drop what is over`() async throws {
    let clock = ManualClock()
    let session = try await Session.open(
      MemoryStorage(),
      clock: DecliningClock(base: clock),
      documentRetentionMs: { 10_000 },
      onCreation: Engine.builtInDocuments
    )
    for _ in 0..<3 {
      _ = try await session.commit { try await $0.createConversation() }
      clock.advance(by: .seconds(20))
    }
    // The commit drops what the ones before it left.
    _ = try await session.commit { try await $0.createConversation() }
    #expect(session.cachedDocumentCount == 5)
    try await session.close()
  }

  @Test func `a session that is closed does not sleep on`() async throws {
    let bench = bench(documents: 10_000)
    let engine = try await bench.open(ScriptedModel { _ in [] })
    _ = try await bench.start(engine)
    await bench.clock.waitForBackgroundSleeper()
    try await bench.end(engine)
    #expect(bench.clock.backgroundSleeperCount == 0)
    #expect(engine.session.cachedDocumentCount == 0)
  }

  // MARK: Contexts

  @Test func `the context of an idle conversation is dropped in time`() async throws {
    let bench = bench(documents: nil, contexts: 10_000)
    let engine = try await bench.open(ScriptedModel { _ in ScriptedModel.text("yes") })
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine)
    #expect(engine.contexts.count == 1)
    await bench.clock.waitForBackgroundSleeper(of: .seconds(10))
    bench.clock.advance(by: .seconds(12))
    await waitUntil { engine.contexts.count == 0 }
    #expect(try await bench.ask(engine).status == .done)
    try await bench.end(engine)
  }

  @Test func `the context of a conversation that runs is kept`() async throws {
    let bench = bench(documents: nil, contexts: 10_000)
    let model = LiveModel()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    let stream = await model.request(1)
    bench.clock.advance(by: .seconds(60))
    _ = try await engine.session.commit { try await $0.createConversation() }
    #expect(engine.contexts.count == 1)
    stream.send([.blockStart(index: 0, .text), .delta(index: 0, "x"), .finished(.stop)])
    #expect(try await engine.wait(for: id).status == .done)
    // Only now its time begins.
    await bench.clock.waitForBackgroundSleeper(of: .seconds(10))
    bench.clock.advance(by: .seconds(12))
    await waitUntil { engine.contexts.count == 0 }
    try await bench.end(engine)
  }

  @Test func `without retention an idle conversation keeps no context`() async throws {
    let bench = bench(documents: nil, contexts: 0)
    let engine = try await bench.open(ScriptedModel { _ in ScriptedModel.text("yes") })
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine)
    #expect(engine.contexts.count == 0)
    try await bench.end(engine)
  }

  /// A clock that looks at the engine whose time it tells.
  private final class CuriousClock: HostClock {
    private let base = ManualClock()
    private let look = Mutex<(@Sendable () -> Void)?>(nil)

    func watch(_ look: @escaping @Sendable () -> Void) { self.look.withLock { $0 = look } }

    func now() -> Int64 { base.now() }

    func monotonic() -> Int64 {
      look.withLock { $0 }?()
      return base.monotonic()
    }

    func sleep(nanoseconds: Int64) async { await base.sleep(nanoseconds: nanoseconds) }
  }

  @Test func `the clock may look at what is kept`() async throws {
    let clock = CuriousClock()
    let engine = try await Engine.open(
      MemoryStorage(),
      Engine.Options(
        models: ScriptedModel { _ in ScriptedModel.text("done") },
        registry: Registry(),
        settings: { Settings() },
        clock: clock,
        report: { _ in }
      )
    )
    clock.watch { [weak engine] in
      _ = engine?.contexts.count
      _ = engine?.session.cachedDocumentCount
    }
    let bench = TestBench()
    _ = try await bench.start(engine)
    #expect(try await bench.ask(engine).status == .done)
    try await engine.close()
  }
}
