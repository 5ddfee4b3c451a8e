import CSQLite
import PerdureModel

/// A bare connection to SQLite, for the floor and for sizes.
@safe final class Database {
  private var handle: OpaquePointer?

  /// Opens a file, creating it if it is missing.
  init(path: String) throws {
    let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
    try check(unsafe sqlite3_open_v2(path, &handle, flags, nil))
  }

  deinit { unsafe sqlite3_close_v2(handle) }

  private func check(_ code: Int32) throws {
    guard code != SQLITE_OK, code != SQLITE_DONE, code != SQLITE_ROW else { return }
    throw PerdureError(
      .storageFailed,
      "SQLite failed",
      cause: unsafe String(cString: sqlite3_errmsg(handle))
    )
  }

  /// Runs statements without results.
  func execute(_ sql: String) throws { try check(unsafe sqlite3_exec(handle, sql, nil, nil, nil)) }

  /// Returns the number that a statement answers.
  func number(_ sql: String) throws -> Int64 {
    let statement = try Statement(self, sql)
    return try statement.number()
  }

  /// The bytes of the pages in use, after the log has been moved into the database.
  func usedBytes() throws -> Int64 {
    try execute("PRAGMA wal_checkpoint(TRUNCATE)")
    let pages = try number("PRAGMA page_count") - number("PRAGMA freelist_count")
    return try pages * number("PRAGMA page_size")
  }

  /// A prepared statement.
  @safe final class Statement {
    private let database: Database
    private var handle: OpaquePointer?

    /// Prepares `sql`.
    init(_ database: Database, _ sql: String) throws {
      self.database = database
      try database.check(unsafe sqlite3_prepare_v2(database.handle, sql, -1, &handle, nil))
    }

    deinit { unsafe sqlite3_finalize(handle) }

    /// Runs it with one text, or none.
    func run(_ text: String? = nil) throws {
      defer { unsafe sqlite3_reset(handle) }
      guard var text else { return try database.check(unsafe sqlite3_step(handle)) }
      let code = text.withUTF8 { bytes in
        // The text outlives the step, so SQLite need not copy it.
        let code = unsafe bytes.withMemoryRebound(to: CChar.self) { bytes in
          unsafe sqlite3_bind_text(handle, 1, bytes.baseAddress, Int32(bytes.count), nil)
        }
        return code == SQLITE_OK ? unsafe sqlite3_step(handle) : code
      }
      try database.check(code)
    }

    /// Runs it and returns its first column.
    func number() throws -> Int64 {
      defer { unsafe sqlite3_reset(handle) }
      try database.check(unsafe sqlite3_step(handle))
      return unsafe sqlite3_column_int64(handle, 0)
    }
  }
}
