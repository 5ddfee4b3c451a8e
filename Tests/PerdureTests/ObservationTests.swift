import Perdure
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct ObservationTests {
  struct Note: Codable, Sendable, Equatable { var text = "" }

  private static let note = Document("app.note", scope: .session) { _ in Note() }
  private static let todo = Document("app.todo", scope: .conversation) { _ in Note() }
  private static let page = Document("app.page", scope: .conversation, keyed: true) { seed in
    Note(text: seed?.text ?? "")
  }

  private func open(
    _ storage: any Storage = MemoryStorage(),
    reports: @escaping @Sendable (Report) -> Void = { _ in }
  ) async throws -> Harness {
    let harness = try await Harness.open(
      .custom(storage),
      models: ScriptedModel { _ in ScriptedModel.text("yes") },
      clock: ManualClock(),
      onReport: reports
    )
    try await harness.commit { tx in try await tx.update(Self.note) { _ in } }
    return harness
  }

  private func set(_ harness: Harness, _ text: String) async throws {
    try await harness.commit { tx in try await tx.update(Self.note) { $0.text = text } }
  }

  @Test func `a state begins at sequence 0 and goes on with growing ones`() async throws {
    let harness = try await open()
    let state = try #require(try await harness.state(of: Self.note))
    #expect(try state.value == Note())
    let revisions = state.revisions()
    for text in ["a", "ab", "abc"] { try await set(harness, text) }
    #expect(try state.value == Note(text: "abc"))
    try await harness.close()
    var seen: [(text: String?, sequence: Int64)] = []
    for try await revision in revisions {
      seen.append((revision.value?.text, revision.sequence))
    }
    #expect(seen.map(\.text) == ["", "a", "ab", "abc"])
    #expect(seen.first?.sequence == 0)
    #expect(zip(seen, seen.dropFirst()).allSatisfy { $0.sequence < $1.sequence })
    #expect(try state.value == Note(text: "abc"))
    #expect(state.ending?.reason == "session_closed")
  }

  @Test func `whoever wants only the newest value misses those between`() async throws {
    let harness = try await open()
    let state = try #require(try await harness.state(of: Self.note))
    var values = state.values().makeAsyncIterator()
    let first = try await values.next()
    #expect(first?.sequence == 0)
    for text in ["a", "ab", "abc"] { try await set(harness, text) }
    let next = try await values.next()
    #expect(next?.value == Note(text: "abc"))
    try await harness.commit { try await $0.retire(Self.note) }
    let last = try await values.next()
    #expect(last != nil && last?.value == nil)
    #expect(try await values.next() == nil)
    #expect(try state.value == nil)
    try await harness.close()
  }

  @Test func `a document that does not exist has no state and is not created`() async throws {
    let harness = try await open()
    let absent = Document("app.absent", scope: .session) { _ in Note() }
    #expect(try await harness.state(of: absent) == nil)
    #expect(try await harness.changes(of: absent) == nil)
    #expect(try await harness.value(absent) == nil)
    try await harness.close()
  }

  @Test func `a value of another form ends the sequence with an error`() async throws {
    let harness = try await open()
    let state = try #require(try await harness.state(of: Self.note))
    var values = state.values().makeAsyncIterator()
    try await harness.commit { tx in try await tx.edit(Self.note) { try $0.set(["text"], to: 7) } }
    let error = await #expect(throws: PerdureError.self) { _ = try await values.next() }
    #expect(error?.code == .documentMismatch)
    try await harness.close()
  }

  // MARK: Ends

  @Test func `a reader may stop and what it had not read is dropped`() async throws {
    let harness = try await open()
    let changes = try #require(try await harness.changes(of: Self.note))
    try await set(harness, "a")
    changes.stop()
    #expect(await changes.waitForEnd().reason == "stopped")
    var count = 0
    for try await _ in changes { count += 1 }
    #expect(count == 0)
    try await harness.close()
  }

  @Test func `a listener gets every change in order and may stop within`() async throws {
    let harness = try await open()
    let changes = try #require(try await harness.changes(of: Self.note))
    for text in ["a", "ab", "abc"] { try await set(harness, text) }
    let seen = Mutex<[JSON?]>([])
    let end = await changes.deliver { change in
      seen.withLock { $0.append(change.value["text"]) }
      if change.value["text"] == "ab" { changes.stop() }
    }
    #expect(end.reason == "stopped")
    #expect(seen.withLock { $0 } == ["", "a", "ab"])
    try await harness.close()
  }

  @Test func `a listener that throws is reported and ends only its own`() async throws {
    let reports = Mutex<[String]>([])
    let harness = try await open(reports: { report in reports.withLock { $0.append(report.type) } })
    let changes = try #require(try await harness.changes(of: Self.note))
    let commits = harness.commits()
    let end = await changes.deliver { _ in throw CancellationError() }
    #expect(end.reason == "listener_error")
    #expect(reports.withLock { $0 } == ["listener_error"])
    try await set(harness, "a")
    var iterator = commits.makeAsyncIterator()
    #expect(try await iterator.next()?.documents.map(\.address.kind) == ["app.note"])
    try await harness.close()
  }

  @Test func `a document that ends is null and its watch says so`() async throws {
    let harness = try await open()
    let changes = try #require(try await harness.changes(of: Self.note))
    try await harness.commit { try await $0.retire(Self.note) }
    var values: [JSON] = []
    for try await change in changes { values.append(change.value) }
    #expect(values == [["text": ""], .null])
    #expect(changes.ending?.reason == "retired")
    try await harness.close()
  }

  // MARK: Views and families

  @Test func `a view shows the documents of the application that it is asked for`()
    async throws
  {
    let harness = try await open()
    let root = try await harness.root()
    let views = try await root.views(mounting: [Self.todo.token, Self.page.token])
    try await root.commit { tx in
      try await tx.update(Self.todo, of: .conversation(root.id)) { $0.text = "buy" }
      try await tx.update(Self.page, of: .conversation(root.id), key: "a", seed: "x") { _ in }
      try await tx.append(EntryDraft(kind: "app.mark"), to: root.id)
    }
    var iterator = views.makeAsyncIterator()
    let view = try #require(try await iterator.next())
    #expect(try view.value(Self.todo) == Note(text: "buy"))
    #expect(try view.value(Self.page, key: "a") == Note(text: "x"))
    #expect(try view.value(Self.page, key: "b") == nil)
    #expect(view.entries.map(\.kind) == ["app.mark"])
    let plain = try await root.view()
    #expect(try plain.value(Self.todo) == nil)
    #expect(try await root.view(mounting: [Self.todo.token]).value(Self.todo)?.text == "buy")
    try await harness.close()
  }

  @Test func `the members of a family are listed and followed`() async throws {
    let harness = try await open()
    let root = try await harness.root()
    let scope = DocumentScope.conversation(root.id)
    #expect(try await harness.members(of: Self.page, in: scope).isEmpty)
    let updates = try await harness.memberUpdates(of: Self.page, in: scope)
    let changes = try await harness.memberChanges(of: Self.page, in: scope)
    try await root.commit { tx in
      for key in ["b", "a", ""] {
        try await tx.update(Self.page, of: scope, key: key, seed: .string("\(key)!")) { _ in }
      }
    }
    try await root.commit { try await $0.retire(Self.page, of: scope, key: "a") }
    let members = try await harness.members(of: Self.page, in: scope)
    #expect(members.map(\.key) == ["b", ""])
    #expect(members.map(\.value.text) == ["b!", "!"])
    var iterator = updates.makeAsyncIterator()
    #expect(try await iterator.next()?.map(\.key) == ["b", ""])
    try await harness.close()
    var value = JSON.null
    for try await change in changes { value = try value.applying(change.operations) }
    #expect(value == ["b": ["text": "b!"], "": ["text": "!"]])
  }

  // MARK: Creation and failure

  @Test func `the host adds to each conversation that is created`() async throws {
    let harness = try await Harness.open(
      .memory,
      models: ScriptedModel { _ in [] },
      onConversationCreated: { tx, record in
        try await tx.update(Self.todo, of: .conversation(record.id)) { $0.text = "welcome" }
      }
    )
    let root = try await harness.root(agent: .init(thinkingLevel: "low")) { tx, id in
      try await tx.append(EntryDraft(kind: "app.first"), to: id)
    }
    #expect(try await harness.value(Self.todo, of: .conversation(root.id))?.text == "welcome")
    #expect(try await root.agent["thinkingLevel"] == "low")
    let entry = try #require(try await root.view().entries.first)
    let fork = try await root.fork(at: entry.id, agent: .init(thinkingLevel: "high")) { tx, id in
      try await tx.update(Self.todo, of: .conversation(id)) { $0.text += " back" }
    }
    #expect(try await harness.value(Self.todo, of: .conversation(fork.id))?.text == "welcome back")
    #expect(try await fork.agent["thinkingLevel"] == "high")
    try await harness.close()
  }

  @Test func `the context at an entry is what a fork there begins with`() async throws {
    let harness = try await open()
    let root = try await harness.root(agent: .init(model: ScriptedModel.reference))
    _ = try await root.submit("one").wait()
    let entries = try await root.view().entries
    let cut = try #require(entries.last?.id)
    try await root.commit { tx in
      try await tx.append(
        EntryDraft(kind: "app.edit", edits: [.omit(cut)]),
        to: root.id
      )
    }
    _ = try await root.submit("two").wait()
    let fork = try await root.fork(at: cut)
    #expect(try await root.context(at: cut) == fork.context())
    let now = try await root.context()
    #expect(now.messages.count > (try await root.context(at: cut)).messages.count - 1)
    #expect(now.contributions.count == now.entries.count)
    let own = try #require(try await root.view().entries.last?.id)
    let error = await #expect(throws: PerdureError.self) { _ = try await fork.context(at: own) }
    #expect(error?.code == .notFound)
    try await harness.close()
  }

  /// Fails every write once it is told to.
  private final class Breakable: ForwardingStorage {
    let base: any Storage
    private let isBroken = Mutex(false)

    init(_ base: any Storage) { self.base = base }

    func breakDown() { isBroken.withLock { $0 = true } }

    func around<Result>(
      writes: Bool,
      _ call: () async throws -> Result
    ) async throws -> Result {
      if writes, isBroken.withLock({ $0 }) {
        throw PerdureError(.storeUnwritable, "the disk is gone")
      }
      return try await call()
    }
  }

  @Test func `a store that failed can be opened again without a close`() async throws {
    let folder = try TemporaryFolder()
    let path = folder.path + "/store.sqlite"
    let storage = Breakable(try await SQLiteStorage.open(path: path))
    let reports = Mutex<[String]>([])
    let harness = try await open(storage) { report in reports.withLock { $0.append(report.type) } }
    let state = try #require(try await harness.state(of: Self.note))
    storage.breakDown()
    await #expect(throws: PerdureError.self) { try await set(harness, "a") }
    guard case .failed(let error) = try await harness.closed else {
      Issue.record("the store did not fail")
      return
    }
    #expect(error.code == .sessionFailed)
    #expect(state.ending?.reason == "session_failed")
    #expect(try state.value == Note())
    let next = try await Harness.open(.sqlite(at: path), models: ScriptedModel { _ in [] })
    #expect(try await next.value(Self.note) == Note())
    try await next.close()
    #expect(reports.withLock { $0 } == ["session_failed"])
  }
}
