public import PerdureValue

/// A conversation of a store.
public typealias ConversationID = Identifier<ConversationRecord>
/// An entry of a transcript.
public typealias EntryID = Identifier<EntryRecord>
/// A task.
public typealias TaskID = Identifier<TaskRecord>
/// A submission.
public typealias SubmissionID = Identifier<SubmissionRecord>
/// One incarnation of a document.
public typealias DocumentID = Identifier<DocumentRecord>

extension Identifier where Record == ConversationRecord {
  /// The root conversation of every store.
  public static var root: ConversationID { known(1) }
}

extension Identifier {
  /// An id that is in range by construction.
  package static func known(_ value: Int64) -> Identifier {
    guard let id = Identifier(value) else { preconditionFailure("an id is out of range") }
    return id
  }
}

/// Reads the members of a persisted record and says which one is wrong.
package struct RecordReader {
  private static let hint = "the store is damaged; restore it from a copy"

  package let type: String
  package let object: JSONObject

  package init(_ json: JSON, _ type: String) throws {
    guard let object = json.object else {
      throw PerdureError(
        .storeCorrupt,
        "\(type): the record is not an object",
        hint: Self.hint
      )
    }
    self.type = type
    self.object = object
  }

  package func fail(_ key: JSONString, _ wanted: String) -> PerdureError {
    let id = object["id"].map { " \($0.compactText)" } ?? ""
    return PerdureError(
      .storeCorrupt,
      "\(type)\(id): '\(key.string)' is not \(wanted)",
      hint: Self.hint
    )
  }

  package func optional(_ key: JSONString) -> JSON? { object[key] }

  package func id<Record>(_ key: JSONString) throws -> Identifier<Record> {
    guard let id = Identifier<Record>(object[key]) else { throw fail(key, "an id") }
    return id
  }

  package func optionalId<Record>(_ key: JSONString) throws -> Identifier<Record>? {
    guard object[key] != nil else { return nil }
    return try id(key)
  }

  package func string(_ key: JSONString) throws -> JSONString {
    guard let string = object[key]?.string else { throw fail(key, "a string") }
    return string
  }

  package func optionalString(_ key: JSONString) throws -> JSONString? {
    guard object[key] != nil else { return nil }
    return try string(key)
  }

  package func int(_ key: JSONString) throws -> Int64 {
    guard let int = object[key]?.int else { throw fail(key, "an integer") }
    return int
  }

  package func optionalInt(_ key: JSONString) throws -> Int64? {
    guard object[key] != nil else { return nil }
    return try int(key)
  }

  package func bool(_ key: JSONString) throws -> Bool {
    guard let bool = object[key]?.bool else { throw fail(key, "a truth value") }
    return bool
  }

  package func array(_ key: JSONString) throws -> [JSON] {
    guard let array = object[key]?.array else { throw fail(key, "an array") }
    return array
  }

  package func reader(_ key: JSONString) throws -> RecordReader {
    guard let value = object[key] else { throw fail(key, "an object") }
    return try RecordReader(value, "\(type).\(key.string)")
  }
}
