import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct SessionFailureTests {
  /// Fails one call and every later one, as a disk does that is gone.
  final class FailingStorage: ForwardingStorage {
    let base: any Storage
    private let target: Int
    private let counted = Mutex(0)

    init(_ base: any Storage, at target: Int) {
      self.base = base
      self.target = target
    }

    var count: Int { counted.withLock { $0 } }

    func around<Result>(
      writes: Bool,
      _ call: () async throws -> Result
    ) async throws -> Result {
      let number = counted.withLock { count in
        count += 1
        return count
      }
      if number >= target { throw PerdureError(.storeUnwritable, "the disk is gone") }
      return try await call()
    }
  }

  /// Plays a tool round; returns how it ended and how many storage calls there were.
  private func play(
    failingAt target: Int
  ) async throws -> (
    calls: Int, reports: [String], code: PerdureError.Code?
  ) {
    let storages = Log<FailingStorage>()
    var bench = TestBench()
    bench.front = { base in
      let storage = FailingStorage(base, at: target)
      storages.add(storage)
      return storage
    }
    let model = calling(("a", "echo", ["text": "one"]), ("b", "echo", ["text": "two"]))
    var code: PerdureError.Code?
    do {
      let engine = try await bench.open(model, tools: [echo])
      do {
        _ = try await bench.start(engine)
        _ = try await bench.ask(engine)
      } catch {
        code = (error as? PerdureError)?.code
        let later = await #expect(throws: PerdureError.self) {
          _ = try await engine.submit("again", to: .root)
        }
        #expect(later?.code == .sessionFailed)
      }
      // Neither may hang, whatever has failed.
      await engine.waitUntilQuiet()
      try? await engine.close()
    } catch {
      code = (error as? PerdureError)?.code
    }
    let calls = storages.all.first?.count ?? 0
    try await bench.checkInvariants()
    // What lies on disk goes on in the next process.
    if code != nil {
      let next = bench.afterDeath().withoutFront
      let engine = try await next.open(model, tools: [echo])
      _ = try await next.start(engine)
      try await engine.resume()
      await engine.waitUntilQuiet()
      #expect(engine.session.liveTasks.isEmpty)
      try await next.end(engine)
    }
    return (calls, bench.reports.all.map(\.type), code)
  }

  @Test func `a storage that fails at any call fails the session once and nothing hangs`()
    async throws
  {
    let whole = try await play(failingAt: .max)
    #expect(whole.code == nil)
    #expect(whole.calls > 10)
    for target in 1...whole.calls {
      let (calls, reports, code) = try await play(failingAt: target)
      // How many flushes are shared depends on who comes first.
      if calls < target { continue }
      let failures = reports.filter { $0 == "session_failed" }
      // The first call is made before there is a session; the last may be one of the closing.
      #expect(failures.count == (target == 1 ? 0 : 1), "call \(target)")
      if target > 1, let code { #expect(code == .sessionFailed, "call \(target)") }
    }
  }

  @Test func `waiters end when the session fails`() async throws {
    let model = LiveModel()
    var bench = TestBench()
    let isBroken = Event()
    bench.front = { BreakableStorage($0, isBroken) }
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    let waiting = Task { try await engine.wait(for: id) }
    let stream = await model.request(1)
    isBroken.happen()
    stream.send([.blockStart(index: 0, .text), .delta(index: 0, "x"), .finished(.stop)])
    let error = await #expect(throws: PerdureError.self) { _ = try await waiting.value }
    #expect(error?.code == .sessionFailed)
    #expect(bench.reports.all.map(\.type) == ["session_failed"])
    try? await engine.close()
  }

  @Test func `a decision that cannot be committed fails the session and starts nothing`()
    async throws
  {
    let bench = TestBench()
    let session = try await Session.open(bench.memory, clock: bench.clock)
    let other = try await session.commit { tx in
      _ = try await tx.createConversation(root: true)
      return try await tx.createConversation().id
    }
    let generation = TransactionTests.definition.named("pi.generation")
    try await session.commit { tx in
      // The first could run; the second must end without code, but its run names an input that
      // does not exist.
      _ = try await tx.createTask(generation, input: [:], conversation: .root)
      var broken = try await tx.createTask(generation, input: [:], conversation: other)
      broken.version = 2
      broken.abortRequested = true
      try await tx.replace(broken)
      let id = broken.id
      try await tx.edit(.live, other) { live in
        try live.set(["run"], ["taskId": id.json, "inputs": [999]])
      }
    }
    try await session.close()
    let next = bench.afterDeath()
    let model = ScriptedModel { _ in ScriptedModel.text("hello") }
    let engine = try await next.open(model)
    try await engine.resume()
    await engine.waitUntilQuiet()
    #expect(next.reports.all.map(\.type) == ["session_failed"])
    try? await engine.close()
    #expect(model.seen.isEmpty)
  }

  @Test func `a failed session says what failed`() async throws {
    let isBroken = Event()
    let session = try await Session.open(
      BreakableStorage(MemoryStorage(), isBroken),
      clock: ManualClock()
    )
    isBroken.happen()
    for _ in 0..<3 {
      let error = await #expect(throws: PerdureError.self) {
        _ = try await session.commit { try await $0.createConversation() }
      }
      #expect(error?.code == .sessionFailed)
      #expect(error?.details?["code"] == "store_unwritable")
    }
    await #expect(throws: PerdureError.self) { try await session.close() }
  }

  @Test func `a second writer is found at the next flush`() async throws {
    let memory = MemoryStorage()
    let session = try await Session.open(memory, clock: ManualClock())
    let batch = Batch(sequence: 1, writes: [.conversation(ConversationRecord(id: .root))], at: 0)
    try await memory.apply([batch], expecting: StoreCounters(), nextId: 2)
    let error = await #expect(throws: PerdureError.self) {
      _ = try await session.commit { try await $0.createConversation() }
    }
    #expect(error?.code == .sessionFailed)
    #expect(error?.details?["code"] == "foreign_writer")
    // The session closes its storage by itself.
    #expect(try await MemoryStorage(continuing: memory).counters().nextSequence == 2)
  }

  @Test func `a request that cannot be read fails only itself`() async throws {
    let session = try await Session.open(MemoryStorage(), clock: ManualClock())
    let error = await #expect(throws: PerdureError.self) {
      _ = try await session.store.scanEntries(
        EntryQuery(conversationId: .known(44)),
        PageRequest(limit: 1)
      )
    }
    #expect(error?.code == .invalidRequest)
    _ = try await session.commit { try await $0.createConversation() }
    try await session.close()
  }

  /// Gives up reads of cancelled callers, as a storage in another place does.
  private final class ImpatientStorage: ForwardingStorage {
    let base: any Storage

    init(_ base: any Storage) { self.base = base }

    func around<Result>(
      writes: Bool,
      _ call: () async throws -> Result
    ) async throws -> Result {
      try Task.checkCancellation()
      return try await call()
    }
  }

  @Test func `a read that ends because its caller was cancelled fails only itself`()
    async throws
  {
    let session = try await Session.open(
      ImpatientStorage(MemoryStorage()),
      clock: ManualClock()
    )
    let mayGo = Event()
    let reading = Task {
      await mayGo.wait()
      _ = try await session.store.submission(.known(9))
    }
    reading.cancel()
    mayGo.happen()
    let error = await #expect(throws: PerdureError.self) { try await reading.value }
    #expect(error?.code == .cancelled)
    _ = try await session.commit { try await $0.createConversation() }
    try await session.close()
  }

  @Test func `what a commit reads after its caller was cancelled is read all the same`()
    async throws
  {
    let session = try await Session.open(
      ImpatientStorage(MemoryStorage()),
      clock: ManualClock()
    )
    let first = try await session.commit { try await $0.createConversation().id }
    let (isInside, mayGo) = (Event(), Event())
    let committing = Task {
      try await session.stage { tx in
        isInside.happen()
        await mayGo.wait()
        let page = PageRequest(limit: 1)
        return try await tx.scanConversations(ConversationQuery(), page).items.map { $0.id }
      }.result
    }
    await isInside.wait()
    committing.cancel()
    mayGo.happen()
    #expect(try await committing.value == [first])
    try await session.close()
  }

  @Test func `cancelling whoever commits stops neither the commit nor the flush`()
    async throws
  {
    let session = try await Session.open(
      ImpatientStorage(MemoryStorage()),
      clock: ManualClock()
    )
    let (isInside, mayGo) = (Event(), Event())
    let committing = Task {
      try await session.commit { tx in
        let record = try await tx.createConversation(root: true)
        isInside.happen()
        await mayGo.wait()
        return record.id
      }
    }
    await isInside.wait()
    committing.cancel()
    mayGo.happen()
    #expect(try await committing.value == .root)
    try await session.close()
  }

  @Test func `a commit of a cancelled task does not begin`() async throws {
    let session = try await Session.open(MemoryStorage(), clock: ManualClock())
    let (mayGo, hasBegun) = (Event(), Event())
    let committing = Task {
      await mayGo.wait()
      try await session.commit { _ in hasBegun.happen() }
    }
    committing.cancel()
    mayGo.happen()
    let error = await #expect(throws: PerdureError.self) { try await committing.value }
    #expect(error?.code == .cancelled)
    #expect(!hasBegun.hasHappened)
    try await session.close()
  }

  /// Notes when it is closed and whether somebody still calls it then.
  private final class ClosingStorage: ForwardingStorage {
    let base: any Storage
    private let isBroken: Event?
    private let isClosed = Event()
    private let late = Log<Bool>()

    init(_ base: any Storage, _ isBroken: Event? = nil) {
      self.base = base
      self.isBroken = isBroken
    }

    var lateCalls: Int { late.all.count }

    func waitForClose() async { await isClosed.wait() }

    func around<Result>(
      writes: Bool,
      _ call: () async throws -> Result
    ) async throws -> Result {
      if isClosed.hasHappened { late.add(writes) }
      if writes, isBroken?.hasHappened == true {
        throw PerdureError(.storeUnwritable, "the disk is gone")
      }
      let result = try await call()
      if isClosed.hasHappened { late.add(writes) }
      return result
    }

    func close() async {
      isClosed.happen()
      await base.close()
    }
  }

  @Test func `a failed session releases its store although nobody closes it`() async throws {
    let isBroken = Event()
    let storage = ClosingStorage(MemoryStorage(), isBroken)
    let reports = Reports()
    let session = try await Session.open(
      storage,
      clock: ManualClock(),
      report: { reports.add($0) }
    )
    let released = Log<PerdureError?>()
    session.onRelease { released.add($0) }
    isBroken.happen()
    await #expect(throws: PerdureError.self) {
      _ = try await session.commit { try await $0.createConversation() }
    }
    await storage.waitForClose()
    while released.all.isEmpty { await Task.yield() }
    #expect(released.all.map { $0?.code } == [.sessionFailed])
    #expect(reports.all.map(\.type) == ["session_failed"])
    // Whoever closes it all the same is told what became of it, and nothing is reported twice.
    let error = await #expect(throws: PerdureError.self) { try await session.close() }
    #expect(error?.code == .sessionFailed)
    #expect(reports.all.count == 1)
    #expect(storage.lateCalls == 0)
  }

  @Test func `cancelling a wait ends only the wait`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    let waiting = Task { try await engine.wait(for: id) }
    let stream = await model.request(1)
    waiting.cancel()
    let error = await #expect(throws: PerdureError.self) { _ = try await waiting.value }
    #expect(error?.code == .cancelled)
    stream.send([.blockStart(index: 0, .text), .delta(index: 0, "x"), .finished(.stop)])
    #expect(try await engine.wait(for: id).status == .done)
    try await bench.end(engine)
  }

  @Test func `a wait for a submission that does not exist throws`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(ScriptedModel { _ in [] })
    let error = await #expect(throws: PerdureError.self) {
      _ = try await engine.wait(for: .known(99))
    }
    #expect(error?.code == .notFound)
    try await engine.close()
  }

  @Test func `closing ends those who wait`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    let waiting = Task { try await engine.wait(for: id) }
    _ = await model.request(1)
    try await engine.close()
    let error = await #expect(throws: PerdureError.self) { _ = try await waiting.value }
    #expect(error?.code == .closed)
    try await bench.checkInvariants()
  }
}

extension TestBench {
  /// The same bench without anything between the engine and its store.
  var withoutFront: TestBench {
    var bench = self
    bench.front = nil
    return bench
  }
}
