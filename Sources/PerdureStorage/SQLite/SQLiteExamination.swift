package import PerdureModel
import PerdureValue

extension SQLiteStorage {
  /// Reports what is damaged in the database, and says whether its records can be read at all.
  package func examine(_ report: @escaping FindingSink) async throws {
    try await inspect { try SQLiteExamination($0, report).run() }
  }

  /// Reports what is damaged in a database that cannot be opened as a store because tables are
  /// missing.
  package static func examineTables(path: String, _ report: @escaping FindingSink) async throws {
    let path = StorePath.resolved(path)
    let thread = try StoreThread<SQLiteStore>()
    do {
      try await thread.perform {
        let hasLog = StorePath.exists(path + "-wal")
        let connection = try Connection(path: path, mode: hasLog ? .readOnly : .immutable)
        defer { connection.close() }
        connection.setBusyTimeout(milliseconds: 5_000)
        try connection.beginReading()
        try SQLiteExamination(connection, report).run()
      }
      await thread.stop()
    } catch {
      await thread.stop()
      throw error
    }
  }
}

/// Finds damage in the tables of a store: what SQLite finds, and rows that contradict each other.
struct SQLiteExamination {
  private let connection: Connection
  private let rows: StoreRows
  private let report: FindingSink
  private static let pageSize = 256

  init(_ connection: Connection, _ report: @escaping FindingSink) {
    self.connection = connection
    self.report = report
    rows = StoreRows(connection)
  }

  func run() throws {
    try database()
    let sound = try tables()
    for section in StoreSection.allCases where section != .extra {
      let table = StoreRows.table(section)
      guard sound.contains(table) else { continue }
      try attempt(table) {
        try section == .revision ? revisions() : records(of: section)
      }
      guard section != .revision, sound.contains("record_ids") else { continue }
      try attempt("record_ids") { try ids(of: section) }
    }
    if sound.contains("perdure_extras") { try attempt("perdure_extras") { try extras() } }
    if sound.isSuperset(of: Schema.tables) { try attempt("durable_metadata") { try counters() } }
  }

  /// Goes on with the next part of the examination after an error in one.
  private func attempt(_ object: String, _ body: () throws -> Void) throws {
    do {
      try body()
    } catch let error as PerdureError where error.code == .storeCorrupt {
      find("unreadable", "table \(object)", "it cannot be read to its end (\(cause(error)))")
    }
  }

  private func cause(_ error: PerdureError) -> String { error.cause ?? error.message }

  private func find(_ code: String, _ object: String, _ message: String) {
    report(StoreFinding(code, object, message))
  }

  // MARK: The database

  private func database() throws {
    try attempt("sqlite_master") {
      let lines = try connection.rows("PRAGMA integrity_check(100)") { $0.string(0) }
      for line in lines where line != "ok" {
        find("database", "the database file", line.split(separator: "\n").joined(separator: " "))
      }
    }
  }

