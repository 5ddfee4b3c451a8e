import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

@Suite(.timeLimit(.minutes(5))) struct SessionClosingTests {
  @Test func `closing lets an admitted commit settle and refuses the next`() async throws {
    let memory = MemoryStorage()
    let session = try await Session.open(memory, clock: ManualClock())
    let (isInside, mayEnd) = (Event(), Event())
    async let admitted: ConversationID = session.commit { tx in
      let record = try await tx.createConversation(root: true)
      isInside.happen()
      await mayEnd.wait()
      return record.id
    }
    await isInside.wait()
    async let queued: EntryRecord = session.commit { tx in
      try await tx.append(EntryDraft(kind: "t"), to: .root)
    }
    while session.line.waitingCount == 0 { await Task.yield() }
    let closing = Task { try await session.close() }
    while session.line.waitingCount == 1 { await Task.yield() }
    let refused = await #expect(throws: PerdureError.self) {
      _ = try await session.commit { try await $0.createConversation() }
    }
    #expect(refused?.code == .closed)
    mayEnd.happen()
    #expect(try await admitted == .root)
    #expect(try await queued.kind == "t")
    try await closing.value
    let later = MemoryStorage(continuing: memory)
    #expect(
      try await later.scanEntries(.init(conversationId: .root), .init(limit: 9)).items.count == 1
    )
  }

  @Test func `all calls of close share one shutdown`() async throws {
    let session = try await Session.open(MemoryStorage(), clock: ManualClock())
    let ends = Log<Bool>()
    session.onEnd { ends.add($0 == nil) }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<8 { group.addTask { try await session.close() } }
      try await group.waitForAll()
    }
    #expect(ends.all == [true])
  }

  @Test func `a commit may not close its session`() async throws {
    let session = try await Session.open(MemoryStorage(), clock: ManualClock())
    let error = await #expect(throws: PerdureError.self) {
      try await session.stage { _ in try await session.close() }
    }
    #expect(error?.code == .nestedCommit)
    _ = try await session.commit { try await $0.createConversation() }
    try await session.close()
  }

  @Test func `what is staged at the close is on disk afterwards`() async throws {
    let memory = MemoryStorage()
    let session = try await Session.open(memory, clock: ManualClock())
    let seen = Log<Int64>()
    _ = session.publications.subscribe { seen.add($0.sequence) }
    try await session.stage { _ = try await $0.createConversation(root: true) }
    try await session.close()
    #expect(try await MemoryStorage(continuing: memory).conversation(.root) != nil)
    #expect(seen.all == [1])
  }

  @Test func `a session is freed when nobody holds it`() async throws {
    weak var kept: Session?
    do {
      let session = try await Session.open(MemoryStorage(), clock: ManualClock())
      kept = session
      _ = try await session.commit { try await $0.createConversation() }
      try await session.close()
    }
    #expect(kept == nil)
  }

  @Test func `a cancelled caller of close stops waiting and the shutdown goes on`()
    async throws
  {
    let bench = TestBench()
    let (hasStarted, mayEnd) = (Event(), Event())
    let tool = plainTool("slow") { _ in
      hasStarted.happen()
      await mayEnd.wait()
      return .text("late")
    }
    let engine = try await bench.open(calling(("a", "slow", [:])), tools: [tool])
    _ = try await bench.start(engine)
    _ = try await engine.submit("hi", to: .root)
    await hasStarted.wait()
    let closing = Task { try await engine.close() }
    closing.cancel()
    let error = await #expect(throws: PerdureError.self) { try await closing.value }
    #expect(error?.code == .cancelled)
    mayEnd.happen()
    try await engine.close()
    try await bench.checkInvariants()
  }

  @Test func `nothing is read or written after the close`() async throws {
    let session = try await Session.open(
      MemoryStorage(),
      clock: ManualClock(),
      onCreation: Engine.builtInDocuments
    )
    try await session.commit { _ = try await $0.createConversation(root: true) }
    _ = try await session.snapshot(.agent, .root)
    try await session.close()
    let calls: [() async throws -> Void] = [
      { _ = try await session.snapshot(.agent, .root) },
      { _ = try await session.snapshot(.agent, in: .root, asOf: .known(9)) },
      { _ = try await session.store.conversation(.root) },
      { _ = try await session.commit { try await $0.createConversation() } },
      { try await session.stage { _ in } },
    ]
    for call in calls {
      let error = await #expect(throws: PerdureError.self) { try await call() }
      #expect(error?.code == .closed)
    }
  }

  @Test func `a cached document is read while a commit holds the line`() async throws {
    let bench = try await StoreBench(.memory)
    let (isInside, mayEnd) = (Event(), Event())
    let session = bench.session
    async let held: Void = session.commit { tx in
      try await tx.edit(.agent, .root) { try $0.set(["n"], 1) }
      isInside.happen()
      await mayEnd.wait()
    }
    await isInside.wait()
    #expect(try await session.snapshot(.agent, .root) == [:])
    mayEnd.happen()
    try await held
    #expect(try await session.snapshot(.agent, .root) == ["n": 1])
    try await bench.end()
  }
}
