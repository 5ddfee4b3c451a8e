package import PerdureModel
import PerdureValue

/// How much of a commit survives the loss of power.
package enum Durability: String, Sendable, CaseIterable {
  /// All of it: every flush waits for the disk.
  case full
  /// The newest flushes may be lost, but never a part of one; a crash of the process loses nothing.
  case normal
}

/// An open SQLite store, for the one thread that uses it.
package final class SQLiteStore: BlockingStore {
  let connection: Database
  let isReadOnly: Bool
  private(set) var hasExtras = false
  var known = KnownRecords()
  private var pagesPerCheckpoint = Int.max
  private var nextCheckpoint = Int.max

  /// How many bytes are gathered in the write-ahead log before they go into the database.
  ///
  /// A checkpoint costs two waits for the disk and writes each changed page once more, so it pays
  /// to let many commits share one.
  private static let checkpointBytes: Int64 = 2 << 20
  private static let pageSize: Int64 = 1_024

  // Held as long as the store is open.
  private var lock: StoreLock?

  /// Opens the store in a file, which may be empty.
  package init(
    path: String,
    durability: Durability,
    busyMilliseconds: Int32 = 5_000,
    vfs: String? = nil,
    lock: StoreLock? = nil
  ) throws {
    self.lock = lock
    // What it gathers is on disk before others look for it only if every commit waits for the disk.
    let way = durability == .full ? Connection.gatheringVFS(on: vfs) : vfs
    connection = .own(try Connection(path: path, vfs: way))
    isReadOnly = false
    do {
      connection.setBusyTimeout(milliseconds: busyMilliseconds)
      try prepare(durability)
    } catch {
      connection.close()
      throw error
    }
  }

  /// Opens the store in the tables of an application's database whose names begin with `prefix`.
  ///
  /// How that database keeps its log and waits for the disk is for the application to say.
  package init(on application: any SQLConnection, prefix: String) throws {
    let shared = try SharedConnection(application, prefix: prefix)
    lock = try shared.lock()
    connection = .shared(shared)
    isReadOnly = false
    let names = try objectNames()
    if try storedVersion(names) != Schema.version || !isComplete(names) {
      try connection.transaction { try complete() }
    } else {
      try checkTables(names)
    }
    hasExtras = true
  }

  /// Opens a store that may belong to another process, and leaves every file as it is.
  package init(reading path: String, hasLog: Bool) throws {
    connection = .own(try Connection(path: path, mode: hasLog ? .readOnly : .immutable))
    isReadOnly = true
    do {
      connection.setBusyTimeout(milliseconds: 5_000)
      let names = try objectNames()
      guard try storedVersion(names) != nil else { throw notAStore }
      try checkTables(names)
      hasExtras = names.contains("perdure_extras")
    } catch {
      connection.close()
      throw error
    }
  }

  /// Moves the log into the database and closes both; a failure of it is found at the next opening.
  package func close() {
    if !isReadOnly { try? connection.checkpoint(truncating: true) }
    connection.close()
    lock = nil
  }

  // MARK: Opening

  private func prepare(_ durability: Durability) throws {
    // SQLite opens a file that may not be written for reading, without a word.
    if connection.isReadOnly { throw readOnly }
    let names = try objectNames()
    let version = try storedVersion(names)
    if version == nil {
      guard names.isEmpty else { throw notAStore }
      try connection.execute("PRAGMA page_size = \(Self.pageSize)")
    }
    let mode = try connection.first("PRAGMA journal_mode = WAL") { $0.string(0) }
    guard mode == "wal" else {
      throw PerdureError(
        .storeUnwritable,
        "the file system of \(connection.path) cannot hold a write-ahead log",
        hint: "put the store on a local file system"
      )
    }
    try connection.execute("PRAGMA synchronous = \(durability == .full ? "FULL" : "NORMAL")")
    // Debian zeroes deleted pages, which would write more than what was deleted.
    _ = try connection.rows("PRAGMA secure_delete = FAST") { _ in }
    // The checks of pi-durable's tables parse each record again and build a table for each list of
    // names; what we write is printed from values, so they could find nothing.
    try connection.execute("PRAGMA ignore_check_constraints = ON")
    if version != Schema.version || !isComplete(names) {
      try connection.transaction { try complete() }
    } else {
      try checkTables(names)
    }
    hasExtras = true
    let pageSize = try connection.first("PRAGMA page_size") { $0.int(0) } ?? Self.pageSize
    pagesPerCheckpoint = max(Int(Self.checkpointBytes / max(pageSize, 512)), 1)
    nextCheckpoint = pagesPerCheckpoint
  }

  private func isComplete(_ names: Set<String>) -> Bool {
    names.contains("perdure_extras")
      && Schema.indexes.allSatisfy { names.contains($0.name) || names.contains($0.standIn) }
  }

  /// Creates, migrates and adds what is absent; runs in a transaction, so it looks again.
  private func complete() throws {
    switch try storedVersion(try objectNames()) {
    case nil: for sql in Schema.creation { try connection.execute(sql) }
    case 1: try Schema.migrateFrom1(connection)
    default: break
    }
    let names = try objectNames()
    try checkTables(names)
    if !names.contains("perdure_extras") { try connection.execute(Schema.extras) }
    for index in Schema.indexes
    where !names.contains(index.name) && !names.contains(index.standIn) {
      try connection.execute("CREATE INDEX \(index.name) ON \(index.columns)")
    }
  }

  private func objectNames() throws -> Set<String> {
    let names = Set(try connection.rows("SELECT name FROM sqlite_master") { $0.string(0) })
    return connection.ownNames(among: names)
  }

  /// The schema version, or `nil` in an empty file.
  private func storedVersion(_ names: Set<String>) throws -> Int64? {
    guard names.contains("durable_schema") else {
      if names.isEmpty { return nil }
      throw connection.takenNames(names) ?? notAStore
    }
    let found = try connection.first("SELECT version FROM durable_schema WHERE singleton = 1") {
      $0.int(0)
    }
    guard let found, found > 0 else { throw notAStore }
    guard found <= Schema.version else {
      throw PerdureError(
        .storeUnreadable,
        "the store \(connection.path) is from a newer version (schema \(found), known is 2)",
        hint: "open it with a newer perdure"
      )
    }
    return found
  }

  private func checkTables(_ names: Set<String>) throws {
    for table in Schema.tables where !names.contains(table) {
      throw PerdureError(
        .storeCorrupt,
        "the store \(connection.path) has no table \(table)",
        hint: "restore it from a copy"
      )
    }
  }

  private var notAStore: PerdureError {
    PerdureError(
      .storeUnreadable,
      "\(connection.path) is not a store",
      hint: "choose another path for the store",
      cause: "it has no table durable_schema"
    )
  }

  private var readOnly: PerdureError {
    PerdureError(
      .storeUnwritable,
      "the store \(connection.path) is read-only",
      hint: "make the file and its folder writable, or choose another path"
    )
  }

  // MARK: Upkeep

  /// Moves the log into the database once it is long; called when the caller has its answer.
  func afterCall() {
    let pages = connection.logPages
    // The log has started anew after a checkpoint.
    if pages < nextCheckpoint - pagesPerCheckpoint { nextCheckpoint = pagesPerCheckpoint }
    guard pages >= nextCheckpoint else { return }
    // A reader may hold a part of the log, or the disk may be full: the log keeps everything until
    // a later checkpoint succeeds.
    try? connection.checkpoint(truncating: false)
    nextCheckpoint = pages + pagesPerCheckpoint
  }

  /// The counters, or why they cannot be read.
  func counters() throws -> StoreCounters {
    let row = try connection.first(
      "SELECT next_id, next_seq FROM durable_metadata WHERE singleton = 1"
    ) { (id: Int64($0.string(0)), sequence: $0.int(1)) }
    // Sequences share the range of ids: both are numbers of JSON for other programs.
    guard let row, let id = row.id, id >= 2, id <= EntryID.greatest + 1,
      (1...EntryID.greatest).contains(row.sequence)
    else { throw corrupt("has no readable counters") }
    return StoreCounters(nextSequence: row.sequence, nextId: id)
  }

  func corrupt(_ what: String, cause: String? = nil) -> PerdureError {
    PerdureError(
      .storeCorrupt,
      "the store \(connection.path) \(what)",
      hint: "restore it from a copy",
      cause: cause
    )
  }
}
