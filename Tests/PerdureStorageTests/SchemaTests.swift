import Glibc
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

struct SchemaTests {
  @Test func `a new store has the tables of pi-durable and one of ours`() async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    let columns = try await storage.inspect { connection in
      try connection.rows(
        """
        SELECT m.name || '.' || p.name || ' ' || p.type || iif(p."notnull", ' NOT NULL', '')
          || iif(p.pk, ' PK' || p.pk, '')
        FROM sqlite_master m JOIN pragma_table_info(m.name) p WHERE m.type = 'table'
        ORDER BY m.name, p.cid
        """
      ) { $0.string(0) }
    }
    #expect(columns == Self.columns)
    await storage.close()
  }

  @Test(arguments: [
    "INSERT INTO tasks VALUES (9, 1, '\"a\"', 'asleep', 0, 0, '{}')",
    "INSERT INTO tasks VALUES (9, 1, '\"a\"', 'pending', 2, 0, '{}')",
    "INSERT INTO tasks VALUES (9, 1, '\"a\"', 'pending', 0, 0, '{')",
    "INSERT INTO submissions VALUES (9, 1, NULL, 'open', '{}')",
    "INSERT INTO documents VALUES (9, '\"a\"', 2, '\"\"', 'session', 0, 1, NULL, '{}')",
    "INSERT INTO documents VALUES (9, '\"a\"', 0, '\"\"', 'world', 0, 1, NULL, '{}')",
    "INSERT INTO document_revisions VALUES (9, 1, 'patch', 1, '[]')",
    "INSERT INTO record_ids VALUES (9, 'agent')",
    "INSERT INTO entries VALUES (9, 1, NULL, 'one', '{}')",
    "INSERT INTO durable_metadata VALUES (2, '2', 1)",
    "INSERT INTO durable_schema VALUES (2, 2)",
  ])
  func `the checks of pi-durable hold`(sql: String) async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    await #expect(throws: PerdureError.self) {
      try await storage.inspect { connection in
        // As other programs open the file.
        try connection.execute("PRAGMA ignore_check_constraints = OFF")
        try connection.execute(sql)
      }
    }
    await storage.close()
  }

  @Test func `a new store has small pages and a write-ahead log`() async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder, durability: .full)
    let settings = try await storage.inspect { connection in
      try ["page_size", "journal_mode", "synchronous"].map { name in
        try connection.first("PRAGMA \(name)") { $0.string(0) } ?? ""
      }
    }
    #expect(settings == ["1024", "wal", "2"])
    await storage.close()
  }

  @Test func `nobody but the owner may read a new store`() async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    var status = stat()
    #expect(unsafe stat(folder.file("store.sqlite"), &status) == 0)
    #expect(status.st_mode & 0o777 == 0o600)
    await storage.close()
  }

  @Test func `a closed store is one file and its lock`() async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    _ = try await DirectStore(storage).commit([entry(2)], extras: [])
    await storage.close()
    #expect(folder.names == ["store.sqlite", "store.sqlite.lock"])
  }

  private static let columns = [
    "conversations.id INTEGER PK1", "conversations.owner_conversation_id INTEGER",
    "conversations.owner_task_id INTEGER", "conversations.record TEXT NOT NULL",
    "document_revisions.document_id INTEGER NOT NULL PK1",
    "document_revisions.seq INTEGER NOT NULL PK2", "document_revisions.kind TEXT NOT NULL",
    "document_revisions.version INTEGER NOT NULL", "document_revisions.content TEXT NOT NULL",
    "documents.id INTEGER PK1", "documents.kind TEXT NOT NULL",
    "documents.family INTEGER NOT NULL", "documents.key_value TEXT NOT NULL",
    "documents.scope_kind TEXT NOT NULL", "documents.owner_id INTEGER NOT NULL",
    "documents.created_at INTEGER NOT NULL", "documents.retired_at INTEGER",
    "documents.record TEXT NOT NULL", "durable_metadata.singleton INTEGER PK1",
    "durable_metadata.next_id TEXT NOT NULL", "durable_metadata.next_seq INTEGER NOT NULL",
    "durable_schema.singleton INTEGER PK1", "durable_schema.version INTEGER NOT NULL",
    "entries.id INTEGER PK1", "entries.conversation_id INTEGER NOT NULL",
    "entries.head INTEGER", "entries.commit_seq INTEGER NOT NULL",
    "entries.record TEXT NOT NULL", "perdure_extras.scope TEXT NOT NULL PK1",
    "perdure_extras.id INTEGER NOT NULL PK2", "perdure_extras.value TEXT",
    "record_ids.id INTEGER PK1", "record_ids.record_type TEXT NOT NULL",
    "submissions.id INTEGER PK1", "submissions.conversation_id INTEGER NOT NULL",
    "submissions.request_id TEXT", "submissions.status TEXT NOT NULL",
    "submissions.record TEXT NOT NULL", "tasks.id INTEGER PK1",
    "tasks.conversation_id INTEGER NOT NULL", "tasks.kind TEXT NOT NULL",
    "tasks.status TEXT NOT NULL", "tasks.abort_requested INTEGER NOT NULL",
    "tasks.background INTEGER NOT NULL", "tasks.record TEXT NOT NULL",
  ]
}
