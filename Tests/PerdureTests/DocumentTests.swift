import Perdure
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

@Suite(.timeLimit(.minutes(5))) struct DocumentTests {
  struct Notes: Codable, Sendable, Equatable {
    var title = ""
    var lines: [String] = []
    var counts: [String: Int] = [:]
    var extra: JSON?
  }

  static let notes = Document("test.notes", scope: .session) { _ in Notes() }

  private func open(_ storage: any Storage = MemoryStorage()) async throws -> Harness {
    try await Harness.open(.custom(storage), models: ScriptedModel { _ in [] })
  }

  private func deltas(_ storage: any Storage, _ kind: JSONString) async throws -> Int? {
    let address = DocumentAddress(kind: kind, scope: .session)
    guard let record = try await storage.findDocument(address, at: nil) else { return nil }
    return try await storage.document(record.id, at: nil)?.deltasSinceBase
  }

  @Test func `a typed value is created, changed and read`() async throws {
    let harness = try await open()
    #expect(try await harness.value(Self.notes) == nil)
    let count = try await harness.commit { tx in
      try await tx.update(Self.notes) { notes in
        notes.title = "a"
        notes.lines.append("one")
        return notes.lines.count
      }
    }
    #expect(count == 1)
    #expect(try await harness.value(Self.notes) == Notes(title: "a", lines: ["one"]))
    try await harness.close()
  }

  @Test func `an update that changes nothing writes nothing`() async throws {
    let storage = MemoryStorage()
    let harness = try await open(storage)
    let keys = (0..<20).map { "key \($0)" }
    try await harness.commit { tx in
      try await tx.update(Self.notes) { notes in
        for key in keys { notes.counts[key] = 1 }
      }
    }
    let before = try await storage.counters()
    try await harness.commit { tx in
      try await tx.update(Self.notes) { notes in
        // Another dictionary of equal members has another order.
        notes.counts = Dictionary(uniqueKeysWithValues: keys.reversed().map { ($0, 1) })
      }
    }
    #expect(try await storage.counters() == before)
    try await harness.commit { tx in try await tx.update(Self.notes) { $0.counts["key 3"] = 2 } }
    #expect(try await deltas(storage, "test.notes") == 1)
    try await harness.close()
  }

  @Test(arguments: [(1_000, 49), (200_000, 150), (120_000, 150)])
  func `a large document is stored whole more rarely than a small one`(
    size: Int,
    left: Int
  ) async throws {
    let storage = MemoryStorage()
    let harness = try await open(storage)
    for number in 0...150 {
      try await harness.commit { tx in
        try await tx.edit(Self.notes) { draft in
          let text = number == 0 ? String(repeating: "x", count: size) : "y"
          try draft.append(text, to: ["title"])
        }
      }
    }
    // The first commit creates the document; what it appends is a part of its first base.
    #expect(try await deltas(storage, "test.notes") == left)
    try await harness.close()
  }

  @Test func `an edit records what it changes`() async throws {
    let harness = try await open()
    let recorded = Document(
      "test.recorded",
      scope: .session,
      checkpointWhen: { change in
        #expect(
          change.operations == [
            .append(["title"], "bc"), .splice(["lines"], at: 1, remove: 0, insert: ["two"]),
            .set(["extra"], ["deep": true]), .splice(["lines"], at: 0, remove: 1, insert: []),
          ]
        )
        return true
      },
      initial: { _ in Notes(title: "a", lines: ["one"]) }
    )
    try await harness.commit { try await $0.edit(recorded) { _ in } }
    try await harness.commit { tx in
      try await tx.edit(recorded) { draft in
        try draft.append("bc", to: ["title"])
        try draft.append(element: "two", to: ["lines"])
        try draft.set(["extra"], to: ["deep": true])
        try draft.remove(["counts", "absent"])
        try draft.replace(0..<1, of: ["lines"], with: [String]())
        #expect(try draft.value(at: ["title"], as: String.self) == "abc")
        #expect(try draft.value(at: ["absent"], as: String.self) == nil)
      }
    }
    let value = try await harness.value(recorded)
    #expect(value == Notes(title: "abc", lines: ["two"], extra: ["deep": true]))
    try await harness.close()
  }

  @Test func `a change that cannot be made is an error that names the document`() async throws {
    let harness = try await open()
    let changes: [(inout DocumentEditor) throws -> Void] = [
      { try $0.append("x", to: ["lines"]) }, { try $0.append(element: 1, to: ["title"]) },
      { try $0.set(["absent", "deep"], to: 1) }, { try $0.set(["title"], to: Double.nan) },
      { try $0.replace(3..<4, of: ["lines"], with: [1]) }, { try $0.remove(["lines", 5]) },
      { _ = try $0.value(at: ["title"], as: Int.self) },
    ]
    for change in changes {
      let error = await #expect(throws: PerdureError.self) {
        try await harness.commit { tx in try await tx.edit(Self.notes) { try change(&$0) } }
      }
      #expect(error?.message.contains("test.notes") == true)
    }
    #expect(try await harness.value(Self.notes) == nil)
    try await harness.close()
  }

  @Test func `a document of another form is an error`() async throws {
    let harness = try await open()
    try await harness.commit { tx in
      try await tx.edit(Self.notes) { try $0.set(["lines"], to: 7) }
    }
    let error = await #expect(throws: PerdureError.self) { try await harness.value(Self.notes) }
    #expect(error?.code == .documentMismatch)
    try await harness.close()
  }

  @Test func `an older version is migrated`() async throws {
    let harness = try await open()
    struct Old: Codable, Sendable { var name = "a" }
    try await harness.commit { tx in
      try await tx.update(Document("test.notes", scope: .session) { _ in Old() }) { _ in }
    }
    let later = Document(
      "test.notes",
      scope: .session,
      version: 2,
      migrate: { value, _ in ["title": value["name"] ?? "", "lines": [], "counts": [:]] },
      initial: { _ in Notes() }
    )
    #expect(try await harness.value(later)?.title == "a")
    try await harness.commit { tx in try await tx.update(later) { $0.lines = ["b"] } }
    #expect(try await harness.value(later) == Notes(title: "a", lines: ["b"]))
    try await harness.close()
  }

  @Test func `conversations, keys, history and forks are served`() async throws {
    let harness = try await open()
    let pages = Document(
      "test.pages",
      scope: .conversation,
      history: .rewindable,
      fork: .asOf,
      keyed: true
    ) { seed in Notes(title: seed?.text ?? "") }
    let root = try await harness.root()
    let entry = try await root.commit { tx in
      try await tx.update(pages, of: .conversation(root.id), key: "a", seed: "seed") { _ in }
      return try await tx.append(EntryDraft(kind: "app.note"), to: root.id).id
    }
    try await root.commit { tx in
      try await tx.update(pages, of: .conversation(root.id), key: "a") { $0.title = "later" }
    }
    let fork = try await root.fork(at: entry)
    let inherited = try await harness.value(pages, of: .conversation(fork.id), key: "a")
    #expect(inherited?.title == "seed")
    #expect(try await root.value(pages, asOf: entry, key: "a")?.title == "seed")
    #expect(try await harness.value(pages, of: .conversation(root.id), key: "a")?.title == "later")
    try await root.commit { try await $0.retire(pages, of: .conversation(root.id), key: "a") }
    #expect(try await harness.value(pages, of: .conversation(root.id), key: "a") == nil)
    try await harness.close()
  }

  @Test func `a transaction reads tables, and head markers tell what is stale`() async throws {
    let harness = try await open()
    let root = try await harness.root()
    let (first, marker) = try await root.commit { tx in
      let first = try await tx.append(EntryDraft(kind: "app.note"), to: root.id).id
      return (first, try await tx.append(EntryDraft(kind: "app.mark", head: .itself), to: root.id))
    }
    try await root.commit { tx in
      #expect(try await tx.scanConversations(.init(), .init(limit: 9)).items.map(\.id) == [root.id])
      let entries = try await tx.scanEntries(.init(conversationId: root.id), .init(limit: 1))
      #expect(entries.items == [marker])
      #expect(entries.next != nil)
      #expect(try await tx.scanTasks(.init(), .init(limit: 9)).items == [])
      #expect(try await tx.submission(requestId: "none", in: root.id) == nil)
      #expect(try await tx.latestHeadMarker(root.id) == marker)
      #expect(try await tx.latestHeadMarker(root.id, atOrBefore: first) == nil)
      #expect(try await tx.isStale(.entry(first), in: root.id))
      #expect(try await !tx.isStale(.entry(marker.id), in: root.id))
      #expect(try await !tx.isStale(.itself, in: root.id))
      // The raw write is accepted all the same.
      try await tx.append(EntryDraft(kind: "app.mark", head: .entry(first)), to: root.id)
    }
    let error = await #expect(throws: PerdureError.self) {
      try await root.commit { tx in
        try await tx.append(EntryDraft(kind: "app.note", model: [["role": "x"]]), to: root.id)
      }
    }
    #expect(error?.code == .invalidInput)
    try await harness.close()
  }
}
