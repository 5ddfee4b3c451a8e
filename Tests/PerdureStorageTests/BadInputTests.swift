import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

/// What other programs may have done to a store, and what callers may ask of one.
struct BadInputTests {
  private let folder = TemporaryFolder()

  /// One broken row, and what is said of it.
  struct BrokenRow: Sendable, CustomTestStringConvertible {
    let sql: String
    let object: String
    let read: @Sendable (any Storage) async throws -> Void

    var testDescription: String { "\(object): \(sql)" }
  }

  private static let page = PageRequest(limit: 9)

  static let rows: [BrokenRow] = [
    BrokenRow(sql: "UPDATE entries SET record = 'x' WHERE id = 2", object: "entry 2") {
      _ = try await $0.entry(known(2))
    },
    BrokenRow(sql: "UPDATE entries SET record = '{\"id\":2}' WHERE id = 2", object: "entry 2") {
      _ = try await $0.scanEntries(EntryQuery(conversationId: .root), page)
    },
    BrokenRow(
      sql: "UPDATE entries SET record = replace(record, '\"id\":2', '\"id\":8') WHERE id = 2",
      object: "entry 2"
    ) { _ = try await $0.entry(known(2)) },
    BrokenRow(sql: "UPDATE tasks SET record = '[]'", object: "task 4") {
      _ = try await $0.scanTasks(TaskQuery(status: .pending), page)
    },
    BrokenRow(sql: "UPDATE submissions SET record = '{'", object: "submission 6") {
      _ = try await $0.submission(known(6))
    },
    BrokenRow(sql: "UPDATE conversations SET record = '1' WHERE id = 1", object: "conversation 1") {
      _ = try await $0.scanEntries(EntryQuery(conversationId: .root), page)
    },
    BrokenRow(sql: "UPDATE documents SET record = '{\"id\":5}'", object: "document 5") {
      _ = try await $0.scanDocuments(DocumentQuery(scope: .session), page)
    },
    BrokenRow(sql: "DELETE FROM document_revisions", object: "document 5") {
      _ = try await $0.document(known(5), at: nil)
    },
    BrokenRow(
      sql: "UPDATE document_revisions SET content = '{'",
      object: "revision 1 of document 5"
    ) {
      _ = try await $0.document(known(5), at: nil)
    },
    BrokenRow(sql: "UPDATE perdure_extras SET value = '{'", object: "the fact a 0") {
      _ = try await $0.extra(scope: "a", id: 0)
    },
  ]

  /// A store with a record of each kind, and a second conversation that shares nothing.
  private func makeStore(_ open: () async throws -> any Storage) async throws {
    let store = try await DirectStore(try await open())
    let submission = SubmissionRecord(
      id: known(6),
      conversationId: .root,
      kind: .input,
      state: .queued
    )
    _ = try await store.commit(
      [
        .conversation(ConversationRecord(id: .root)),
        .conversation(ConversationRecord(id: known(3))),
        entry(2, "a"), task(4, .pending(checkpoint: 1)), .submission(submission),
        .createDocument(document(5), version: 1, value: ["n": 1]),
        .entry(EntryRecord(id: known(7), conversationId: known(3), kind: "test", data: "rest")),
      ],
      extras: [ExtraWrite(scope: "a", id: 0, value: 1)]
    )
    await store.close()
  }

  @Test(arguments: rows)
  func `a broken row is named, and the rest is read without it`(row: BrokenRow) async throws {
    try await makeStore { try await openStore(folder) }
    try connect(folder).execute("PRAGMA ignore_check_constraints = ON; " + row.sql)
    let path = folder.file("store.sqlite")
    let before = read(path)
    let storage = try await openStore(folder, readOnly: true)
    let text = await sentence { try await row.read(storage) }
    #expect(text.hasPrefix("the store \(path) is damaged in \(row.object) ("), "\(text)")
    #expect(await code { try await row.read(storage) } == .storeCorrupt)
    let others = try await storage.scanEntries(EntryQuery(conversationId: known(3)), Self.page)
    #expect(others.items.map { $0.data } == ["rest"])
    await storage.close()
    #expect(read(path) == before)
  }

  enum Kind: String, CaseIterable { case sqlite, jsonl }

  private func open(_ kind: Kind) async throws -> any Storage {
    switch kind {
    case .sqlite: try await openStore(folder)
    case .jsonl: try await JSONLStorage.open(path: folder.file("store"), durability: .normal)
    }
  }

  @Test(arguments: [
    #"{}"#, #"{"after":"2"}"#, #"{"after":-1}"#, #"{"after":1,"order":"up"}"#, "[]",
  ])
  func `a cursor that is none of ours is refused`(text: String) async throws {
    let json = try JSON(parsing: text)
    let code = await code { _ = try Cursor(json: json, defaultOrder: .ascending) }
    #expect(code == .invalidRequest)
  }

