import PerdureModel

/// The tables of pi-durable, schema version 2, and what Perdure keeps beside them.
///
/// Stores are exchanged with pi-durable, so tables, columns and checks are exactly its own. Indexes
/// are not part of that: a new store gets only those that our queries need, because every index
/// is written with every record.
enum Schema {
  static let version: Int64 = 2

  static let tables = [
    "durable_metadata", "record_ids", "conversations", "entries", "tasks", "submissions",
    "documents", "document_revisions",
  ]

  /// All names that a store gives to tables and indexes, or knows from other programs.
  static let names: Set<String> = Set(
    tables + ["durable_schema", "perdure_extras", "tasks_v2"]
      + indexes.flatMap { [$0.name, $0.standIn] }
  )

  static let creation = [
    """
    CREATE TABLE durable_schema (
      singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
      version INTEGER NOT NULL CHECK (version >= 0)
    ) STRICT
    """,
    "INSERT INTO durable_schema (singleton, version) VALUES (1, 2)",
    """
    CREATE TABLE durable_metadata (
      singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
      next_id TEXT NOT NULL,
      next_seq INTEGER NOT NULL
    ) STRICT
    """,
    "INSERT INTO durable_metadata (singleton, next_id, next_seq) VALUES (1, '2', 1)",
    """
    CREATE TABLE record_ids (
      id INTEGER PRIMARY KEY,
      record_type TEXT NOT NULL
        CHECK (record_type IN ('conversation', 'entry', 'task', 'submission', 'document'))
    ) STRICT
    """,
    """
    CREATE TABLE conversations (
      id INTEGER PRIMARY KEY,
      owner_conversation_id INTEGER,
      owner_task_id INTEGER,
      record TEXT NOT NULL CHECK (json_valid(record))
    ) STRICT
    """,
    """
    CREATE TABLE entries (
      id INTEGER PRIMARY KEY,
      conversation_id INTEGER NOT NULL,
      head INTEGER,
      commit_seq INTEGER NOT NULL,
      record TEXT NOT NULL CHECK (json_valid(record))
    ) STRICT
    """,
    tasks("tasks"),
    """
    CREATE TABLE submissions (
      id INTEGER PRIMARY KEY,
      conversation_id INTEGER NOT NULL,
      request_id TEXT,
      status TEXT NOT NULL CHECK (status IN ('queued', 'placed', 'done', 'unanswered')),
      record TEXT NOT NULL CHECK (json_valid(record))
    ) STRICT
    """,
    """
    CREATE TABLE documents (
      id INTEGER PRIMARY KEY,
      kind TEXT NOT NULL,
      family INTEGER NOT NULL CHECK (family IN (0, 1)),
      key_value TEXT NOT NULL,
      scope_kind TEXT NOT NULL CHECK (scope_kind IN ('session', 'conversation', 'task')),
      owner_id INTEGER NOT NULL,
      created_at INTEGER NOT NULL,
      retired_at INTEGER,
      record TEXT NOT NULL CHECK (json_valid(record))
    ) STRICT
    """,
    """
    CREATE TABLE document_revisions (
      document_id INTEGER NOT NULL,
      seq INTEGER NOT NULL,
      kind TEXT NOT NULL CHECK (kind IN ('base', 'delta')),
      version INTEGER NOT NULL,
      content TEXT NOT NULL CHECK (json_valid(content)),
      PRIMARY KEY (document_id, seq)
    ) STRICT
    """,
  ]

  private static func tasks(_ name: String) -> String {
    """
    CREATE TABLE \(name) (
      id INTEGER PRIMARY KEY,
      conversation_id INTEGER NOT NULL,
      kind TEXT NOT NULL,
      status TEXT NOT NULL
        CHECK (status IN ('pending', 'running', 'waiting', 'sleeping', 'completing', 'terminal')),
      abort_requested INTEGER NOT NULL CHECK (abort_requested IN (0, 1)),
      background INTEGER NOT NULL CHECK (background IN (0, 1)),
      record TEXT NOT NULL CHECK (json_valid(record))
    ) STRICT
    """
  }

  static let extras = """
    CREATE TABLE perdure_extras (
      scope TEXT, id INTEGER, value TEXT, PRIMARY KEY (scope, id)
    ) WITHOUT ROWID
    """

  /// An index of ours, and the index of pi-durable that does the same work.
  struct Index {
    let name: String
    let columns: String
    let standIn: String
  }

  static let indexes = [
    Index(
      name: "perdure_conversations_by_owner",
      columns: "conversations (owner_conversation_id) WHERE owner_conversation_id IS NOT NULL",
      standIn: "conversations_by_owner_conversation"
    ),
    Index(
      name: "perdure_conversations_by_task",
      columns: "conversations (owner_task_id) WHERE owner_task_id IS NOT NULL",
      standIn: "conversations_by_owner_task"
    ),
    Index(
      name: "perdure_entries",
      columns: "entries (conversation_id)",
      standIn: "entries_by_conversation"
    ),
    Index(
      name: "perdure_heads",
      columns: "entries (conversation_id) WHERE head IS NOT NULL",
      standIn: "entry_heads_by_conversation"
    ),
    Index(
      name: "perdure_live_tasks",
      columns: "tasks (status) WHERE status <> 'terminal'",
      standIn: "tasks_by_status"
    ),
    Index(
      name: "perdure_requests",
      columns: "submissions (conversation_id, request_id) WHERE request_id IS NOT NULL",
      standIn: "submissions_by_request"
    ),
    Index(
      name: "perdure_documents",
      columns: "documents (owner_id, scope_kind, kind, key_value)",
      standIn: "documents_by_address"
    ),
  ]

  /// Rebuilds `tasks`, because SQLite cannot change a check in place; its indexes are made again.
  static func migrateFrom1(_ connection: Database) throws {
    let indexes = try connection.rows(
      "SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL",
      [.string(connection.name(of: "tasks"))]
    ) { $0.string(0) }
    try connection.execute(tasks("tasks_v2"))
    try connection.execute(
      """
      INSERT INTO tasks_v2 (id, conversation_id, kind, status, abort_requested, background, record)
      SELECT id, conversation_id, kind, status, abort_requested, background, record FROM tasks
      """
    )
    try connection.execute("DROP TABLE tasks")
    try connection.execute("ALTER TABLE tasks_v2 RENAME TO tasks")
    for index in indexes { try connection.execute(index) }
    try connection.execute("UPDATE durable_schema SET version = 2 WHERE singleton = 1")
  }
}
