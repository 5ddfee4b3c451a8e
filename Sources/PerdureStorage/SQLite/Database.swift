import PerdureModel

/// What the SQL of a store runs on: a connection of ours, or an application's.
///
/// The statements and what is made of their rows are the same. A choice between two cases costs
/// nothing next to a statement, and the compiler sees through it.
enum Database {
  case own(Connection)
  case shared(SharedConnection)

  /// The file, for error messages.
  var path: String {
    switch self {
    case .own(let connection): connection.path
    case .shared(let connection): connection.path
    }
  }

  /// Our connection; throws if it is an application's.
  var own: Connection {
    get throws {
      guard case .own(let connection) = self else {
        throw PerdureError(.invalidRequest, "the connection of the store belongs to an application")
      }
      return connection
    }
  }

  /// Runs statements that have no parameters.
  func execute(_ sql: String) throws {
    switch self {
    case .own(let connection): try connection.execute(sql)
    case .shared(let connection): try connection.execute(sql)
    }
  }

  /// Runs one statement.
  func run(_ sql: String, _ values: [SQLValue] = []) throws {
    switch self {
    case .own(let connection): try connection.run(sql, values)
    case .shared(let connection): try connection.run(sql, values)
    }
  }

  /// Returns what `body` makes of every row.
  func rows<Value>(
    _ sql: String,
    _ values: [SQLValue] = [],
    _ body: (Row) throws -> Value
  ) throws -> [Value] {
    switch self {
    case .own(let connection): try connection.rows(sql, values, body)
    case .shared(let connection): try connection.rows(sql, values, body)
    }
  }

  /// Returns what `body` makes of the first row, or `nil` without one.
  func first<Value>(
    _ sql: String,
    _ values: [SQLValue] = [],
    _ body: (Row) throws -> Value
  ) throws -> Value? {
    switch self {
    case .own(let connection): try connection.first(sql, values, body)
    case .shared(let connection): try connection.first(sql, values, body)
    }
  }

  /// Runs `body` in a transaction; an error in it takes everything back.
  func transaction<Value>(_ body: () throws -> Value) throws -> Value {
    switch self {
    case .own(let connection): try connection.transaction(body)
    case .shared(let connection): try connection.transaction(body)
    }
  }

  /// Closes the database; later calls fail.
  func close() {
    switch self {
    case .own(let connection): connection.close()
    case .shared(let connection): connection.close()
    }
  }

  // MARK: Names

  /// The name that a table or an index of the store has in the database.
  func name(of object: String) -> String {
    switch self {
    case .own: object
    case .shared(let connection): connection.names.name(of: object)
    }
  }

  /// The names that belong to the store, as the store calls them.
  func ownNames(among names: Set<String>) -> Set<String> {
    switch self {
    case .own: names
    case .shared(let connection): connection.names.own(among: names)
    }
  }

  /// The error for names of a store that somebody else has given, if that can be.
  func takenNames(_ names: Set<String>) -> PerdureError? {
    guard case .shared(let connection) = self, let first = names.min() else { return nil }
    return PerdureError(
      .storeUnreadable,
      "\(path) has a table or an index \(connection.names.name(of: first)) that is not of a store",
      hint: "give the store a prefix of its own"
    )
  }

  // MARK: The file

  /// Whether the file may not be written, as far as it is known without writing.
  var isReadOnly: Bool {
    switch self {
    case .own(let connection): connection.isReadOnly
    case .shared: false
    }
  }

  /// Whether the path no longer names the file that is open.
  var hasMoved: Bool {
    switch self {
    case .own(let connection): connection.hasMoved
    case .shared(let connection): connection.hasMoved
    }
  }

  /// How many pages the write-ahead log held after the last commit; 0 if that is not our matter.
  var logPages: Int {
    switch self {
    case .own(let connection): connection.logPages
    case .shared: 0
    }
  }

  /// Sets how long to wait for another program.
  func setBusyTimeout(milliseconds: Int32) {
    if case .own(let connection) = self { connection.setBusyTimeout(milliseconds: milliseconds) }
  }

  /// Moves what our write-ahead log holds into the database, as far as readers allow.
  func checkpoint(truncating: Bool) throws {
    if case .own(let connection) = self { try connection.checkpoint(truncating: truncating) }
  }
}
