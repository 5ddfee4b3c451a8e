import CPerdureSQLite
import CSQLite
package import PerdureModel

/// One row of a result, valid while the closure that gets it runs.
@safe package struct Row {
  @safe private enum Source {
    case statement(OpaquePointer)
    case values([SQLValue])
  }

  private let source: Source

  fileprivate init(statement: OpaquePointer) { source = unsafe .statement(statement) }

  /// Makes a row of values that were read before.
  init(values: [SQLValue]) { source = .values(values) }

  /// The integer in this column; 0 for null.
  package func int(_ column: Int32) -> Int64 {
    switch source {
    case .statement(let statement): return unsafe sqlite3_column_int64(statement, column)
    case .values(let values):
      guard values.indices.contains(Int(column)) else { return 0 }
      switch values[Int(column)] {
      case .int(let value): return value
      case .null, .real, .text, .blob: return 0
      }
    }
  }

  /// The bytes of the text in this column; empty for null.
  package func bytes(_ column: Int32) -> [UInt8] {
    switch source {
    case .statement(let statement):
      guard let start = unsafe sqlite3_column_text(statement, column) else { return [] }
      let count = unsafe Int(sqlite3_column_bytes(statement, column))
      return unsafe Array(UnsafeBufferPointer(start: start, count: count))
    case .values(let values):
      guard values.indices.contains(Int(column)) else { return [] }
      switch values[Int(column)] {
      case .null: return []
      case .int(let value): return Array(String(value).utf8)
      case .real(let value): return Array(String(value).utf8)
      case .text(let bytes), .blob(let bytes): return bytes
      }
    }
  }

  /// The text in this column.
  package func string(_ column: Int32) -> String { String(decoding: bytes(column), as: UTF8.self) }
}

