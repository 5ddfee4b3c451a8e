import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

@Suite(.timeLimit(.minutes(5))) struct ViewTests {
  private let bench = TestBench()

  private func open() async throws -> Engine {
    let engine = try await bench.open(ScriptedModel { _ in ScriptedModel.text("yes") })
    _ = try await bench.start(engine)
    return engine
  }

  private func set(_ engine: Engine, _ number: Int) async throws {
    try await engine.session.commit { tx in
      try await tx.edit(.agent, .root) { try $0.set(["n"], .int(number)) }
    }
  }

  /// One random commit: entries, markers and documents of two conversations.
  private func change(
    _ engine: Engine,
    _ other: ConversationID,
    _ random: inout SeededGenerator
  ) async throws {
    let id = random.chance(80) ? ConversationID.root : other
    let visible = try await TestBench.entries(engine, id)
    let start = visible.last { $0.head != nil }?.head
    let targets = visible.filter { entry in start.map { entry.id >= $0 } ?? true }
    let kind = random.int(0...5)
    let number = random.int(0...9)
    let target = targets.isEmpty ? nil : random.pick(targets).id
    try await engine.session.stage { tx in
      let text: JSON = ["role": "user", "content": .int(number)]
      switch kind {
      case 0: try await tx.append(EntryDraft(kind: "app", model: [text]), to: id)
      case 1: try await tx.append(EntryDraft(kind: "mark", head: .itself), to: id)
      case 2:
        try await tx.append(
          EntryDraft(kind: "mark", head: target.map { .entry($0) } ?? .itself),
          to: id
        )
      case 3: try await tx.edit(.agent, id) { try $0.assign(["n"], .int(number)) }
      case 4: try await tx.edit(.usage, id) { try $0.set([], ["all": .int(number)]) }
      default:
        try await tx.append(EntryDraft(kind: "app"), to: id)
        try await tx.edit(.live, id) { try $0.assign(["text"], .string("\(number)")) }
        try await tx.edit(.inbox, id) { draft in
          try draft.splice(["items"], at: 0, remove: 0, insert: [.int(number)])
        }
      }
    }
  }

  @Test func `following publications from a snapshot gives the next snapshot`() async throws {
    var random = SeededGenerator(for: "views")
    let engine = try await open()
    let other = try await engine.createConversation()
    for _ in 0..<12 {
      let watch = try await engine.views.watch(.root)
      var json = watch.initial.json
      let commits = random.int(1...12)
      for _ in 0..<commits {
        try await change(engine, other, &random)
        if random.chance(30) { try await engine.session.barrier() }
      }
      try await engine.session.barrier()
      let second = try await engine.views.latest(.root)
      let stored = try #require(try await fresh(engine))
      #expect(await second.next()?.value == stored.value)
      watch.stopAfterPending()
      while let frame = await watch.next() {
        json = try json.applying(frame.operations)
        #expect(json == frame.value)
      }
      #expect(json == stored.json)
    }
    try await engine.close()
  }

  /// The view as another process reads it from storage.
  private func fresh(_ engine: Engine) async throws -> ConversationFold? {
    let next = try await bench.afterDeath().open(ScriptedModel { _ in [] })
    let view = try await next.views.watch(.root).initial
    try await next.close()
    return view
  }

  @Test func `all who look at a conversation share one mount, which goes with the last`()
    async throws
  {
    let engine = try await open()
    do {
      let first = try await engine.views.watch(.root)
      let second = try await engine.views.latest(.root)
      #expect(engine.views.mountCount == 1)
      first.stop()
      #expect(engine.views.mountCount == 1)
      #expect(await second.next()?.value.conversation.id == .root)
    }
    #expect(engine.views.mountCount == 0)
    #expect(!engine.session.publications.hasSubscribers)
    try await engine.close()
  }

  @Test func `a view begins with everything that was staged`() async throws {
    let engine = try await open()
    try await engine.session.stage { try await $0.append(EntryDraft(kind: "t"), to: .root) }
    let watch = try await engine.views.watch(.root)
    #expect(watch.initial.value.entries.map(\.kind) == ["t"])
    try await engine.session.barrier()
    try await set(engine, 1)
    #expect(await watch.next()?.operations == [.set(["docs", "pi.agent", "n"], 1)])
    try await engine.close()
  }

  @Test func `a commit is shown when it is on disk and not before`() async throws {
    let engine = try await open()
    let watch = try await engine.views.watch(.root)
    try await engine.session.stage { try await $0.append(EntryDraft(kind: "t"), to: .root) }
    watch.stopAfterPending()
    #expect(await watch.next() == nil)
    try await engine.close()
  }

  @Test func `other conversations do not touch a view`() async throws {
    let engine = try await open()
    let other = try await engine.createConversation()
    let watch = try await engine.views.watch(.root)
    _ = try await engine.session.commit { try await $0.append(EntryDraft(kind: "t"), to: other) }
    watch.stopAfterPending()
    #expect(await watch.next() == nil)
    try await engine.close()
  }

  @Test func `an unknown conversation has no view`() async throws {
    let engine = try await open()
    let unknown = try #require(ConversationID(999))
    let error = await #expect(throws: PerdureError.self) {
      _ = try await engine.views.watch(unknown)
    }
    #expect(error?.code == .notFound)
    #expect(engine.views.mountCount == 0)
    try await engine.close()
  }

  // MARK: Watches

  private func agent(_ engine: Engine) async throws -> Watch<DocumentFold> {
    let address = DocumentDefinition.agent.address(in: .root)
    return try #require(try await engine.views.watch(.agent, at: address))
  }

  @Test func `a watch keeps its first value until a frame is read`() async throws {
    let engine = try await open()
    let watch = try await agent(engine)
    try await set(engine, 1)
    #expect(watch.value["n"] == nil)
    #expect(await watch.next()?.operations == [.set(["n"], 1)])
    #expect(watch.value["n"] == 1)
    try await engine.close()
  }

  @Test func `a hundred frames wait and one more makes them one replacement`() async throws {
    let engine = try await open()
    let watch = try await agent(engine)
    let second = try await agent(engine)
    for number in 1...100 { try await set(engine, number) }
    #expect(await second.next()?.operations == [.set(["n"], 1)])
    try await set(engine, 101)
    #expect(await second.next()?.operations == [.set(["n"], 2)])
    let frame = await watch.next()
    #expect(frame?.value["n"] == 101)
    #expect(frame?.operations == [.replace(watch.value)])
    watch.stopAfterPending()
    #expect(await watch.next() == nil)
    try await engine.close()
  }

  @Test func `a document that does not exist cannot be watched`() async throws {
    let engine = try await open()
    let address = DocumentAddress(kind: "pi.agent", scope: .session)
    #expect(try await engine.views.watch(.agent, at: address) == nil)
    #expect(engine.views.mountCount == 0)
    try await engine.close()
  }

  @Test func `stopping within the listener ends after that frame`() async throws {
    let engine = try await open()
    let watch = try await agent(engine)
    for number in 1...3 { try await set(engine, number) }
    let seen = Log<JSON?>()
    let ignore: @Sendable (Report) -> Void = { _ in }
    let end = await watch.deliver(reportingTo: ignore) { frame in
      seen.add(frame.value["n"])
      watch.stop()
    }
    #expect(seen.all == [1])
    #expect(end.name == "stopped")
    try await engine.close()
  }

  @Test func `a listener that throws is reported and ends only its watch`() async throws {
    let engine = try await open()
    let watch = try await agent(engine)
    let second = try await agent(engine)
    try await set(engine, 1)
    let report: @Sendable (Report) -> Void = { [bench] in bench.reports.add($0) }
    let end = await watch.deliver(reportingTo: report) { _ in
      throw CancellationError()
    }
    #expect(end.name == "listenerFailed")
    #expect(bench.reports.all.map(\.type) == ["listener_error"])
    #expect(await second.next()?.value["n"] == 1)
    try await engine.close()
  }

  @Test func `a commit listener that throws is reported and the commit stands`() async throws {
    let engine = try await open()
    let stop = engine.session.subscribe { _ in throw CancellationError() }
    try await set(engine, 1)
    stop()
    #expect(bench.reports.all.map(\.type) == ["listener_error"])
    #expect(try await engine.session.snapshot(.agent, .root)["n"] == 1)
    try await engine.close()
  }

  @Test func `cancelling the reader ends its watch and no other`() async throws {
    let engine = try await open()
    let watch = try await agent(engine)
    let second = try await agent(engine)
    let reading = Task { await watch.next() }
    reading.cancel()
    #expect(await reading.value == nil)
    #expect(watch.ending?.name == "cancelled")
    try await set(engine, 1)
    #expect(await second.next()?.value["n"] == 1)
    try await engine.close()
  }

  @Test func `a cancelled task gets no watch and leaves none`() async throws {
    let engine = try await open()
    let mayGo = Event()
    let asking = Task {
      await mayGo.wait()
      _ = try await engine.views.watch(.root)
    }
    asking.cancel()
    mayGo.happen()
    let error = await #expect(throws: PerdureError.self) { try await asking.value }
    #expect(error?.code == .cancelled)
    #expect(engine.views.mountCount == 0)
    try await engine.close()
  }

  @Test func `closing ends watches at once and nothing of the close is shown`() async throws {
    let engine = try await open()
    let watch = try await agent(engine)
    try await engine.session.stage { try await $0.edit(.agent, .root) { try $0.set(["n"], 1) } }
    try await engine.close()
    #expect(await watch.next() == nil)
    #expect(watch.ending?.name == "sessionClosed")
    let error = await #expect(throws: PerdureError.self) { _ = try await agent(engine) }
    #expect(error?.code == .closed)
  }

  @Test func `what is asked for after the close began is refused`() async throws {
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
    let watch = try await agent(engine)
    let closing = Task { try await engine.close() }
    #expect(await watch.waitForEnd().name == "sessionClosed")
    let error = await #expect(throws: PerdureError.self) { try await set(engine, 1) }
    #expect(error?.code == .closed)
    mayEnd.happen()
    try await closing.value
  }

  // MARK: Documents that end

  private func revision(
    _ record: DocumentRecord,
    _ version: Int64?,
    _ value: JSON?,
    _ operations: [PerdureValue.Operation] = []
  ) -> Publication {
    Publication(
      sequence: 9,
      changes: [.document(record, version: version, value: value, operations: operations)],
      at: 0
    )
  }

  private func stored(_ number: Int64, _ value: JSON) throws -> StoredDocument {
    let record = DocumentRecord(
      id: try #require(DocumentID(number)),
      address: DocumentDefinition.agent.address(in: .root),
      createdAt: 1
    )
    return StoredDocument(record: record, version: 1, value: value, deltasSinceBase: 0)
  }

  @Test func `a retired document ends with null`() throws {
    let document = try stored(5, ["a": 1])
    var fold = DocumentFold(document)
    #expect(fold.apply(revision(document.record, nil, nil)) == [.replace(.null)])
    #expect(fold.end?.name == "retired")
  }

  @Test func `a change of another version is one replacement, and none if it is equal`() throws {
    let document = try stored(5, ["a": 1])
    var fold = DocumentFold(document)
    #expect(fold.apply(revision(document.record, 2, ["a": 1])) == [])
    let change = revision(document.record, 2, ["a": 2], [.set(["a"], 2)])
    #expect(fold.apply(change) == [.replace(["a": 2])])
  }

  @Test func `a view follows the incarnations of a document`() throws {
    let (old, new) = (try stored(5, ["a": 1]), try stored(6, ["b": 1]))
    let record = ConversationRecord(id: .root)
    var fold = ConversationFold(record, head: nil, entries: [], documents: [old])
    let created = fold.apply(revision(new.record, 1, new.value))
    #expect(created == [.set(["docs", "pi.agent"], new.value)])
    #expect(fold.apply(revision(old.record, nil, nil)) == [])
    #expect(fold.apply(revision(new.record, nil, nil)) == [.delete(["docs", "pi.agent"])])
    #expect(fold.value.documents.isEmpty)
  }
}

extension WatchEnd {
  var name: String {
    switch self {
    case .stopped: "stopped"
    case .cancelled: "cancelled"
    case .retired: "retired"
    case .deleted: "deleted"
    case .sessionClosed: "sessionClosed"
    case .sessionFailed: "sessionFailed"
    case .listenerFailed: "listenerFailed"
    }
  }
}