  /// Returns the tables that have their columns.
  private func tables() throws -> Set<String> {
    let names = try connection.rows(
      "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    ) { $0.string(0) }
    var sound: Set<String> = []
    let known = Schema.tables + ["durable_schema", "perdure_extras"]
    for name in names where !known.contains(name) {
      let message = "it is no table of a store, and is left alone"
      report(StoreFinding("foreign_table", "table \(name)", message, isDamage: false))
    }
    for name in Schema.tables where !names.contains(name) {
      find("missing_table", "table \(name)", "it is missing")
    }
    for name in known where names.contains(name) {
      let found = try connection.rows("PRAGMA table_info(\(name))") { $0.string(1) }
      let missing = Self.columns(of: name).filter { !found.contains($0) }
      if missing.isEmpty { sound.insert(name) }
      for column in missing {
        find("missing_column", "table \(name)", "it has no column \(column)")
      }
    }
    return sound
  }

  private static func columns(of table: String) -> [String] {
    switch table {
    case "durable_metadata": return ["next_id", "next_seq"]
    case "record_ids": return ["id", "record_type"]
    case "document_revisions": return ["document_id", "seq", "kind", "version", "content"]
    case "perdure_extras": return ["scope", "id", "value"]
    case "durable_schema": return ["singleton", "version"]
    default:
      let section = StoreSection.allCases.first { StoreRows.table($0) == table }
      return ["id", "record"] + (section.map { RecordRow.columnNames($0) } ?? [])
    }
  }

  // MARK: Records

  private struct StoredRow {
    let id: Int64
    let record: [UInt8]
    let columns: [SQLValue]
  }

  private func records(of section: StoreSection) throws {
    let names = RecordRow.columnNames(section)
    let list = names.map { "\($0), typeof(\($0))" }.joined(separator: ", ")
    let sql = """
      SELECT id, record, \(list) FROM \(StoreRows.table(section)) WHERE id > ? ORDER BY id LIMIT ?
      """
    var after = Int64.min
    while true {
      let page = try connection.rows(sql, [.int(after), .int(Int64(Self.pageSize))]) { row in
        StoredRow(
          id: row.int(0),
          record: row.bytes(1),
          columns: names.indices.map { value(of: row, Int32(2 + 2 * $0)) }
        )
      }
      for row in page { check(row, section, names) }
      guard let last = page.last, page.count == Self.pageSize else { return }
      after = last.id
    }
  }

  private func value(of row: Row, _ column: Int32) -> SQLValue {
    switch row.string(column + 1) {
    case "null": .null
    case "integer": .int(row.int(column))
    default: .text(row.bytes(column))
    }
  }

  private func check(_ row: StoredRow, _ section: StoreSection, _ names: [String]) {
    let object = "\(section.rawValue) \(row.id)"
    if row.id < 1 || row.id > EntryID.greatest {
      find("id_range", object, "its id lies outside 1 … 2^53 − 1")
    }
    var sequence: Int64 = 0
    if section == .entry, case .int(let value)? = row.columns.last { sequence = value }
    let expected: RecordRow?
    do {
      expected = RecordRow(try rows.record(section, row.record, sequence))
    } catch {
      let message = (error as? PerdureError).map { "\($0.cause ?? $0.message)" } ?? "\(error)"
      return find("unreadable", object, "its record cannot be read (\(message))")
    }
    guard let expected else { return }
    if expected.id != row.id {
      find("column", object, "its record has the id \(expected.id)")
    }
    for ((name, wanted), found) in zip(expected.columns, row.columns) {
      if isSame(found, wanted) { continue }
      find(
        "column",
        object,
        "its column \(name) is \(text(found)), and its record says \(text(wanted))"
      )
    }
  }

  /// Other programs write identities without escapes.
  private func isSame(_ found: SQLValue, _ wanted: SQLValue) -> Bool {
    switch (found, wanted) {
    case (.null, .null): return true
    case (.int(let left), .int(let right)): return left == right
    case (.text(let left), .text(let right)):
      if left == right { return true }
      guard let left = try? JSON(parsing: left), left.string != nil else { return false }
      return left == (try? JSON(parsing: right))
    default: return false
    }
  }

  private func text(_ value: SQLValue) -> String {
    switch value {
    case .null: "absent"
    case .int(let value): String(value)
    case .real(let value): String(value)
    case .text(let bytes), .blob(let bytes): String(decoding: bytes, as: UTF8.self)
    }
  }

  private func ids(of section: StoreSection) throws {
    let (table, type) = (StoreRows.table(section), section.rawValue)
    try each(
      """
      SELECT t.id FROM \(table) t WHERE t.id > ? AND NOT EXISTS
        (SELECT 1 FROM record_ids r WHERE r.id = t.id AND r.record_type = '\(type)')
      ORDER BY t.id LIMIT \(Self.pageSize)
      """
    ) { find("id_unlisted", "\(type) \($0)", "record_ids does not list it as a \(type)") }
    try each(
      """
      SELECT r.id FROM record_ids r WHERE r.id > ? AND r.record_type = '\(type)' AND NOT EXISTS
        (SELECT 1 FROM \(table) t WHERE t.id = r.id)
      ORDER BY r.id LIMIT \(Self.pageSize)
      """
    ) { find("record_missing", "\(type) \($0)", "record_ids lists it, and it is not there") }
  }

  private func each(_ sql: String, _ body: (Int64) -> Void) throws {
    var after = Int64.min
    while true {
      let page = try connection.rows(sql, [.int(after)]) { $0.int(0) }
      for id in page { body(id) }
      guard let last = page.last, page.count == Self.pageSize else { return }
      after = last
    }
  }

  private func extras() throws {
    let sql = "SELECT scope, id FROM perdure_extras WHERE NOT json_valid(value) LIMIT 1000"
    for (scope, id) in try connection.rows(sql, [], { ($0.string(0), $0.int(1)) }) {
      find("unreadable", "extra \(scope) \(id)", "its value is not JSON")
    }
  }

  // MARK: Documents

  private func revisions() throws {
    var examination = RevisionExamination(report)
    var after = StorePlace(.revision, id: Int64.min, sequence: Int64.min)
    let sql = """
      SELECT r.document_id, r.seq, r.kind, r.version, r.content, d.id IS NULL
      FROM document_revisions r LEFT JOIN documents d ON d.id = r.document_id
      WHERE (r.document_id, r.seq) > (?, ?) ORDER BY r.document_id, r.seq LIMIT ?
      """
    while true {
      let page = try connection.rows(
        sql,
        [.int(after.id), .int(after.sequence), .int(Int64(Self.pageSize))]
      ) { row in
        let place = StorePlace(.revision, id: row.int(0), sequence: row.int(1))
        examination.add(place, isOrphan: row.int(5) == 1) {
          try rows.content(row.string(2), version: row.int(3), row.bytes(4))
        }
        return place
      }
      guard let last = page.last, page.count == Self.pageSize else { break }
      after = last
    }
    try each(
      """
      SELECT d.id FROM documents d WHERE d.id > ? AND NOT EXISTS
        (SELECT 1 FROM document_revisions r WHERE r.document_id = d.id)
      AND (d.retired_at IS NULL OR json_extract(d.record, '$.history') = 'rewindable')
      ORDER BY d.id LIMIT \(Self.pageSize)
      """
    ) { find("no_base", "document \($0)", "it has no revision at all") }
  }

  // MARK: Counters

  private func counters() throws {
    let row = try connection.first(
      "SELECT next_id, next_seq FROM durable_metadata WHERE singleton = 1"
    ) { ($0.string(0), $0.int(1)) }
    guard let (text, nextSequence) = row, let nextId = Int64(text), nextId >= 2,
      nextId <= EntryID.greatest + 1, (1...EntryID.greatest).contains(nextSequence)
    else { return find("counters", "the counters", "they cannot be read") }
    var greatest: Int64 = 0
    for table in Schema.tables.dropFirst() where table != "document_revisions" {
      greatest = max(greatest, try maximum("id", table))
    }
    if nextId <= greatest {
      find("counters", "next_id", "it is \(nextId), and the id \(greatest) is in use")
    }
    if nextId > EntryID.greatest {
      find("ids_exhausted", "next_id", "no further id can be given out")
    }
    var newest: Int64 = 0
    for (column, table) in [
      ("commit_seq", "entries"), ("created_at", "documents"), ("retired_at", "documents"),
      ("seq", "document_revisions"),
    ] {
      newest = max(newest, try maximum(column, table))
    }
    if nextSequence <= newest {
      find("counters", "next_seq", "it is \(nextSequence), and the commit \(newest) is stored")
    }
  }

  private func maximum(_ column: String, _ table: String) throws -> Int64 {
    try connection.first("SELECT max(\(column)) FROM \(table)") { $0.int(0) } ?? 0
  }
}

/// Replays the revisions of one document after another.
private struct RevisionExamination {
  private let report: FindingSink
  private var document: Int64?
  private var version: Int64 = 0
  /// Absent after a finding, until the next base.
  private var value: JSON?

  init(_ report: @escaping FindingSink) { self.report = report }

  mutating func add(
    _ place: StorePlace,
    isOrphan: Bool,
    _ content: () throws -> DocumentContent
  ) {
    let object = "document \(place.id)"
    func find(_ code: String, _ message: String) {
      report(StoreFinding(code, object, "its revision \(place.sequence) \(message)"))
    }
    let isFirst = document != place.id
    if isFirst {
      (document, version, value) = (place.id, 0, nil)
      if isOrphan { find("orphan_revision", "belongs to no document") }
    }
    do {
      switch try content() {
      case .base(let version, let base): (self.version, value) = (version, base)
      case .delta(let version, let operations):
        if isFirst { return find("no_base", "is a change of nothing: no base comes before it") }
        guard var next = value else { return }
        value = nil
        guard version == self.version else {
          return find("version_crossed", "changes version \(self.version) as version \(version)")
        }
        for operation in operations { try next.apply(operation) }
        value = next
      }
    } catch {
      value = nil
      let cause = (error as? PerdureError).map { $0.cause ?? $0.message } ?? "\(error)"
      find("unreadable", "cannot be read or applied (\(cause))")
    }
  }
}