/// A connection to a SQLite database, with its prepared statements.
///
/// It belongs to one thread at a time.
@safe package final class Connection {
  /// Whether, and how, a file is opened.
  package enum Mode: Sendable {
    case readWrite
    /// Reads, and leaves every file as it is.
    case readOnly
    /// Reads a file that nobody writes, without looking for a write-ahead log.
    case immutable
  }

  /// The file, for error messages.
  package let path: String
  private var handle: OpaquePointer?
  private var statements: [String: OpaquePointer] = unsafe [:]
  /// Written by SQLite's callback on the thread that commits.
  private let logLength = UnsafeMutablePointer<Int32>.allocate(capacity: 1)

  /// Opens a file, which must exist; `vfs` names another way to the disk than SQLite's usual one.
  package init(path: String, mode: Mode = .readWrite, vfs: String? = nil) throws {
    self.path = path
    unsafe logLength.initialize(to: 0)
    var flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
    var name = path
    switch mode {
    case .readWrite: flags |= SQLITE_OPEN_READWRITE
    case .readOnly, .immutable:
      flags |= SQLITE_OPEN_READONLY | SQLITE_OPEN_URI
      let option = mode == .readOnly ? "mode=ro&readonly_shm=1" : "mode=ro&immutable=1"
      name = "file:\(Self.uriPath(path))?\(option)"
    }
    let code = unsafe sqlite3_open_v2(name, &handle, flags, vfs)
    if code != SQLITE_OK {
      let error = failure(code)
      close()
      throw error
    }
    // Taking SQLite's only hook for it also switches its own checkpoints off.
    unsafe sqlite3_wal_hook(
      handle,
      { length, _, _, pages in
        unsafe length?.assumingMemoryBound(to: Int32.self).pointee = pages
        return SQLITE_OK
      },
      logLength
    )
  }

  /// The name of a way to the disk that writes the log with one call a commit, on top of `vfs`.
  ///
  /// It is `vfs` itself if there is no such way.
  package static func gatheringVFS(on vfs: String?) -> String? {
    unsafe perdure_gathering_vfs(vfs).map { unsafe String(cString: $0) } ?? vfs
  }

  deinit {
    close()
    unsafe logLength.deallocate()
  }

  /// Closes the database; later calls fail.
  package func close() {
    while let (sql, statement) = unsafe statements.first {
      unsafe sqlite3_finalize(statement)
      unsafe statements[sql] = nil
    }
    unsafe sqlite3_close_v2(handle)
    unsafe handle = nil
  }

  /// Runs statements that have no parameters.
  package func execute(_ sql: String) throws {
    let code = unsafe sqlite3_exec(handle, sql, nil, nil, nil)
    if code != SQLITE_OK { throw failure(code) }
  }

  /// Runs one statement; its text is the key of the cache of prepared statements.
  package func run(_ sql: String, _ values: [SQLValue] = []) throws {
    _ = try rows(sql, values) { _ in }
  }

  /// Returns what `body` makes of every row.
  package func rows<Value>(
    _ sql: String,
    _ values: [SQLValue] = [],
    _ body: (Row) throws -> Value
  ) throws -> [Value] {
    let statement = try unsafe prepared(sql)
    defer {
      unsafe sqlite3_reset(statement)
      unsafe sqlite3_clear_bindings(statement)
    }
    for (index, value) in values.enumerated() {
      try unsafe bind(value, to: Int32(index + 1), of: statement)
    }
    var result: [Value] = []
    while true {
      let code = unsafe sqlite3_step(statement)
      switch code {
      case SQLITE_ROW: result.append(try body(unsafe Row(statement: statement)))
      case SQLITE_DONE: return result
      default: throw failure(code)
      }
    }
  }

  /// Returns what `body` makes of the first row, or `nil` without one.
  package func first<Value>(
    _ sql: String,
    _ values: [SQLValue] = [],
    _ body: (Row) throws -> Value
  ) throws -> Value? {
    try rows(sql, values, body).first
  }

  /// Runs `body` in a transaction; an error in it takes everything back.
  package func transaction<Value>(_ body: () throws -> Value) throws -> Value {
    try run("BEGIN IMMEDIATE")
    do {
      let value = try body()
      try run("COMMIT")
      return value
    } catch {
      // Some failures, such as a full disk, have rolled back already.
      if unsafe sqlite3_get_autocommit(handle) == 0 { try rollBack(after: error) }
      throw error
    }
  }

  private func rollBack(after error: any Error) throws {
    do {
      try run("ROLLBACK")
    } catch let failure {
      throw PerdureError(
        .storageFailed,
        "the store \(path) could not take a failed commit back",
        hint: "open the store again",
        cause: "\(SQLRollbackFailure(transaction: error, rollback: failure))"
      )
    }
  }

  /// The statements that have been prepared so far.
  package var preparedStatements: [String] { unsafe Array(statements.keys) }

  private func prepared(_ sql: String) throws -> OpaquePointer {
    if let statement = unsafe statements[sql] { return unsafe statement }
    var statement: OpaquePointer?
    let code = unsafe sqlite3_prepare_v3(
      handle,
      sql,
      -1,
      UInt32(SQLITE_PREPARE_PERSISTENT),
      &statement,
      nil
    )
    guard code == SQLITE_OK, let statement = unsafe statement else { throw failure(code) }
    unsafe statements[sql] = statement
    return unsafe statement
  }

  private func bind(_ value: SQLValue, to index: Int32, of statement: OpaquePointer) throws {
    let code: Int32
    switch value {
    case .null: code = unsafe sqlite3_bind_null(statement, index)
    case .int(let value): code = unsafe sqlite3_bind_int64(statement, index, value)
    case .real(let value): code = unsafe sqlite3_bind_double(statement, index, value)
    case .text(let bytes): code = unsafe bind(bytes, isText: true, to: index, of: statement)
    case .blob(let bytes): code = unsafe bind(bytes, isText: false, to: index, of: statement)
    }
    if code != SQLITE_OK { throw failure(code) }
  }

  private func bind(
    _ bytes: [UInt8],
    isText: Bool,
    to index: Int32,
    of statement: OpaquePointer
  ) -> Int32 {
    unsafe bytes.withUnsafeBytes { buffer in
      // SQLite copies the bytes: they are ours only within this closure. An empty array has no
      // address, which SQLite would take for null.
      let copies = unsafe unsafeBitCast(-1, to: sqlite3_destructor_type.self)
      guard let start = buffer.baseAddress else {
        return unsafe isText
          ? sqlite3_bind_text(statement, index, "", 0, copies)
          : sqlite3_bind_zeroblob(statement, index, 0)
      }
      let count = UInt64(buffer.count)
      guard isText else {
        return unsafe sqlite3_bind_blob64(statement, index, start, count, copies)
      }
      return unsafe sqlite3_bind_text64(
        statement,
        index,
        start.assumingMemoryBound(to: CChar.self),
        count,
        copies,
        UInt8(SQLITE_UTF8)
      )
    }
  }

  private static func uriPath(_ path: String) -> String {
    var result = ""
    for byte in path.utf8 {
      switch byte {
      // SQLite takes bytes as they come, but a scalar above ASCII would be more than one of them.
      case UInt8(ascii: "%"), UInt8(ascii: "?"), UInt8(ascii: "#"), 0x80...:
        result += "%" + String(byte, radix: 16)
      default: result.unicodeScalars.append(Unicode.Scalar(byte))
      }
    }
    return result
  }
}

// MARK: - The file behind the connection

extension Connection {
  /// Whether the file may not be written.
  package var isReadOnly: Bool { unsafe sqlite3_db_readonly(handle, "main") == 1 }

  /// Whether the path no longer names the file that is open.
  package var hasMoved: Bool {
    var moved: Int32 = 0
    let code = unsafe sqlite3_file_control(handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved)
    return code == SQLITE_OK && moved != 0
  }

  /// How many pages the write-ahead log held after the last commit.
  package var logPages: Int { unsafe Int(logLength.pointee) }

  /// Sets how long to wait for another program.
  package func setBusyTimeout(milliseconds: Int32) {
    unsafe sqlite3_busy_timeout(handle, milliseconds)
  }

  /// Moves what the write-ahead log holds into the database, as far as readers allow.
  package func checkpoint(truncating: Bool) throws {
    let mode = truncating ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE
    let code = unsafe sqlite3_wal_checkpoint_v2(handle, "main", mode, nil, nil)
    if code != SQLITE_OK { throw failure(code) }
  }

  /// Makes an error of a result code and what SQLite remembers about it.
  private func failure(_ code: Int32) -> PerdureError {
    let text = unsafe handle.map { unsafe String(cString: sqlite3_errmsg($0)) }
    let system = unsafe handle.map { unsafe sqlite3_system_errno($0) } ?? 0
    return SQLiteFailure(code: code, text: text ?? "", systemError: system).error(path: path)
  }
}
