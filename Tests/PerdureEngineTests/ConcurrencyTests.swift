import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct ConcurrencyTests {
  private func conversations(_ count: Int, _ engine: Engine) async throws -> [ConversationID] {
    var ids: [ConversationID] = []
    for number in 0..<count {
      let id = number == 0 ? try await engine.root() : try await engine.createConversation()
      try await engine.configure(id, ["model": ScriptedModel.reference.json])
      ids.append(id)
    }
    return ids
  }

  private let model = calling(("a", "echo", ["text": "one"]), ("b", "echo", ["text": "two"]))

  @Test func `two conversations run beside each other`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    let ids = try await conversations(2, engine)
    let first = try await engine.submit("hi", to: ids[0])
    let second = try await engine.submit("hi", to: ids[1])
    // Both requests are open at the same time.
    let (one, two) = (await model.request(1), await model.request(2))
    for stream in [two, one] {
      stream.send([.blockStart(index: 0, .text), .delta(index: 0, "x"), .finished(.stop)])
    }
    #expect(try await engine.wait(for: second).status == .done)
    #expect(try await engine.wait(for: first).status == .done)
    try await bench.end(engine)
  }

  @Test func `conversations share flushes`() async throws {
    var bench = TestBench()
    let storage = RecordingStorage(SlowStorage(bench.memory))
    bench.front = { _ in storage }
    let engine = try await bench.open(model, tools: [echo])
    let ids = try await conversations(32, engine)
    let before = (storage.groups.count, storage.batches.count)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for id in ids {
        group.addTask {
          let submission = try await engine.submit("hi", to: id)
          #expect(try await engine.wait(for: submission).status == .done)
        }
      }
      try await group.waitForAll()
    }
    let groups = storage.groups.count - before.0
    let batches = storage.batches.count - before.1
    #expect(groups * 3 < batches, "\(groups) flushes for \(batches) commits")
    try await bench.end(engine)
  }

  @Test func `a tool turn costs few flushes`() async throws {
    var bench = TestBench()
    let storage = RecordingStorage(bench.memory)
    bench.front = { _ in storage }
    let engine = try await bench.open(calling(("a", "echo", ["text": "one"])), tools: [echo])
    _ = try await bench.start(engine)
    let before = storage.groups.count
    #expect(try await bench.ask(engine).status == .done)
    // The submission, the two requests, the call, and the answer for the one who waits.
    #expect(storage.groups.count - before <= 5)
    try await bench.end(engine)
  }

  @Test func `finished work leaves nothing behind in memory`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(model, tools: [echo])
    _ = try await bench.start(engine)
    for _ in 0..<20 { _ = try await bench.ask(engine) }
    await engine.waitUntilQuiet()
    #expect(engine.session.liveTasks.isEmpty)
    #expect(engine.session.store.stagedBytes == 0)
    #expect(engine.scheduler.heldTaskCount == 0)
    try await bench.end(engine)
  }

  @Test func `a context is read once although many ask for it`() async throws {
    let bench = TestBench()
    let first = try await bench.open(model, tools: [echo])
    _ = try await bench.start(first)
    for _ in 0..<5 { _ = try await bench.ask(first) }
    try await bench.end(first)
    let next = bench.afterDeath()
    let engine = try await next.open(model, tools: [echo])
    let ids = try await conversations(1, engine)
    for _ in 0..<5 {
      let id = try await engine.submit("hi", to: ids[0])
      #expect(try await engine.wait(for: id).status == .done)
    }
    let entries = try await TestBench.entries(engine)
    #expect(model.seen.last?.messages.count == ContextView(of: entries).messages.count - 1)
    try await next.end(engine)
  }

  @Test func `a context that is being read is shared by all who ask for it`() async throws {
    let storage = ScanningStorage(MemoryStorage())
    let session = try await Session.open(storage, clock: ManualClock())
    let contexts = ContextStore(store: session.store, clock: ManualClock())
    session.observe { contexts.observe($0) }
    let entry = try await session.commit { tx in
      _ = try await tx.createConversation(root: true)
      return try await tx.append(
        EntryDraft(kind: "pi.user", model: [["role": "user", "content": "hi"]]),
        to: .root
      )
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<64 {
        group.addTask {
          if number < 32 {
            let view = try await contexts.view(of: .root, upTo: nil)
            #expect(view.messages.count == 1)
          } else {
            #expect(try await contexts.entry(entry.id, in: .root) == entry)
          }
        }
      }
      try await group.waitForAll()
    }
    #expect(storage.scans.all == [.root])
    try await session.close()
  }

  @Test func `a run does not wait for reads of what this session wrote`() async throws {
    var bench = TestBench()
    let storage = LookupStorage(bench.memory)
    bench.front = { _ in storage }
    let engine = try await bench.open(model, tools: [echo])
    let id = try await conversations(2, engine)[1]
    let before = storage.lookups.all.count
    let submission = try await engine.submit("hi", to: id)
    #expect(try await engine.wait(for: submission).status == .done)
    // Only the waiter, who holds no line, asks what is on disk.
    #expect(storage.lookups.all.dropFirst(before) == [submission.value])
    try await bench.end(engine)
  }

  @Test func `contexts of conversations that rest are forgotten beyond a bound`() async throws {
    let storage = ScanningStorage(MemoryStorage())
    let session = try await Session.open(storage, clock: ManualClock())
    let contexts = ContextStore(store: session.store, clock: ManualClock(), idleEntries: 2)
    session.observe { contexts.observe($0) }
    let (one, two) = try await session.commit { tx in
      let ids = [
        try await tx.createConversation(root: true).id, try await tx.createConversation().id,
      ]
      for id in ids + ids {
        let model: [JSON] = [["role": "user", "content": "hi"]]
        _ = try await tx.append(EntryDraft(kind: "pi.user", model: model), to: id)
      }
      return (ids[0], ids[1])
    }
    for id in [one, two, two, one] {
      #expect(try await contexts.view(of: id, upTo: nil).messages.count == 2)
    }
    #expect(storage.scans.all == [one, two, one])
    try await session.close()
  }

  @Test func `more conversations than contexts are kept run beside each other`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(ScriptedModel { _ in ScriptedModel.text("hello") })
    let ids = try await conversations(600, engine)
    for _ in 0..<2 {
      try await withThrowingTaskGroup(of: Void.self) { group in
        for id in ids {
          group.addTask {
            let submission = try await engine.submit("hi", to: id)
            #expect(try await engine.wait(for: submission).status == .done)
          }
        }
        try await group.waitForAll()
      }
    }
    try await bench.end(engine)
  }
}

/// Notes which conversations and submissions are looked up.
private final class LookupStorage: ForwardingStorage {
  let base: any Storage
  let lookups = Log<Int64>()

  init(_ base: any Storage) { self.base = base }

  func conversation(_ id: ConversationID) async throws -> ConversationRecord? {
    lookups.add(id.value)
    return try await base.conversation(id)
  }

  func submission(_ id: SubmissionID) async throws -> SubmissionRecord? {
    lookups.add(id.value)
    return try await base.submission(id)
  }
}

/// Notes the scans of entries and lets others go on meanwhile.
private final class ScanningStorage: ForwardingStorage {
  let base: any Storage
  let scans = Log<ConversationID>()

  init(_ base: any Storage) { self.base = base }

  func scanEntries(
    _ query: EntryQuery,
    _ page: PageRequest
  ) async throws -> Page<EntryRecord> {
    scans.add(query.conversationId)
    for _ in 0..<100 { await Task.yield() }
    return try await base.scanEntries(query, page)
  }
}
