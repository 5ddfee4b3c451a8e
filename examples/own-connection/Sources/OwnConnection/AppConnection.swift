import CAppSQLite
import Glibc
import Perdure

/// The connection of an application that binds SQLite by itself.
///
/// `@unchecked Sendable`: `database` and `statements` are used only while `mutex` is held, or in the
/// initializer; the pointer to the mutex never changes.
final class AppConnection: SQLConnection, @unchecked Sendable {
  struct Failure: Error, CustomStringConvertible {
    let description: String
  }

  private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private var database: OpaquePointer?
  private var statements: [String: OpaquePointer] = [:]

  init(path: String) throws {
    pthread_mutex_init(mutex, nil)
    let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
    guard sqlite3_open_v2(path, &database, flags, nil) == SQLITE_OK else { throw failure() }
    try statement("PRAGMA journal_mode = WAL", []) { _ in }
  }

  deinit {
    close()
    pthread_mutex_destroy(mutex)
    mutex.deallocate()
  }

  // MARK: SQLConnection

  func execute(_ sql: String) throws { try locked { try script(sql) } }

  func run(_ sql: String, _ values: [SQLValue]) throws {
    try locked { try statement(sql, values) { _ in } }
  }

  func first(_ sql: String, _ values: [SQLValue]) throws -> [SQLValue]? {
    try locked { try rows(sql, values).first }
  }

  func all(_ sql: String, _ values: [SQLValue]) throws -> [[SQLValue]] {
    try locked { try rows(sql, values) }
  }

  func transaction(_ body: (any SQLHandle) throws -> Void) throws {
    try locked {
      try script("BEGIN IMMEDIATE")
      let handle = Handle(self)
      defer { handle.connection = nil }
      do {
        try body(handle)
        try script("COMMIT")
      } catch {
        guard sqlite3_get_autocommit(database) == 0 else { throw error }
        do {
          try script("ROLLBACK")
        } catch let rollback {
          throw SQLRollbackFailure(transaction: error, rollback: rollback)
        }
        throw error
      }
    }
  }

  func close() {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    for sql in Array(statements.keys) { sqlite3_finalize(statements[sql]) }
    statements = [:]
    sqlite3_close(database)
    database = nil
  }

  // MARK: Transactions

  private final class Handle: SQLHandle {
    /// Absent once the transaction is over.
    var connection: AppConnection?

    init(_ connection: AppConnection) { self.connection = connection }

    private func open() throws -> AppConnection {
      guard let connection else { throw Failure(description: "the transaction is over") }
      return connection
    }

    func execute(_ sql: String) throws { try open().script(sql) }

    func run(_ sql: String, _ values: [SQLValue]) throws {
      try open().statement(sql, values) { _ in }
    }

    func first(_ sql: String, _ values: [SQLValue]) throws -> [SQLValue]? {
      try open().rows(sql, values).first
    }

    func all(_ sql: String, _ values: [SQLValue]) throws -> [[SQLValue]] {
      try open().rows(sql, values)
    }
  }

  private func locked<Value>(_ body: () throws -> Value) throws -> Value {
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    guard database != nil else { throw Failure(description: "the connection is closed") }
    return try body()
  }

  // MARK: SQLite

  private func failure() -> Failure {
    Failure(description: String(cString: sqlite3_errmsg(database)))
  }

  private func script(_ sql: String) throws {
    guard sqlite3_exec(database, sql, nil, nil, nil) == SQLITE_OK else { throw failure() }
  }

  private func rows(_ sql: String, _ values: [SQLValue]) throws -> [[SQLValue]] {
    var rows: [[SQLValue]] = []
    try statement(sql, values) { statement in
      let count = sqlite3_column_count(statement)
      rows.append((0..<count).map { value($0, of: statement) })
    }
    return rows
  }

  private func statement(
    _ sql: String,
    _ values: [SQLValue],
    _ visit: (OpaquePointer) -> Void
  ) throws {
    if statements[sql] == nil {
      var made: OpaquePointer?
      guard sqlite3_prepare_v2(database, sql, -1, &made, nil) == SQLITE_OK else {
        throw failure()
      }
      statements[sql] = made
    }
    guard let statement = statements[sql] else { return }
    defer {
      sqlite3_reset(statement)
      sqlite3_clear_bindings(statement)
    }
    for (index, value) in values.enumerated() {
      bind(value, to: Int32(index + 1), of: statement)
    }
    while true {
      switch sqlite3_step(statement) {
      case SQLITE_ROW: visit(statement)
      case SQLITE_DONE: return
      default: throw failure()
      }
    }
  }

  private func bind(_ value: SQLValue, to index: Int32, of statement: OpaquePointer) {
    let copies = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
    switch value {
    case .null: sqlite3_bind_null(statement, index)
    case .int(let value): sqlite3_bind_int64(statement, index, value)
    case .real(let value): sqlite3_bind_double(statement, index, value)
    case .text(let bytes):
      // One byte more gives the empty text an address.
      (bytes + [0]).withUnsafeBytes { buffer in
        let start = buffer.baseAddress?.assumingMemoryBound(to: CChar.self)
        _ = sqlite3_bind_text(statement, index, start, Int32(bytes.count), copies)
      }
    case .blob(let bytes):
      (bytes + [0]).withUnsafeBytes { buffer in
        _ = sqlite3_bind_blob(
          statement,
          index,
          buffer.baseAddress,
          Int32(bytes.count),
          copies
        )
      }
    }
  }

  private func value(_ column: Int32, of statement: OpaquePointer) -> SQLValue {
    switch sqlite3_column_type(statement, column) {
    case SQLITE_INTEGER: return .int(sqlite3_column_int64(statement, column))
    case SQLITE_FLOAT: return .real(sqlite3_column_double(statement, column))
    case SQLITE_NULL: return .null
    case let type:
      let start = sqlite3_column_blob(statement, column)
      let count = Int(sqlite3_column_bytes(statement, column))
      let bytes = Array(UnsafeRawBufferPointer(start: start, count: count))
      return type == SQLITE_BLOB ? .blob(bytes) : .text(bytes)
    }
  }
}
