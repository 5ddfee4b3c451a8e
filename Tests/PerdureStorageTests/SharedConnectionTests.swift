import Glibc
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

struct SharedConnectionTests {
  private let folder = TemporaryFolder()

  private var path: String { folder.file("app.db") }

  private func open(_ connection: AppConnection, prefix: String = "") async throws -> SQLiteStorage
  {
    try await SQLiteStorage.open(on: connection, prefix: prefix)
  }

  @Test(arguments: SQLConnectionConformance.cases)
  func `a connection keeps what a store relies on`(
    test: SQLConnectionConformance.Case
  ) async throws {
    try await test.run { try AppConnection(path: path) }
  }

  @Test func `an application and its store commit to one file`() async throws {
    let app = try AppConnection(path: path)
    try app.execute("CREATE TABLE customers (name TEXT)")
    let store = try await DirectStore(try await open(app))
    _ = try await store.commit([entry(2, "ours")], extras: [])
    try app.run("INSERT INTO customers VALUES (?)", [.string("theirs")])
    _ = try await store.commit([entry(3, "ours too")], extras: [])
    await store.close()
    let other = try AppConnection(path: path)
    #expect(try other.first("SELECT name FROM customers", []) == [.string("theirs")])
    let again = try await open(other)
    #expect(try await again.entry(known(3))?.entry.data == "ours too")
    #expect(try await again.counters() == StoreCounters(nextSequence: 3, nextId: 4))
    await again.close()
  }

  @Test func `a store that an application made opens as a file of ours`() async throws {
    let store = try await DirectStore(try await open(try AppConnection(path: path)))
    _ = try await store.commit([entry(2, "kept")], extras: [])
    await store.close()
    let ours = try await SQLiteStorage.open(path: path)
    #expect(try await ours.entry(known(2))?.entry.data == "kept")
    await ours.close()
  }

  @Test func `a prefix stands before every table and index`() async throws {
    let app = try AppConnection(path: path)
    try app.execute("CREATE TABLE tasks (title TEXT); CREATE TABLE entries (line TEXT)")
    let storage = try await open(app, prefix: "agent_1_")
    let names = try app.all(
      "SELECT name FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'agent!_1!_%' "
        + "ESCAPE '!' ORDER BY name",
      []
    )
    #expect(names == [[.string("entries")], [.string("tasks")]])
    await storage.close()
  }

  @Test func `two prefixes are two stores`() async throws {
    // A prefix that is a digit needs quotes in SQL.
    let prefixes = ["a_", "9"]
    for (index, prefix) in prefixes.enumerated() {
      let store = try await DirectStore(
        try await open(try AppConnection(path: path), prefix: prefix)
      )
      for id in 2...Int64(2 + index) { _ = try await store.commit([entry(id)], extras: []) }
      await store.close()
    }
    for (index, prefix) in prefixes.enumerated() {
      let storage = try await open(try AppConnection(path: path), prefix: prefix)
      #expect(try await storage.counters().nextSequence == Int64(2 + index))
      await storage.close()
    }
  }

  @Test(arguments: ["a-b", "a b", "a\"", "é", "sqlite_x", "SQLite_"])
  func `a prefix that names cannot begin with is refused`(prefix: String) async throws {
    let app = try AppConnection(path: path)
    let text = await sentence { _ = try await open(app, prefix: prefix) }
    #expect(text.contains("'\(prefix)' cannot be the prefix of tables"))
    #expect(try app.first("SELECT count(*) FROM sqlite_master", []) == [.int(0)])
  }

  @Test func `tables of the application with our names are left alone`() async throws {
    let app = try AppConnection(path: path)
    try app.execute("CREATE TABLE tasks (title TEXT)")
    let open = { _ = try await SQLiteStorage.open(on: app) }
    #expect(await code(of: open) == .storeUnreadable)
    #expect(await sentence(of: open).contains("a table or an index tasks that is not of a store"))
    #expect(try app.first("SELECT count(*) FROM sqlite_master", []) == [.int(1)])
  }

  @Test func `a store in an application has one owner as any other`() async throws {
    let storage = try await open(try AppConnection(path: path))
    let second = { _ = try await SQLiteStorage.open(on: try AppConnection(path: path)) }
    #expect(await code(of: second) == .storeInUse)
    #expect(await code { _ = try await SQLiteStorage.open(path: path) } == .storeInUse)
    #expect(StoreLock.owner(ofStore: path)?.pid == Int64(getpid()))
    let beside = try await open(try AppConnection(path: path), prefix: "b_")
    await beside.close()
    await storage.close()
    try await open(try AppConnection(path: path)).close()
  }

  @Test func `a foreign commit in the tables of the store stops the next group`() async throws {
    let app = try AppConnection(path: path)
    let storage = try await open(app)
    let store = try await DirectStore(storage)
    _ = try await store.commit([entry(2)], extras: [])
    try app.execute("UPDATE durable_metadata SET next_seq = 9")
    #expect(await code { _ = try await store.commit([entry(3)], extras: []) } == .foreignWriter)
    #expect(try await storage.entry(known(3)) == nil)
    await storage.close()
  }

  @Test func `a database that was moved is not written`() async throws {
    let storage = try await open(try AppConnection(path: path))
    let store = try await DirectStore(storage)
    #expect(unsafe rename(path, folder.file("moved.db")) == 0)
    #expect(await code { _ = try await store.commit([entry(2)], extras: []) } == .foreignWriter)
    await storage.close()
  }

  @Test func `an error of the connection names the store`() async throws {
    let app = try AppConnection(path: path)
    let storage = try await open(app)
    let store = try await DirectStore(storage)
    app.close()
    let text = await sentence { _ = try await store.commit([entry(2)], extras: []) }
    #expect(text.hasPrefix("the store \(path) could not be used (the connection is closed)"))
    await storage.close()
  }

  @Test func `a database in memory needs no lock`() async throws {
    let storage = try await open(try AppConnection(path: ":memory:"))
    let store = try await DirectStore(storage)
    _ = try await store.commit([entry(2, "x")], extras: [])
    #expect(try await storage.entry(known(2))?.entry.data == "x")
    await storage.close()
    #expect(folder.names == [])
  }
}
