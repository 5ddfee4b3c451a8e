import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct PublicationTests {
  private func session(
    _ storage: any Storage = MemoryStorage()
  ) async throws -> (
    Session, ManualClock
  ) {
    let clock = ManualClock()
    let session = try await Session.open(
      storage,
      clock: clock,
      onCreation: Engine.builtInDocuments
    )
    _ = try await session.commit { try await $0.createConversation(root: true) }
    return (session, clock)
  }

  private func stage(_ session: Session, _ kind: JSONString = "t", size: Int = 0) async throws {
    let message: JSON = ["role": "user", "content": .string(String(repeating: "x", count: size))]
    try await session.stage { tx in
      try await tx.append(EntryDraft(kind: kind, model: [message]), to: .root)
    }
  }

  @Test func `somebody inside sees a commit before it is on disk`() async throws {
    let (session, _) = try await session()
    let commits = Commits(session)
    try await stage(session)
    #expect(commits.all.count == 1)
    #expect(
      try await session.store.storage.scanEntries(.init(conversationId: .root), .init(limit: 1))
        .items.isEmpty
    )
  }

  @Test func `somebody outside sees nothing before the flush and then all in order`() async throws {
    let (session, _) = try await session()
    let seen = Log<Int64>()
    let stop = session.publications.subscribe { seen.add($0.sequence) }
    for _ in 0..<5 { try await stage(session) }
    #expect(seen.all.isEmpty)
    try await session.barrier()
    #expect(seen.all == [2, 3, 4, 5, 6])
    stop()
  }

  @Test func `a subscriber that stopped sees nothing more`() async throws {
    let (session, _) = try await session()
    let seen = Log<Int64>()
    let stop = session.publications.subscribe { seen.add($0.sequence) }
    stop()
    stop()
    try await stage(session)
    try await session.barrier()
    #expect(seen.all.isEmpty)
  }

  @Test func `an observed commit is flushed after ten milliseconds`() async throws {
    let (session, clock) = try await session()
    let flushed = Event()
    let stop = session.publications.subscribe { _ in flushed.happen() }
    try await stage(session)
    await clock.waitForSleeper(of: .milliseconds(10))
    clock.advance(by: .milliseconds(9))
    #expect(!flushed.hasHappened)
    clock.advance(by: .milliseconds(1))
    await flushed.wait()
    stop()
  }

  @Test func `a commit that nobody observes is not flushed for its own sake`() async throws {
    let storage = RecordingStorage(MemoryStorage())
    let (session, clock) = try await session(storage)
    try await stage(session)
    clock.advance(by: .seconds(60))
    #expect(storage.groups.count == 1)
  }

  @Test func `a commit of somebody outside takes what is staged along`() async throws {
    let storage = RecordingStorage(MemoryStorage())
    let (session, _) = try await session(storage)
    for _ in 0..<3 { try await stage(session) }
    _ = try await session.commit { try await $0.append(EntryDraft(kind: "t"), to: .root) }
    #expect(storage.groups.map(\.count) == [1, 4])
  }

  @Test func `a megabyte of staged commits is written early`() async throws {
    let storage = RecordingStorage(MemoryStorage())
    let (session, _) = try await session(storage)
    let flushed = Event()
    // The subscriber alone would wait for the clock, which stands still.
    let stop = session.publications.subscribe { _ in flushed.happen() }
    try await stage(session, size: 600_000)
    #expect(storage.groups.count == 1)
    try await stage(session, size: 600_000)
    await flushed.wait()
    stop()
  }

  @Test func `a snapshot is the document as it lies on disk`() async throws {
    let (session, _) = try await session()
    #expect(try await session.snapshot(.agent, .root) == [:])
    try await session.stage { try await $0.edit(.agent, .root) { try $0.set(["a"], 1) } }
    #expect(try await session.snapshot(.agent, .root) == [:])
    try await session.barrier()
    #expect(try await session.snapshot(.agent, .root) == ["a": 1])
  }

  @Test func `whoever committed finds the commit in the next snapshot`() async throws {
    let (session, _) = try await session(SlowStorage(MemoryStorage()))
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<32 {
        group.addTask {
          let key = JSONString("k\(number)")
          try await session.commit { tx in
            try await tx.edit(.agent, .root) { try $0.set([.key(key)], 1) }
          }
          #expect(try await session.snapshot(.agent, .root)[key] == 1)
        }
      }
      try await group.waitForAll()
    }
  }

  @Test func `a commit has been published when it returns`() async throws {
    let (session, _) = try await session(SlowStorage(MemoryStorage()))
    let seen = Log<JSONString>()
    let stop = session.publications.subscribe { publication in
      for entry in publication.entries { seen.add(entry.kind) }
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<32 {
        group.addTask {
          let kind = JSONString("k\(number)")
          _ = try await session.commit { try await $0.append(EntryDraft(kind: kind), to: .root) }
          #expect(seen.all.contains(kind))
        }
      }
      try await group.waitForAll()
    }
    stop()
  }

  @Test func `a flush returns after its observer has been told`() async throws {
    let (isReturned, isTold) = (Event(), Event())
    let boxed = Log<StagedStore>()
    let waiting = Log<Task<Bool, any Error>>()
    let store = try await StagedStore.open(
      MemoryStorage(),
      clock: ManualClock(),
      onFlush: { sequence in
        waiting.add(
          Task.detached(priority: .high) {
            try await boxed.all.first?.flush(through: sequence)
            defer { isReturned.happen() }
            return isTold.hasHappened
          }
        )
        // Long enough for the other one to return, if it may.
        for _ in 0..<1_000_000 { if isReturned.hasHappened { break } }
        isTold.happen()
      }
    )
    boxed.add(store)
    _ = try await store.stage([.conversation(ConversationRecord(id: .root))])
    try await store.flush()
    let other = try #require(waiting.all.first)
    #expect(try await other.value)
    try await store.close()
  }

  @Test func `a document that leaves the cache within a commit is still the flushed one`()
    async throws
  {
    let (session, _) = try await session()
    try await session.stage { try await $0.edit(.agent, .root) { try $0.set(["a"], 1) } }
    var ids: [ConversationID] = []
    for _ in 0..<700 {
      ids.append(try await session.stage { try await $0.createConversation().id }.result)
    }
    try await session.barrier()
    try await session.stage { [ids] tx in
      try await tx.edit(.agent, .root) { try $0.set(["a"], 2) }
      for id in ids {
        for definition in [DocumentDefinition.live, .inbox, .usage, .agent] {
          _ = try await tx.value(definition, id)
        }
      }
    }
    #expect(try await session.snapshot(.agent, .root) == ["a": 1])
    try await session.barrier()
    #expect(try await session.snapshot(.agent, .root) == ["a": 2])
  }

  @Test func `many documents leave the cache and come back as they were`() async throws {
    let (session, _) = try await session()
    var ids: [ConversationID] = []
    for number in 0..<600 {
      let id = try await session.stage { tx in
        let id = try await tx.createConversation().id
        try await tx.edit(.agent, id) { try $0.set(["number"], .int(Int64(number))) }
        return id
      }.result
      ids.append(id)
      if number.isMultiple(of: 100) { try await session.barrier() }
    }
    try await session.barrier()
    for (number, id) in ids.enumerated() {
      #expect(try await session.snapshot(.agent, id)["number"] == .int(Int64(number)))
    }
  }
}
