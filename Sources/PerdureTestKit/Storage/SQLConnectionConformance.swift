public import PerdureModel

/// What a connection that an application shares must do, as cases for a test framework of any kind.
///
///     for test in SQLConnectionConformance.cases {
///       try await test.run { try MyConnection(path: newFile()) }
///     }
///
/// Each case opens one connection to an empty database and closes it. A case that fails throws, and
/// the error says what differed.
public enum SQLConnectionConformance {
  /// One claim about a connection.
  public struct Case: Sendable, CustomStringConvertible {
    /// A sentence that says what is claimed.
    public let name: String
    private let check: @Sendable (any SQLConnection) async throws -> Void

    init(_ name: String, _ check: @escaping @Sendable (any SQLConnection) async throws -> Void) {
      self.name = name
      self.check = check
    }

    /// Checks it on a connection that `open` makes.
    public func run(_ open: () throws -> any SQLConnection) async throws {
      let connection = try open()
      defer { connection.close() }
      try await check(connection)
    }

    public var description: String { name }
  }

  /// All cases.
  public static let cases: [Case] = statementCases + transactionCases + sharingCases

  /// An error that no connection makes by itself.
  struct Refusal: Error, Equatable { var number: Int }

  static func table(_ connection: any SQLConnection) throws {
    try connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
  }

  static func ids(_ handle: any SQLHandle) throws -> [[SQLValue]] {
    try handle.all("SELECT id FROM t ORDER BY id", [])
  }

  static func insert(_ id: Int64, _ handle: any SQLHandle) throws {
    try handle.run("INSERT INTO t (id) VALUES (?)", [.int(id)])
  }

  static func expectThrows(_ what: String, _ body: () throws -> Void) throws {
    do {
      try body()
    } catch { return }
    throw ConformanceFailure("\(what): no error")
  }
}

extension SQLConnectionConformance {
  static let statementCases: [Case] = [
    Case("every kind of value comes back as it was bound") { connection in
      let values: [SQLValue] = [
        .null, .int(0), .int(.min), .int(.max), .int(9_007_199_254_740_993), .real(0.5),
        .text([]), .string("a'\"b é 漢 🙂"), .text([0x61, 0x00, 0x62]), .blob([]),
        .blob([0x00, 0xFF, 0x61]),
      ]
      for value in values {
        try expect(try connection.first("SELECT ?", [value]), [value], "SELECT \(value)")
      }
      let list = values.map { _ in "?" }.joined(separator: ", ")
      try expect(try connection.all("SELECT \(list)", values), [values], "many parameters")
    },
    Case("execute runs every statement of a text") { connection in
      try connection.execute("CREATE TABLE t (id INTEGER); INSERT INTO t VALUES (1), (2);")
      try expect(try ids(connection), [[.int(1)], [.int(2)]], "rows")
    },
    Case("first returns the first row, all returns all, in their order") { connection in
      try table(connection)
      try expect(try connection.first("SELECT id FROM t", []), nil, "no row")
      try expect(try connection.all("SELECT id FROM t", []), [], "no rows")
      for id in Int64(1)...3 { try insert(id, connection) }
      let sql = "SELECT id, id * 10 FROM t WHERE id >= ? ORDER BY id DESC"
      try expect(try connection.first(sql, [.int(2)]), [.int(3), .int(30)], "first")
      try expect(
        try connection.all(sql, [.int(2)]),
        [[.int(3), .int(30)], [.int(2), .int(20)]],
        "all"
      )
      // A cached statement must not remember what it was bound to, nor stop in the middle.
      try expect(try connection.first(sql, [.int(1)]), [.int(3), .int(30)], "again")
    },
    Case("a statement that fails throws and leaves the connection usable") { connection in
      try table(connection)
      try insert(1, connection)
      try expectThrows("a repeated key") { try insert(1, connection) }
      try expectThrows("no such table") { _ = try connection.all("SELECT * FROM nothing", []) }
      try expectThrows("no SQL") { try connection.execute("SELEKT 1") }
      try insert(2, connection)
      try expect(try ids(connection), [[.int(1)], [.int(2)]], "rows")
    },
    Case("after close everything throws") { connection in
      connection.close()
      try expectThrows("execute") { try connection.execute("SELECT 1") }
      try expectThrows("run") { try connection.run("SELECT 1", []) }
      try expectThrows("first") { _ = try connection.first("SELECT 1", []) }
      try expectThrows("all") { _ = try connection.all("SELECT 1", []) }
      try expectThrows("transaction") { try connection.transaction { _ in } }
    },
  ]

