import Foundation
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// How SQLite finds the rows of every statement that a store runs.
struct PlanTests {
  /// Runs every case of the suite and every scan, and returns the statements with their plans.
  private static func plans() async throws -> [String: [String]] {
    var plans: [String: [String]] = [:]
    for test in StorageConformance.cases + StorageConformance.backendCases {
      let folder = TemporaryFolder()
      let harness = try await StorageHarness {
        try await DirectStore(try await openStore(folder))
      }
      try await test.run(harness)
      // The case about closed stores leaves nothing to look at.
      if let storage = try await harness.backend() as? SQLiteStorage {
        for (sql, plan) in (try? await explained(storage)) ?? [:] { plans[sql] = plan }
      }
      await harness.close()
    }
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    _ = try await DirectStore(storage).commit(
      [.conversation(ConversationRecord(id: .root))],
      extras: []
    )
    for read in reads { try await read(storage) }
    plans.merge(try await explained(storage)) { $1 }
    await storage.close()
    return plans
  }

  private static func explained(_ storage: SQLiteStorage) async throws -> [String: [String]] {
    try await storage.inspect { database in
      var plans: [String: [String]] = [:]
      for sql in database.preparedStatements where sql.starts(with: /SELECT|INSERT|UPDATE|DELETE/) {
        plans[flat(sql)] = try database.rows("EXPLAIN QUERY PLAN \(sql)") { $0.string(3) }
      }
      return plans
    }
  }

  /// The combinations of conditions that the engine and the program ask for, and no case of the
  /// suite.
  private static let reads: [@Sendable (SQLiteStorage) async throws -> Void] = [
    { _ = try await $0.scanTasks(TaskQuery(status: .running), page) },
    { _ = try await $0.scanTasks(TaskQuery(conversationId: .root, status: .running), page) },
    { _ = try await $0.submission(requestId: "é", in: .root) },
    {
      let address = DocumentAddress(kind: "é", scope: .session, key: "é")
      _ = try await $0.findDocument(address, at: nil)
      _ = try await $0.findDocument(address, at: 1)
    },
    { _ = try await $0.latestHeadMarker(.root, atOrBefore: nil) },
  ]

  private static let page = PageRequest(limit: 9)

  private static func flat(_ sql: some StringProtocol) -> String {
    sql.split(whereSeparator: \.isWhitespace).joined(separator: " ")
  }

  /// What makes the tables, before there is anything to find, and what walks all of them once, for
  /// a check or a copy.
  private static let wholeTables: Set<String> = [
    "Schema.swift", "SQLiteBuilder.swift", "SQLiteExamination.swift", "SQLiteStorage+Backup.swift",
    "SQLiteStorage+Snapshot.swift", "RecordRow.swift",
  ]

  /// The statements of the sources, each up to what is put in when it runs.
  private static func written() throws -> [String] {
    let folder = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../../Sources/PerdureStorage/SQLite").standardized
    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
    let literal = /"(?:"")?\s*((?:SELECT|INSERT|UPDATE|DELETE) [^"\\]*)/
    return try names.filter { $0.hasSuffix(".swift") && !wholeTables.contains($0) }.flatMap {
      name in
      let text = try String(contentsOf: folder.appending(path: name), encoding: .utf8)
      return text.matches(of: literal).map { flat($0.1) }
    }
  }

  /// Statements, and how the rows of each are found.
  private static let intended: [(statement: String, plan: String)] = [
    ("INSERT INTO", ""),
    ("SELECT name FROM sqlite_master$", "SCAN sqlite_master"),
    (".* (durable_metadata|durable_schema) .*WHERE singleton = 1$", byId),
    ("(SELECT|UPDATE|DELETE) .*WHERE id = \\?$", byId),
    (
      ".* perdure_extras WHERE scope = \\? AND id = \\?$", "SEARCH perdure_extras USING PRIMARY KEY"
    ),
    (".* document_revisions WHERE document_id = \\?", revisions),
    ("SELECT record, id FROM entries WHERE conversation_id = \\? AND head", by("perdure_heads")),
    (
      "SELECT record, id FROM entries WHERE conversation_id = \\? AND id BET", by("perdure_entries")
    ),
    (".* conversations WHERE .*owner_task_id = \\?", by("perdure_conversations_by_task")),
    (".* conversations WHERE owner_conv", by("perdure_conversations_by_owner")),
    (".* submissions WHERE conversation_id = \\? AND request_id", by("perdure_requests")),
    (".* tasks WHERE .*status <> 'terminal'", by("perdure_live_tasks")),
    (".* documents WHERE owner_id = \\? AND scope_kind = \\?", by("perdure_documents")),
    // Nothing that happens in a turn asks for these, so no index is written for them: the table is
    // walked in the order of its ids, from the cursor on.
    (".* (conversations|tasks|submissions) WHERE .*id [<>] \\? ORDER", fromId),
    (".* (conversations|tasks|submissions) ORDER BY id", "SCAN"),
    (".* tasks WHERE (conversation_id|kind|status|abort_requested|background) (=|IN)", "SCAN"),
    (".* submissions WHERE (conversation_id|status) =", "SCAN"),
  ]

  private static let byId = "SEARCH \\w+ USING INTEGER PRIMARY KEY \\(rowid=\\?\\)"
  private static let fromId = "SEARCH \\w+ USING INTEGER PRIMARY KEY \\(rowid[<>]\\?\\)"
  private static let revisions =
    "SEARCH document_revisions USING INDEX sqlite_autoindex_document_revisions_1 \\(document_id=\\?"

  private static func by(_ index: String) -> String { "SEARCH \\w+ USING INDEX \(index) \\(" }

  @Test func `every statement of a store finds its rows in the intended way`() async throws {
    let plans = try await Self.plans()
    for (sql, plan) in plans {
      let rule = try Self.intended.first { try Regex($0.statement).prefixMatch(in: sql) != nil }
      guard let rule else {
        Issue.record("no plan is stated for: \(sql)")
        continue
      }
      let isIntended = try Regex(rule.plan).prefixMatch(in: plan.first ?? "") != nil
      #expect(isIntended, "\(sql): \(plan)")
      #expect(plan.count < 2 || plan.dropFirst() == ["USE TEMP B-TREE FOR ORDER BY"], "\(sql)")
    }
    // A statement that none of this runs would go unseen.
    for sql in try Self.written() {
      #expect(plans.keys.contains { $0.hasPrefix(sql) }, "nothing runs: \(sql)")
    }
  }
}
