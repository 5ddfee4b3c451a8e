import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

struct MigrationTests {
  /// Turns a store into one of schema version 1, as pi-durable made it before it had `sleeping`.
  private func makeVersion1(_ folder: TemporaryFolder) async throws {
    let storage = try await openStore(folder)
    let store = try await DirectStore(storage)
    _ = try await store.commit(
      [
        .conversation(ConversationRecord(id: .root)), entry(2),
        task(3, .terminal(.completed(result: ["r": 1]))),
      ],
      extras: []
    )
    await storage.close()
    let connection = try connect(folder)
    try connection.execute(
      """
      DROP TABLE tasks; DROP TABLE perdure_extras;
      CREATE TABLE tasks (
        id INTEGER PRIMARY KEY, conversation_id INTEGER NOT NULL, kind TEXT NOT NULL,
        status TEXT NOT NULL
          CHECK (status IN ('pending', 'running', 'waiting', 'completing', 'terminal')),
        abort_requested INTEGER NOT NULL CHECK (abort_requested IN (0, 1)),
        background INTEGER NOT NULL CHECK (background IN (0, 1)),
        record TEXT NOT NULL CHECK (json_valid(record))
      ) STRICT;
      CREATE INDEX tasks_by_status ON tasks (status, id);
      CREATE INDEX tasks_by_kind ON tasks (kind, id);
      INSERT INTO tasks VALUES (3, 1, '"test"', 'terminal', 0, 0,
        '{"id":3,"conversationId":1,"kind":"test","version":1,"input":null,"background":false,
          "abortRequested":false,
          "state":{"status":"terminal","outcome":{"status":"completed","result":{"r":1}}}}');
      UPDATE durable_schema SET version = 1;
      """
    )
    connection.close()
  }

  @Test func `a store of schema version 1 keeps its tasks`() async throws {
    let folder = TemporaryFolder()
    try await makeVersion1(folder)
    let storage = try await openStore(folder)
    #expect(try await storage.task(known(3))?.state == .terminal(.completed(result: ["r": 1])))
    #expect(
      try await storage.inspect { try $0.first("SELECT version FROM durable_schema") { $0.int(0) } }
        == 2
    )
    await storage.close()
  }

  @Test func `a migrated store can hold a sleeping task`() async throws {
    let folder = TemporaryFolder()
    try await makeVersion1(folder)
    let storage = try await openStore(folder)
    let store = try await DirectStore(storage)
    let sleeping = TaskState.sleeping(checkpoint: .null, until: 5)
    _ = try await store.commit(
      [task(4, sleeping)],
      extras: [ExtraWrite(scope: "a", id: 0, value: 1)]
    )
    #expect(try await storage.task(known(4))?.state == sleeping)
    await storage.close()
  }

  @Test func `a migrated store keeps the indexes it came with`() async throws {
    let folder = TemporaryFolder()
    try await makeVersion1(folder)
    let storage = try await openStore(folder)
    let names = try await storage.inspect { connection in
      try connection.rows(
        "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'tasks' ORDER BY name"
      ) { $0.string(0) }
    }
    #expect(names == ["tasks_by_kind", "tasks_by_status"])
    await storage.close()
  }

  @Test func `a store of schema version 1 can be read without being changed`() async throws {
    let folder = TemporaryFolder()
    try await makeVersion1(folder)
    let before = read(folder.file("store.sqlite"))
    let storage = try await openStore(folder, readOnly: true)
    #expect(try await storage.task(known(3)) != nil)
    #expect(try await storage.extra(scope: "a", id: 0) == nil)
    await storage.close()
    #expect(read(folder.file("store.sqlite")) == before)
  }
}
