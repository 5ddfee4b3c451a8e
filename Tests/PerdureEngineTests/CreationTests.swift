import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

@Suite(.timeLimit(.minutes(5))) struct CreationTests {
  private func open(
    _ bench: TestBench,
    _ hook: @escaping Session.CreationHook
  ) async throws
    -> Engine
  {
    let registry = Registry()
    return try await Engine.open(
      bench.memory,
      Engine.Options(
        models: ScriptedModel { _ in ScriptedModel.text("yes") },
        registry: registry,
        settings: { Settings() },
        clock: bench.clock,
        report: { [reports = bench.reports] in reports.add($0) },
        conversationCreated: hook
      )
    )
  }

  private static let note = DocumentDefinition.test(kind: "app.note")

  @Test func `the hook runs within every creation and after the built-in documents`()
    async throws
  {
    let bench = TestBench()
    let seen = Log<ConversationRecord>()
    let engine = try await open(bench) { tx, record in
      #expect(try await tx.value(.provider, in: .conversation(record.id)) != nil)
      try await tx.edit(Self.note, record.id) { try $0.set(["by"], "hook") }
      seen.add(record)
    }
    let root = try await engine.root()
    let created = try await engine.createConversation()
    let entry = try await engine.session.commit { tx in
      _ = try await tx.createConversation()
      return try await tx.append(EntryDraft(kind: "t"), to: root).id
    }
    let fork = try await engine.fork(root, at: entry)
    #expect(seen.all.count == 4)
    #expect(seen.all.first?.id == root)
    #expect(seen.all.last?.parent?.at == entry)
    for id in [root, created, fork] {
      #expect(try await engine.session.snapshot(Self.note, id) == ["by": "hook"])
    }
    try await bench.end(engine)
  }

  @Test func `the hook comes before the choices and these before the beginning`() async throws {
    let bench = TestBench()
    let steps = Log<JSON>()
    let engine = try await open(bench) { tx, record in
      steps.add(try await tx.value(.agent, record.id)["thinkingLevel"] ?? "hook")
    }
    let id = try await engine.createConversation(configure: ["thinkingLevel": "low"]) { tx, id in
      steps.add(try await tx.value(.agent, id)["thinkingLevel"] ?? .null)
      try await tx.edit(Self.note, id) { try $0.set(["by"], "beginning") }
    }
    #expect(steps.all == ["hook", "low"])
    #expect(try await engine.session.snapshot(Self.note, id) == ["by": "beginning"])
    try await bench.end(engine)
  }

  @Test(arguments: [true, false])
  func `a throw in the hook or in the beginning takes the creation back`(
    _ isHook: Bool
  ) async throws {
    let bench = TestBench()
    let isArmed = Event()
    let engine = try await open(bench) { _, _ in
      if isHook, isArmed.hasHappened { throw CancellationError() }
    }
    _ = try await engine.root()
    isArmed.happen()
    let before = engine.session.store.lastStaged
    await #expect(throws: CancellationError.self) {
      _ = try await engine.createConversation { _, _ in
        if !isHook { throw CancellationError() }
      }
    }
    #expect(engine.session.store.lastStaged == before)
    _ = try await engine.session.commit { try await $0.append(EntryDraft(kind: "t"), to: .root) }
    try await bench.end(engine)
  }

  @Test func `tables are not read within a creation and documents are`() async throws {
    let bench = TestBench()
    let codes = Log<PerdureError.Code?>()
    let engine = try await open(bench) { tx, record in
      do { _ = try await tx.conversation(record.id) } catch {
        codes.add((error as? PerdureError)?.code)
      }
      _ = try await tx.value(.live, record.id)
    }
    let root = try await engine.root { tx, id in
      do { _ = try await tx.scanTasks(.init(), .init(limit: 1)) } catch {
        codes.add((error as? PerdureError)?.code)
      }
      try await tx.edit(.usage, id) { _ in }
    }
    let entry = try await engine.session.commit { tx in
      try await tx.append(EntryDraft(kind: "t"), to: root).id
    }
    _ = try await engine.fork(root, at: entry)
    #expect(codes.all == [.readAfterWrite, .readAfterWrite, .readAfterWrite])
    try await bench.end(engine)
  }

  @Test func `a root that exists is returned and nothing is written`() async throws {
    let bench = TestBench()
    let engine = try await open(bench) { _, _ in }
    _ = try await engine.root(configure: ["thinkingLevel": "low"])
    let before = engine.session.store.lastStaged
    let isCalled = Event()
    _ = try await engine.root(configure: ["thinkingLevel": "high"]) { _, _ in isCalled.happen() }
    #expect(engine.session.store.lastStaged == before)
    #expect(!isCalled.hasHappened)
    #expect(try await engine.session.snapshot(.agent, .root)["thinkingLevel"] == "low")
    try await bench.end(engine)
  }

  @Test func `a conversation without built-in documents has their initial values and goes on`()
    async throws
  {
    let bench = TestBench()
    let session = try await Session.open(bench.memory, clock: bench.clock)
    try await session.commit { _ = try await $0.createConversation(root: true) }
    let scan = DocumentQuery(scope: .conversation(.root))
    #expect(try await session.store.scanDocuments(scan, .init(limit: 9)).items.isEmpty)
    #expect(try await session.snapshot(.inbox, .root) == ["items": []])
    try await session.close()
    let next = bench.afterDeath()
    let engine = try await next.open(ScriptedModel { _ in ScriptedModel.text("yes") })
    _ = try await next.start(engine)
    #expect(try await next.ask(engine).status == .done)
    let provider = try await engine.session.snapshot(.provider, in: .conversation(.root))
    #expect(provider?["sessionId"]?.string != nil)
    try await next.end(engine)
  }
}
