import Foundation
import Perdure
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// Each kind of damage of files and tables is done once, and named.
@Suite struct CheckupTests {
  private let folder = StoreFolder()

  /// What is done to a store, and what is said of it.
  struct Damage: Sendable, CustomTestStringConvertible {
    var code: String
    var object: String
    /// Statements for SQLite; for JSON lines a file and what becomes of its lines.
    var sql: String = ""
    var file: String = ""
    var change: @Sendable ([String]) -> [String] = { $0 }
    var isDamage = true

    var testDescription: String { "\(code): \(object)" }
  }

  private static let revisions = "document_revisions"

  static let tables: [Damage] = [
    Damage(code: "id_unlisted", object: "entry 2", sql: "DELETE FROM record_ids WHERE id = 2"),
    Damage(code: "record_missing", object: "entry 2", sql: "DELETE FROM entries WHERE id = 2"),
    Damage(code: "column", object: "entry 2", sql: "UPDATE entries SET conversation_id = 7"),
    Damage(code: "column", object: "entry 2", sql: "UPDATE entries SET head = 2"),
    Damage(
      code: "column",
      object: "entry 2",
      sql: "UPDATE entries SET record = json_set(record, '$.id', 8)"
    ),
    Damage(code: "column", object: "submission 6", sql: "UPDATE submissions SET status = 'queued'"),
    Damage(
      code: "column",
      object: "document 3",
      sql: "UPDATE documents SET owner_id = 4 WHERE id = 3"
    ),
    Damage(
      code: "unreadable",
      object: "task 5",
      sql: "UPDATE tasks SET record = '{}' WHERE id = 5"
    ),
    Damage(code: "unreadable", object: "entry 2", sql: "UPDATE entries SET record = 'no'"),
    Damage(code: "unreadable", object: "extra s 0", sql: "UPDATE perdure_extras SET value = 'no'"),
    Damage(
      code: "no_base",
      object: "document 3",
      sql: "DELETE FROM \(revisions) WHERE document_id = 3 AND kind = 'base'"
    ),
    Damage(
      code: "no_base",
      object: "document 4",
      sql: "DELETE FROM \(revisions) WHERE document_id = 4"
    ),
    Damage(
      code: "version_crossed",
      object: "document 3",
      sql: "UPDATE \(revisions) SET version = 2 WHERE document_id = 3 AND kind = 'delta'"
    ),
    Damage(
      code: "unreadable",
      object: "document 3",
      sql: "UPDATE \(revisions) SET content = '[[\"?\"]]' WHERE document_id = 3 AND kind = 'delta'"
    ),
    Damage(
      code: "orphan_revision",
      object: "document 99",
      sql: "INSERT INTO \(revisions) VALUES (99, 1, 'base', 1, '{}')"
    ),
    Damage(code: "counters", object: "next_id", sql: "UPDATE durable_metadata SET next_id = '3'"),
    Damage(code: "counters", object: "next_seq", sql: "UPDATE durable_metadata SET next_seq = 1"),
    Damage(
      code: "counters",
      object: "the counters",
      sql: "UPDATE durable_metadata SET next_id = 'many'"
    ),
    Damage(
      code: "ids_exhausted",
      object: "next_id",
      sql: "UPDATE durable_metadata SET next_id = '9007199254740992'"
    ),
    Damage(
      code: "id_range",
      object: "entry 9007199254740992",
      sql: "INSERT INTO entries SELECT 9007199254740992, 1, NULL, 1, record FROM entries"
    ),
    Damage(code: "missing_table", object: "table submissions", sql: "DROP TABLE submissions"),
    Damage(
      code: "missing_column",
      object: "table documents",
      sql: "DROP TABLE documents; CREATE TABLE documents (id INTEGER PRIMARY KEY, record TEXT)"
    ),
    Damage(
      code: "address",
      object: "document 8",
      sql: """
        INSERT INTO record_ids VALUES (8, 'document');
        INSERT INTO documents SELECT 8, kind, family, key_value, scope_kind, owner_id, created_at,
          retired_at, json_set(record, '$.id', 8) FROM documents WHERE id = 3;
        INSERT INTO \(revisions) VALUES (8, 1, 'base', 1, '{}')
        """
    ),
    Damage(
      code: "database",
      object: "the database file",
      sql: "PRAGMA writable_schema = ON; DELETE FROM sqlite_master WHERE name = 'perdure_heads'"
    ),
    Damage(
      code: "foreign_table",
      object: "table mine",
      sql: "CREATE TABLE mine (a)",
      isDamage: false
    ),
  ]