  static let transactionCases: [Case] = [
    Case("a transaction is committed") { connection in
      try table(connection)
      try connection.transaction { handle in
        try insert(1, handle)
        try expect(try ids(handle), [[.int(1)]], "its own view")
        try handle.execute("INSERT INTO t (id) VALUES (2); INSERT INTO t (id) VALUES (3)")
        try expect(try handle.first("SELECT count(*) FROM t", []), [.int(3)], "count")
      }
      try expect(try ids(connection), [[.int(1)], [.int(2)], [.int(3)]], "rows")
    },
    Case("an error of the body takes everything back and is thrown as it is") { connection in
      try table(connection)
      for number in 1...2 {
        do {
          try connection.transaction { handle in
            try insert(1, handle)
            throw Refusal(number: number)
          }
          throw ConformanceFailure("no error")
        } catch let error as Refusal {
          try expect(error, Refusal(number: number), "the error")
        }
        try expect(try ids(connection), [], "rows")
      }
    },
    Case("a statement that fails in a transaction does not end it") { connection in
      try table(connection)
      try connection.transaction { handle in
        try insert(1, handle)
        try expectThrows("a repeated key") { try insert(1, handle) }
        try insert(2, handle)
      }
      try expect(try ids(connection), [[.int(1)], [.int(2)]], "rows")
    },
    Case("a commit that fails is taken back") { connection in
      try connection.execute("PRAGMA foreign_keys = ON")
      try connection.execute(
        """
        CREATE TABLE t (id INTEGER PRIMARY KEY,
          up INTEGER REFERENCES t (id) DEFERRABLE INITIALLY DEFERRED)
        """
      )
      try expectThrows("a reference to nothing") {
        try connection.transaction { try $0.execute("INSERT INTO t VALUES (1, 9)") }
      }
      try expect(try ids(connection), [], "rows")
      try connection.transaction { try $0.execute("INSERT INTO t VALUES (1, 1)") }
      try expect(try ids(connection), [[.int(1)]], "rows afterwards")
    },
    Case("the handle is dead once its transaction is over") { connection in
      try table(connection)
      var kept: [any SQLHandle] = []
      try connection.transaction { kept.append($0) }
      try? connection.transaction { handle in
        kept.append(handle)
        throw Refusal(number: 1)
      }
      try expect(kept.count, 2, "handles")
      for handle in kept {
        try expectThrows("execute") { try handle.execute("INSERT INTO t (id) VALUES (1)") }
        try expectThrows("run") { try insert(1, handle) }
        try expectThrows("first") { _ = try handle.first("SELECT 1", []) }
        try expectThrows("all") { _ = try handle.all("SELECT 1", []) }
      }
      try connection.transaction { _ in
        try expectThrows("in a later transaction") { try insert(1, kept[0]) }
      }
      try expect(try ids(connection), [], "rows")
    },
    Case("a transaction that cannot be taken back leaves no half of it unseen") { connection in
      try table(connection)
      // The body ends the transaction by itself, so there is nothing to take back.
      try expectThrows("the end of a body that rolled back") {
        try connection.transaction { handle in
          try insert(1, handle)
          try handle.execute("ROLLBACK")
          throw Refusal(number: 1)
        }
      }
      try expect(try ids(connection), [], "rows")
      try connection.transaction { try insert(2, $0) }
      try expect(try ids(connection), [[.int(2)]], "rows afterwards")
    },
  ]
}
