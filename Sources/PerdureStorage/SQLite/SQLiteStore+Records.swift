import PerdureModel
import PerdureValue

/// A record with a table of its own, in which it is JSON beside its id.
protocol TableRecord {
  static var type: RecordType { get }
  var number: Int64 { get }
  init(json: JSON) throws
}

extension ConversationRecord: TableRecord {
  static var type: RecordType { .conversation }
  var number: Int64 { id.value }
}

extension EntryRecord: TableRecord {
  static var type: RecordType { .entry }
  var number: Int64 { id.value }
}

extension TaskRecord: TableRecord {
  static var type: RecordType { .task }
  var number: Int64 { id.value }
}

extension SubmissionRecord: TableRecord {
  static var type: RecordType { .submission }
  var number: Int64 { id.value }
}

extension DocumentRecord: TableRecord {
  static var type: RecordType { .document }
  var number: Int64 { id.value }
}

extension SQLiteStore {
  /// Returns the record of a row that begins with `record, id`.
  ///
  /// One that cannot be read is named in the error: the rest of the store is read without it.
  func record<Record: TableRecord>(_ row: Row) throws -> Record {
    do {
      let record = try Record(json: try JSON(parsing: row.bytes(0)))
      guard record.number == row.int(1) else {
        throw PerdureError(.storeCorrupt, "the record has the id \(record.number)")
      }
      return record
    } catch {
      let type = Record.type.rawValue
      throw damaged(
        "\(type) \(row.int(1))",
        error,
        details: ["type": .string(type), "id": .int(row.int(1))]
      )
    }
  }

  /// Returns the JSON of a column; `name` says what it is.
  func json(_ bytes: [UInt8], _ name: @autoclosure () -> String) throws -> JSON {
    do {
      return try JSON(parsing: bytes)
    } catch {
      throw damaged(name(), error)
    }
  }

  /// The error for one object of the store that cannot be read.
  func damaged(_ object: String, _ error: any Error, details: JSON? = nil) -> PerdureError {
    let cause = (error as? PerdureError).map { JSONLErrors.cause($0) } ?? "not JSON: \(error)"
    return PerdureError(
      .storeCorrupt,
      "the store \(connection.path) is damaged in \(object)",
      hint: "restore it from a copy; everything else in it can still be read",
      details: details,
      cause: cause
    )
  }
}
