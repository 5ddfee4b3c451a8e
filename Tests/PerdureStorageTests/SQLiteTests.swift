import Glibc
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

struct SQLiteTests {
  @Test func `a base of a document that keeps only its newest value frees the rest`() async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    let store = try await DirectStore(storage)
    let value: JSON = ["text": .string(String(repeating: "x", count: 4_000))]
    _ = try await store.commit(
      [.createDocument(document(2), version: 1, value: value)],
      extras: []
    )
    var pages: [Int64] = []
    for _ in 0..<20 {
      let base = DocumentContent.base(version: 1, value: value)
      _ = try await store.commit([.changeDocument(known(2), base)], extras: [])
      pages.append(
        try await storage.inspect { try $0.first("PRAGMA page_count") { $0.int(0) } ?? 0 }
      )
    }
    #expect(pages.max() == pages[1])
    let rows = try await storage.inspect {
      try $0.rows("SELECT seq FROM document_revisions") { $0.int(0) }
    }
    #expect(rows == [21])
    await storage.close()
  }

  @Test func `a retired document keeps its record but no revision`() async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    let store = try await DirectStore(storage)
    _ = try await store.commit(
      [.createDocument(document(2), version: 1, value: [:])],
      extras: []
    )
    _ = try await store.commit([.retireDocument(known(2))], extras: [])
    let rows = try await storage.inspect {
      try $0.rows(
        "SELECT retired_at, (SELECT count(*) FROM document_revisions) FROM documents"
      ) { [$0.int(0), $0.int(1)] }
    }
    #expect(rows == [[2, 0]])
    await storage.close()
  }

  @Test func `identities are written as ASCII literals`() async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    let kind = JSONString(utf16: [0xD800, 0xE9, 0x22, 0x7F, 0x0A])
    _ = try await DirectStore(storage).commit(
      [task(2, kind: kind, .pending(checkpoint: .null))],
      extras: []
    )
    let column = try await storage.inspect {
      try $0.first("SELECT kind FROM tasks") { $0.string(0) }
    }
    #expect(column == #""\ud800\u00e9\"\u007f\n""#)
    await storage.close()
  }

  @Test func `identities that another program wrote unescaped are found`() async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    _ = try await DirectStore(storage).commit(
      [task(2, kind: "é", .pending(checkpoint: .null))],
      extras: []
    )
    try await storage.inspect { try $0.execute("UPDATE tasks SET kind = '\"é\"'") }
    let page = try await storage.scanTasks(TaskQuery(kind: "é"), PageRequest(limit: 9))
    #expect(page.items.map { $0.id.value } == [2])
    await storage.close()
  }

  @Test func `of what a group replaces only the last state is written`() async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    let counters = try await storage.counters()
    let base = DocumentContent.base(version: 1, value: ["n": 2])
    try await storage.apply(
      [
        Batch(
          sequence: 1,
          writes: [
            task(2, .pending(checkpoint: 0)),
            .createDocument(document(3), version: 1, value: ["n": 1]),
          ],
          at: 0
        ),
        Batch(
          sequence: 2,
          writes: [task(2, .running(checkpoint: 1)), .changeDocument(known(3), base)],
          at: 0
        ),
      ],
      expecting: counters,
      nextId: 4
    )
    let rows = try await storage.inspect {
      try $0.rows("SELECT seq FROM document_revisions") { $0.int(0) }
    }
    #expect(rows == [2])
    #expect(try await storage.task(known(2))?.state == .running(checkpoint: 1))
    await storage.close()
  }

  @Test func `many calls at once are answered in order`() async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    _ = try await DirectStore(storage).commit((2..<102).map { entry($0, .int($0)) }, extras: [])
    let found = try await withThrowingTaskGroup(of: Int64?.self) { group in
      for value in Int64(2)..<102 {
        group.addTask { try await storage.entry(known(value))?.entry.data?.int }
      }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(found.compactMap { $0 }.sorted() == Array(2..<102))
    await storage.close()
  }

  @Test func `a store that could not grow can be opened again`() async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    let store = try await DirectStore(storage)
    _ = try await store.commit([entry(2, "kept")], extras: [])
    // No other test writes files near this size, so the limit of the process holds for this one.
    let limit: rlim_t = 16 << 20
    var before = rlimit()
    signal(SIGXFSZ, SIG_IGN)
    unsafe getrlimit(__rlimit_resource_t(1), &before)
    var small = rlimit(rlim_cur: limit, rlim_max: before.rlim_max)
    unsafe setrlimit(__rlimit_resource_t(1), &small)
    let text = JSON.string(String(repeating: "x", count: Int(limit)))
    let failure = await code { _ = try await store.commit([entry(3, text)], extras: []) }
    unsafe setrlimit(__rlimit_resource_t(1), &before)
    #expect(failure == .storeUnwritable)
    #expect(try await storage.entry(known(3)) == nil)
    await storage.close()
    let again = try await openStore(folder)
    #expect(try await again.entry(known(2))?.entry.data == "kept")
    _ = try await DirectStore(again).commit([entry(3, "new")], extras: [])
    await again.close()
  }
}