  @Test(arguments: Kind.allCases, [Int64(0), 8, EntryID.greatest, Int64.max])
  func `a cursor of another scan is a place among the ids`(kind: Kind, after: Int64) async throws {
    try await makeStore { try await open(kind) }
    let storage = try await open(kind)
    for order in [ScanOrder.ascending, .descending] {
      let cursor = Cursor(after: after, order: order)
      let page = PageRequest(limit: 9, cursor: cursor)
      let found = try await storage.scanEntries(EntryQuery(conversationId: .root), page)
      #expect(found.items.count == ((after < 2) == (order == .ascending) ? 1 : 0))
      _ = try await storage.scanTasks(TaskQuery(), page)
      _ = try await storage.scanDocuments(DocumentQuery(scope: .session), page)
    }
    await storage.close()
  }

  @Test(arguments: Kind.allCases)
  func `an unknown conversation is named`(kind: Kind) async throws {
    let storage = try await open(kind)
    let query = EntryQuery(conversationId: known(99))
    let text = await sentence { _ = try await storage.scanEntries(query, Self.page) }
    #expect(text == "unknown conversation 99")
    let read = { _ = try await storage.entry(known(1), visibleIn: known(EntryID.greatest)) }
    #expect(await code(of: read) == .invalidRequest)
    await storage.close()
  }

  @Test(arguments: Kind.allCases)
  func `kinds and versions from the future are kept as they are`(kind: Kind) async throws {
    let store = try await DirectStore(try await open(kind))
    let version: Int64 = 9_007_199_254_740_991
    let strange = TaskRecord(
      id: known(4),
      conversationId: .root,
      kind: "pi.telepathy",
      version: version,
      input: ["wave": 1],
      state: .running(checkpoint: ["phase": "unheard of"])
    )
    let thought = EntryRecord(id: known(2), conversationId: .root, kind: "pi.thought", data: 1)
    _ = try await store.commit(
      [
        .conversation(ConversationRecord(id: .root)), .entry(thought), .task(strange),
        .createDocument(document(5, "pi.dream"), version: version, value: ["n": 1]),
      ],
      extras: [ExtraWrite(scope: "from the future", id: 5, value: ["x": 1])]
    )
    await store.close()
    let storage = try await open(kind)
    #expect(try await storage.entry(known(2))?.entry == thought)
    #expect(try await storage.task(known(4)) == strange)
    let dream = try await storage.document(known(5), at: nil)
    #expect(dream?.version == version && dream?.value == ["n": 1])
    #expect(try await storage.extra(scope: "from the future", id: 5) == ["x": 1])
    await storage.close()
  }

  @Test(arguments: Kind.allCases)
  func `the last id of all can be used, and none after it`(kind: Kind) async throws {
    let store = try await DirectStore(try await open(kind))
    _ = try await store.commit(
      [.conversation(ConversationRecord(id: .root)), entry(EntryID.greatest, "last")],
      extras: []
    )
    #expect(await sentence { _ = try await store.mintId() }.contains("ID space is exhausted"))
    await store.close()
    let storage = try await open(kind)
    #expect(try await storage.counters().nextId == EntryID.greatest + 1)
    #expect(try await storage.entry(known(EntryID.greatest))?.entry.data == "last")
    let page = try await storage.scanEntries(EntryQuery(conversationId: .root), Self.page)
    #expect(page.items.count == 1)
    await storage.close()
  }

  @Test func `the last sequence number of all is never written past`() async throws {
    try await openStore(folder).close()
    let last = EntryID.greatest
    try connect(folder).execute("UPDATE durable_metadata SET next_seq = \(last - 1)")
    let store = try await DirectStore(try await openStore(folder))
    _ = try await store.commit([entry(2)], extras: [])
    let text = await sentence { _ = try await store.commit([entry(3)], extras: []) }
    #expect(text.contains("sequence space is exhausted"))
    await store.close()
    let storage = try await openStore(folder)
    #expect(try await storage.counters() == StoreCounters(nextSequence: last, nextId: 3))
    await storage.close()
  }

  @Test(arguments: Kind.allCases)
  func `lone surrogates come back as they were, and stay apart`(kind: Kind) async throws {
    let high = JSONString(utf16: [0x61, 0xD83D])
    let low = JSONString(utf16: [0x61, 0xDE42])
    let store = try await DirectStore(try await open(kind))
    _ = try await store.commit(
      [
        .conversation(ConversationRecord(id: .root)),
        entry(2, .object([high: .string(low), low: .string(high)])),
        .createDocument(document(3, high), version: 1, value: .object([high: 1])),
        .createDocument(document(4, low), version: 1, value: .object([low: 2])),
      ],
      extras: []
    )
    await store.close()
    let storage = try await open(kind)
    #expect(
      try await storage.entry(known(2))?.entry.data
        == .object([high: .string(low), low: .string(high)])
    )
    for (id, kind) in [(Int64(3), high), (4, low)] {
      let address = DocumentAddress(kind: kind, scope: .session)
      #expect(try await storage.findDocument(address, at: nil)?.id == known(id))
    }
    // Two halves that meet in one text are one character, as everywhere.
    #expect(JSONString(utf16: [0xD83D, 0xDE42]).string == "🙂")
    #expect(high.string == "a\u{FFFD}")
    await storage.close()
  }
}
