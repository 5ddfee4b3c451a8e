package import PerdureModel
import PerdureValue

extension SQLiteStorage: StoreSnapshot {
  /// Opens the store at `path` for reading as it is at this moment, whoever writes meanwhile.
  ///
  /// The owner can go on, but cannot begin its write-ahead log anew before `close`.
  package static func openSnapshot(path: String) async throws -> SQLiteStorage {
    let storage = try await open(path: path, readOnly: true)
    do {
      try await storage.inspect { try $0.beginReading() }
    } catch {
      await storage.close()
      throw error
    }
    return storage
  }

  package func parts(
    _ section: StoreSection,
    after: StorePlace?,
    limit: Int
  ) async throws -> [StorePart] {
    try await inspect { connection in
      try StoreRows(connection).parts(section, after: after, limit: limit)
    }
  }
}

extension Connection {
  /// Begins a transaction that sees the database as it is now; closing ends it.
  func beginReading() throws {
    try execute("BEGIN")
    // Only the first read fixes what is seen.
    _ = try first("SELECT count(*) FROM sqlite_master") { $0.int(0) }
  }
}

/// The rows of a store as parts.
struct StoreRows {
  private let connection: Connection

  init(_ connection: Connection) { self.connection = connection }

  /// The table of a section.
  static func table(_ section: StoreSection) -> String {
    switch section {
    case .conversation: "conversations"
    case .entry: "entries"
    case .task: "tasks"
    case .submission: "submissions"
    case .document: "documents"
    case .revision: "document_revisions"
    case .extra: "perdure_extras"
    }
  }

  func parts(_ section: StoreSection, after: StorePlace?, limit: Int) throws -> [StorePart] {
    switch section {
    case .conversation, .entry, .task, .submission, .document:
      let sequence = section == .entry ? "commit_seq" : "0"
      return try connection.rows(
        """
        SELECT record, \(sequence), id FROM \(Self.table(section)) WHERE id > ? ORDER BY id LIMIT ?
        """,
        [.int(after?.id ?? Int64.min), .int(Int64(limit))]
      ) { row in
        do {
          return try record(section, try parsed(row.bytes(0), section), row.int(1))
        } catch let error as PerdureError {
          throw damaged("\(section.rawValue) \(row.int(2))", error)
        }
      }
    case .revision: return try revisions(after, limit)
    case .extra: return try extras(after, limit)
    }
  }

  private func record(_ section: StoreSection, _ json: JSON, _ sequence: Int64) throws -> StorePart
  {
    switch section {
    case .conversation: .conversation(try ConversationRecord(json: json))
    case .entry:
      .entry(EntryLookup(entry: try EntryRecord(json: json), commitSequence: sequence))
    case .task: .task(try TaskRecord(json: json))
    case .submission: .submission(try SubmissionRecord(json: json))
    case .document, .revision, .extra: .document(try DocumentRecord(json: json))
    }
  }

  /// Makes the part of one row, given by the bytes of its record.
  func record(_ section: StoreSection, _ bytes: [UInt8], _ sequence: Int64) throws -> StorePart {
    try record(section, try parsed(bytes, section), sequence)
  }

  private func revisions(_ after: StorePlace?, _ limit: Int) throws -> [StorePart] {
    try connection.rows(
      """
      SELECT document_id, seq, kind, version, content FROM document_revisions
      WHERE (document_id, seq) > (?, ?) ORDER BY document_id, seq LIMIT ?
      """,
      [
        .int(after?.id ?? Int64.min), .int(after?.sequence ?? Int64.min), .int(Int64(limit)),
      ]
    ) { row in
      guard let id = DocumentID(row.int(0)) else {
        throw corrupt("holds revisions of a document without an id")
      }
      let content = try content(row.string(2), version: row.int(3), row.bytes(4))
      return .revision(id, sequence: row.int(1), content)
    }
  }

  /// Makes the content of a revision from its columns.
  func content(_ kind: String, version: Int64, _ bytes: [UInt8]) throws -> DocumentContent {
    let value = try parsed(bytes, .revision)
    guard kind == "delta" else { return .base(version: version, value: value) }
    do {
      return .delta(version: version, operations: try Operation.batch(json: value))
    } catch {
      throw corrupt("holds operations that cannot be read", cause: "\(error)")
    }
  }

  private func extras(_ after: StorePlace?, _ limit: Int) throws -> [StorePart] {
    let name = Self.table(.extra)
    let exists = try connection.first("SELECT 1 FROM sqlite_master WHERE name = '\(name)'") {
      $0.int(0)
    }
    guard exists != nil else { return [] }
    let condition = after == nil ? "" : "WHERE (scope, id) > (?, ?) "
    let start: [SQLValue] = after.map { [.string($0.scope), .int($0.id)] } ?? []
    return try connection.rows(
      "SELECT scope, id, value FROM \(name) \(condition)ORDER BY scope, id LIMIT ?",
      start + [.int(Int64(limit))]
    ) { .extra(scope: $0.string(0), id: $0.int(1), value: try parsed($0.bytes(2), .extra)) }
  }

  private func parsed(_ bytes: [UInt8], _ section: StoreSection) throws -> JSON {
    do {
      return try JSON(parsing: bytes)
    } catch {
      throw corrupt("holds a \(section.rawValue) that is not JSON", cause: "\(error)")
    }
  }

  private func damaged(_ row: String, _ error: PerdureError) -> PerdureError {
    PerdureError(
      .storeCorrupt,
      "the store \(connection.path) is damaged in \(row)",
      hint: "'perdure store check' names everything that is damaged",
      cause: error.cause ?? error.message
    )
  }

  private func corrupt(_ what: String, cause: String? = nil) -> PerdureError {
    PerdureError(
      .storeCorrupt,
      "the store \(connection.path) \(what)",
      hint: "'perdure store check' names everything that is damaged",
      cause: cause
    )
  }
}