  static let files: [Damage] = [
    Damage(code: "line", object: "line 2 of main.jsonl", file: "main.jsonl") {
      [$0[0], "nonsense"] + $0.dropFirst(2)
    },
    Damage(code: "line", object: "line 2 of main.jsonl", file: "main.jsonl") {
      [$0[0], $0[0]] + $0.dropFirst(2)
    },
    Damage(code: "line", object: "line 1 of perdure.jsonl", file: "perdure.jsonl") { _ in ["{}"] },
    Damage(code: "commit", object: "line 3 of main.jsonl", file: "main.jsonl") {
      $0 + [$0[0].replacingOccurrences(of: #""seq":1"#, with: #""seq":3"#)]
    },
    Damage(code: "missing_file", object: "main.jsonl", file: "main.jsonl") { _ in [] },
    Damage(code: "record_missing", object: "doc-4.jsonl", file: "doc-4.jsonl") {
      Array($0.dropFirst())
    },
    Damage(code: "record_missing", object: "task-7.jsonl", file: "task-7.jsonl") { _ in [] },
    Damage(code: "named_twice", object: "line 1 of main.jsonl", file: "main.jsonl") { lines in
      let name = #"{"type":"task.sidecar","id":7,"ordinal":0}"#
      return [lines[0].replacingOccurrences(of: name, with: name + "," + name)]
        + lines.dropFirst()
    },
    Damage(code: "unconfirmed", object: "line 3 of doc-4.jsonl", file: "doc-4.jsonl") { lines in
      [
        lines[0],
        lines[0].replacingOccurrences(of: #""ordinal":2"#, with: #""ordinal":9"#),
        lines[1],
      ]
    },
    Damage(
      code: "unconfirmed_tail",
      object: "doc-4.jsonl",
      file: "doc-4.jsonl",
      change: { $0 + [$0[1].replacingOccurrences(of: #""seq":2"#, with: #""seq":9"#)] },
      isDamage: false
    ),
    Damage(
      code: "torn_tail",
      object: "main.jsonl",
      file: "main.jsonl",
      change: { $0 + [#"{"format"#] },
      isDamage: false
    ),
    Damage(
      code: "stray_file",
      object: "doc-4.jsonl.reclaim",
      file: "doc-4.jsonl.reclaim",
      change: { _ in ["x"] },
      isDamage: false
    ),
    Damage(
      code: "foreign_file",
      object: "notes.txt",
      file: "notes.txt",
      change: { _ in ["x"] },
      isDamage: false
    ),
  ]

  private func fill(_ storage: any Storage) async throws {
    let rewindable = DocumentRecord(
      id: .known(4),
      address: DocumentAddress(kind: "r", scope: .conversation(.root)),
      history: .rewindable,
      fork: .asOf,
      createdAt: 0
    )
    let latest = DocumentRecord(
      id: .known(3),
      address: DocumentAddress(kind: "l", scope: .session),
      createdAt: 0
    )
    func task(_ id: Int64, _ state: TaskState) -> StorageWrite {
      .task(
        TaskRecord(
          id: .known(id),
          conversationId: .root,
          kind: "t",
          version: 1,
          input: .null,
          state: state
        )
      )
    }
    let operations: [PerdureValue.Operation] = [.set(["n"], .int(2))]
    let store = try await DirectStore(storage)
    _ = try await store.commit(
      [
        .conversation(ConversationRecord(id: .root)),
        .entry(EntryRecord(id: .known(2), conversationId: .root, kind: "test")),
        task(7, .pending(checkpoint: 1)),
        .createDocument(latest, version: 1, value: ["n": 1]),
        .createDocument(rewindable, version: 1, value: ["n": 1]),
        task(5, .terminal(.completed(result: .null))),
        .submission(
          SubmissionRecord(
            id: .known(6),
            conversationId: .root,
            kind: .input,
            state: .unanswered(reason: "r", detail: nil, entry: nil)
          )
        ),
      ],
      extras: [ExtraWrite(scope: "s", id: 0, value: 1)]
    )
    _ = try await store.commit(
      [
        .changeDocument(.known(3), .delta(version: 1, operations: operations)),
        .changeDocument(.known(4), .delta(version: 1, operations: operations)),
      ],
      extras: []
    )
    await store.close()
  }

  private func sqlite() async throws -> StoreSite {
    let site = folder.site("store.sqlite", .sqlite)
    try await fill(try await SQLiteStorage.open(path: site.path, durability: .normal))
    return site
  }

  private func jsonl() async throws -> StoreSite {
    let site = folder.site("store", .jsonl)
    try await fill(try await JSONLStorage.open(path: site.path, durability: .normal))
    return site
  }

  private func execute(_ sql: String, _ site: StoreSite) throws {
    let connection = try Connection(path: site.path)
    defer { connection.close() }
    try connection.execute("PRAGMA ignore_check_constraints = ON; " + sql)
    try connection.checkpoint(truncating: true)
  }

  private func apply(_ damage: Damage) {
    let name = "store/" + damage.file
    let text = String(decoding: folder.bytes(of: name), as: UTF8.self)
    var lines = text.split(separator: "\n").map { String($0) }
    lines = damage.change(lines)
    let body = lines.joined(separator: "\n") + (damage.code == "torn_tail" ? "" : "\n")
    if lines.isEmpty {
      try? FileManager.default.removeItem(atPath: folder.path(name))
    } else {
      folder.write(Array(body.utf8), to: name)
    }
  }

  private func findings(_ site: StoreSite) async throws -> ([StoreFinding], StoreCheckup) {
    let found = Mutex<[StoreFinding]>([])
    let before = folder.contents
    let checkup = try await StoreCheckup.run(site) { finding in
      found.withLock { $0.append(finding) }
    }
    #expect(folder.contents == before, "a check changes nothing")
    let all = found.withLock { $0 }
    #expect(all.filter { $0.isDamage }.count == checkup.damages)
    return (all, checkup)
  }

  @Test func `sound stores have no findings`() async throws {
    for site in [try await sqlite(), try await jsonl()] {
      let (found, checkup) = try await findings(site)
      #expect(found == [])
      #expect(checkup.visited?.tasks == 2)
    }
  }

  @Test(arguments: tables)
  func `damage in a database is named`(_ damage: Damage) async throws {
    let site = try await sqlite()
    try execute(damage.sql, site)
    let (found, _) = try await findings(site)
    #expect(
      found.contains {
        $0.code == damage.code && $0.object == damage.object && $0.isDamage == damage.isDamage
      },
      "\(found)"
    )
    #expect(damage.isDamage || !found.contains { $0.isDamage }, "\(found)")
  }

  @Test(arguments: files)
  func `damage in files is named`(_ damage: Damage) async throws {
    let site = try await jsonl()
    apply(damage)
    let (found, _) = try await findings(site)
    #expect(
      found.contains {
        $0.code == damage.code && $0.object == damage.object && $0.isDamage == damage.isDamage
      },
      "\(found)"
    )
    #expect(damage.isDamage || !found.contains { $0.isDamage }, "\(found)")
  }

  @Test func `both of two damages are named`() async throws {
    let site = try await sqlite()
    try execute(
      "UPDATE tasks SET record = '{}' WHERE id = 5; UPDATE entries SET conversation_id = 7",
      site
    )
    let objects = try await findings(site).0.map(\.object)
    #expect(objects.contains("task 5") && objects.contains("entry 2"))
    let other = try await jsonl()
    for damage in Self.files.filter({ ["line", "record_missing"].contains($0.code) }).prefix(4) {
      apply(damage)
    }
    let codes = try await findings(other).0.map(\.code)
    #expect(codes.contains("line") && codes.contains("record_missing"))
  }

  @Test func `a file that is no store cannot be checked`() async throws {
    folder.write(Array(repeating: 7, count: 4_096), to: "store.sqlite")
    let error = await #expect(throws: PerdureError.self) {
      _ = try await StoreCheckup.run(folder.site("store.sqlite", .sqlite)) { _ in }
    }
    #expect(error?.code == .storeUnreadable)
  }

  // MARK: Copies

  @Test func `a copy of a store is that store`() async throws {
    for site in [try await sqlite(), try await jsonl()] {
      let copy = folder.site("copy-\(site.format)", site.format)
      #expect(try await StoreBackup.run(site, to: copy.path) == [])
      #expect(try await findings(copy).0 == [])
      let same = try await export(copy) == (try await export(site))
      #expect(same)
    }
    #expect(!folder.names.contains { $0.contains("partial") })
  }

  @Test(arguments: [StoreFormat.sqlite, .jsonl])
  func `every copy that is made while the owner commits is a whole one`(
    _ format: StoreFormat
  ) async throws {
    let site = format == .sqlite ? try await sqlite() : try await jsonl()
    let storage: any Storage =
      format == .sqlite
      ? try await SQLiteStorage.open(path: site.path, durability: .normal)
      : try await JSONLStorage.open(path: site.path, durability: .normal)
    let isDone = Mutex(false)
    async let commits: Int = {
      var count = 0
      let store = try await DirectStore(storage)
      while !isDone.withLock({ $0 }) {
        // Bases make JSON lines rewrite files; new and ended tasks create and remove them.
        let id = try await store.mintId()
        var task = TaskRecord(
          id: .known(id),
          conversationId: .root,
          kind: "t",
          version: 1,
          input: .null,
          state: .pending(checkpoint: 1)
        )
        _ = try await store.commit(
          [.task(task), .changeDocument(.known(3), .base(version: 1, value: ["n": .int(id)]))],
          extras: [ExtraWrite(scope: "s", id: id, value: 1)]
        )
        task.state = .terminal(.completed(result: .null))
        _ = try await store.commit([.task(task)], extras: [])
        count += 1
      }
      return count
    }()
    for number in 0..<4 {
      let copy = folder.site("copy-\(number)", format)
      let damage = try await StoreBackup.run(site, to: copy.path)
      #expect(damage == [])
      let found = Mutex<[StoreFinding]>([])
      _ = try await StoreCheckup.run(copy) { finding in found.withLock { $0.append(finding) } }
      #expect(found.withLock { $0 } == [])
    }
    isDone.withLock { $0 = true }
    #expect(try await commits > 0)
    await storage.close()
  }

  @Test func `a copy of a damaged store says so`() async throws {
    let site = try await sqlite()
    try execute("UPDATE entries SET conversation_id = 7", site)
    let damage = try await StoreBackup.run(site, to: folder.path("copy"))
    #expect(damage.map(\.object) == ["entry 2"])
    let other = try await jsonl()
    apply(Self.files[0])
    let lost = try await StoreBackup.run(other, to: folder.path("copy2"))
    #expect(lost.map(\.object) == ["main.jsonl"])
    let isSame = folder.bytes(of: "copy2/main.jsonl") == folder.bytes(of: "store/main.jsonl")
    #expect(isSame)
  }

  private func export(_ site: StoreSite) async throws -> [UInt8] {
    var bytes: [UInt8] = []
    _ = try await StoreExport.run(site) {
      bytes += $0
      return true
    }
    return bytes
  }
}

extension StoreFolder {
  /// All files in it with their bytes.
  var contents: [String: [UInt8]] {
    var contents: [String: [UInt8]] = [:]
    for name in (try? FileManager.default.subpathsOfDirectory(atPath: path("."))) ?? [] {
      contents[name] = bytes(of: name)
    }
    return contents
  }
}
