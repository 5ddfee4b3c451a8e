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

  /// The statements of the sources, each up to what is put in when it runs.
  private static func written() throws -> [String] {
    let folder = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../../Sources/PerdureStorage/SQLite").standardized
    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
    let literal = /"(?:"")?\s*((?:SELECT|INSERT|UPDATE|DELETE) [^"\\]*)/
    // What makes the tables runs before there is anything to find.
    return try names.filter { $0.hasSuffix(".swift") && $0 != "Schema.swift" }.flatMap { name in
      let text = try String(contentsOf: folder.appending(path: name), encoding: .utf8)
      return text.matches(of: literal).map { flat($0.1) }
    }
  }

  @Test func `show plans`() async throws {
    for (sql, plan) in try await Self.plans().sorted(by: { $0.key < $1.key }) {
      print("PLAN", sql, "==>", plan)
    }
    for sql in try Self.written() { print("WRITTEN", sql) }
  }
}
