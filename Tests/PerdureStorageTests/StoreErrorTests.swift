import Glibc
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

struct StoreErrorTests {
  /// A file that is no store, and how opening it fails.
  struct BadFile: Sendable, CustomTestStringConvertible {
    let name: String
    let sql: String?
    let code: PerdureError.Code
    let text: String

    var testDescription: String { name }
  }

  @Test(arguments: [
    BadFile(name: "text", sql: nil, code: .storeUnreadable, text: "is not a store"),
    BadFile(
      name: "another database",
      sql: "CREATE TABLE t (x)",
      code: .storeUnreadable,
      text: "is not a store"
    ),
    BadFile(
      name: "a newer schema",
      sql: """
        CREATE TABLE durable_schema (singleton INTEGER PRIMARY KEY, version INTEGER);
        INSERT INTO durable_schema VALUES (1, 3)
        """,
      code: .storeUnreadable,
      text: "from a newer version"
    ),
    BadFile(
      name: "a store without tables",
      sql: """
        CREATE TABLE durable_schema (singleton INTEGER PRIMARY KEY, version INTEGER);
        INSERT INTO durable_schema VALUES (1, 2)
        """,
      code: .storeCorrupt,
      text: "has no table durable_metadata"
    ),
  ])
  func `a file that is no store of ours is refused and kept`(file: BadFile) async throws {
    let folder = TemporaryFolder()
    let path = folder.file("store.sqlite")
    write(file.sql == nil ? Array(repeating: 65, count: 5_000) : [], to: path)
    if let sql = file.sql { try Connection(path: path).execute(sql) }
    let before = read(path)
    for readOnly in [false, true] {
      let open = { _ = try await openStore(folder, readOnly: readOnly) }
      #expect(await code(of: open) == file.code)
      let text = await sentence(of: open)
      #expect(text.contains(file.text) && text.contains(path))
    }
    // Bytes 18 and 19 say whether there is a write-ahead log.
    #expect(read(path).count == before.count)
  }

  @Test func `a folder is no SQLite store`() async {
    let folder = TemporaryFolder()
    #expect(
      await code { _ = try await SQLiteStorage.open(path: folder.path) } == .storeUnreadable
    )
  }

  @Test func `a store in a missing folder names the folder`() async {
    let folder = TemporaryFolder()
    let path = folder.file("none/store.sqlite")
    let text = await sentence { _ = try await SQLiteStorage.open(path: path) }
    #expect(text.contains("folder of the store \(path) does not exist"))
  }

  @Test(
    arguments: [
      (8, 0, "store_unwritable"), (8 | 4 << 8, 0, "foreign_writer"), (13, 0, "store_unwritable"),
      (10 | 3 << 8, ENOSPC, "store_unwritable"), (10 | 3 << 8, EFBIG, "store_unwritable"),
      (10 | 3 << 8, EROFS, "store_unwritable"), (10 | 4 << 8, EIO, "storage_failed"),
      (5, 0, "store_in_use"), (11, 0, "store_corrupt"), (26, 0, "store_unreadable"),
      (14, ENOENT, "store_unreadable"), (14, EACCES, "store_unwritable"), (1, 0, "storage_failed"),
      (15, 0, "store_unreadable"),
    ] as [(Int32, Int32, String)]
  )
  func `a failure of SQLite has a code, a path and a remedy`(
    code: Int32,
    system: Int32,
    wanted: String
  ) {
    let error = SQLiteFailure(code: code, text: "reason", systemError: system).error(path: "/x/y")
    #expect(error.code.rawValue == wanted)
    #expect(error.message.contains("/x/y"))
    #expect(error.hint != nil || error.code == .storageFailed)
  }

  @Test func `a damaged page is reported as a damaged store`() async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    let store = try await DirectStore(storage)
    _ = try await store.commit(
      [.conversation(ConversationRecord(id: .root))] + (2..<60).map { entry($0, "text") },
      extras: []
    )
    await storage.close()
    var bytes = read(folder.file("store.sqlite"))
    for index in 2_048..<bytes.count { bytes[index] = 0x5A }
    write(bytes, to: folder.file("store.sqlite"))
    #expect(
      await code {
        let storage = try await openStore(folder)
        _ = try await storage.scanEntries(
          EntryQuery(conversationId: .root),
          PageRequest(limit: 99)
        )
      } == .storeCorrupt
    )
  }

  @Test(arguments: [
    "UPDATE durable_metadata SET next_id = 'many'", "DELETE FROM durable_metadata",
    "UPDATE durable_metadata SET next_seq = 0",
  ])
  func `counters that make no sense are reported as a damaged store`(sql: String) async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    try await storage.inspect { try $0.execute(sql) }
    #expect(await code { _ = try await storage.counters() } == .storeCorrupt)
    await storage.close()
  }

  @Test(arguments: [
    "DELETE FROM document_revisions WHERE kind = 'base'",
    "UPDATE document_revisions SET version = 2 WHERE kind = 'base'",
    "UPDATE document_revisions SET content = '[[\"a\",[\"n\"],\"x\"]]' WHERE kind = 'delta'",
    "UPDATE document_revisions SET content = '[[\"?\"]]' WHERE kind = 'delta'",
    "UPDATE documents SET record = '{\"id\":2}'",
  ])
  func `a document that cannot be replayed is reported as a damaged store`(
    sql: String
  ) async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    let store = try await DirectStore(storage)
    _ = try await store.commit(
      [.createDocument(document(2), version: 1, value: ["n": 1])],
      extras: []
    )
    let delta = DocumentContent.delta(version: 1, operations: [.set(["n"], 2)])
    _ = try await store.commit([.changeDocument(known(2), delta)], extras: [])
    try await storage.inspect { try $0.execute(sql) }
    #expect(await code { _ = try await storage.document(known(2), at: nil) } == .storeCorrupt)
    await storage.close()
  }

  @Test func `a store file that may not be written is refused`() async throws {
    let folder = TemporaryFolder()
    try await openStore(folder).close()
    let path = folder.file("store.sqlite")
    #expect(unsafe chmod(folder.path, 0o777) == 0 && chmod(path, 0o444) == 0)
    let error = asNobody { _ = try SQLiteStore(path: path, durability: .normal) }
    #expect(error?.code == .storeUnwritable)
    #expect(error?.message == "the store \(path) is read-only")
  }

  @Test func `a folder that may not be written is refused`() {
    let folder = TemporaryFolder()
    #expect(unsafe chmod(folder.path, 0o555) == 0)
    let error = asNobody { _ = try StoreLock(store: folder.file("store.sqlite")) }
    #expect(unsafe chmod(folder.path, 0o755) == 0)
    #expect(error?.code == .storeUnwritable)
    #expect(error?.hint?.contains("folder") == true)
  }

  /// Runs `body` without the rights of root, which no permission stops, and returns its error.
  ///
  /// The file system identity belongs to the thread, so tests beside this one keep theirs; the
  /// Glibc module does not show the call.
  private func asNobody(_ body: () throws -> Void) -> PerdureError? {
    guard let symbol = unsafe dlsym(nil, "setfsuid") else { return nil }
    typealias SetUser = @convention(c) (UInt32) -> Int32
    let setUser = unsafe unsafeBitCast(symbol, to: SetUser.self)
    _ = setUser(65_534)
    defer { _ = setUser(geteuid()) }
    do {
      try body()
      return nil
    } catch {
      return error as? PerdureError
    }
  }
}
