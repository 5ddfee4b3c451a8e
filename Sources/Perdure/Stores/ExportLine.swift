import PerdureModel
import PerdureValue

/// One line of an export.
enum ExportLine {
  case header(StoreCounters)
  case part(StorePart)
  case end(counts: [StoreSection: Int], digest: String)

  static let format: JSONString = "perdure-export"
  static let version: Int64 = 1

  /// The line without its end.
  var json: JSON {
    switch self {
    case .header(let counters):
      return [
        "format": .string(Self.format), "version": .int(Self.version),
        "nextId": .int(counters.nextId), "nextSeq": .int(counters.nextSequence),
      ]
    case .part(let part): return Self.json(of: part)
    case .end(let counts, let digest):
      var object = JSONObject()
      for section in StoreSection.allCases {
        object[JSONString(section.rawValue)] = .int(counts[section] ?? 0)
      }
      return ["type": "end", "counts": .object(object), "sha256": .string(digest)]
    }
  }

  private static func json(of part: StorePart) -> JSON {
    let type: JSON = .string(part.section.rawValue)
    switch part {
    case .conversation(let record): return ["type": type, "record": record.json]
    case .entry(let found):
      return ["type": type, "seq": .int(found.commitSequence), "record": found.entry.json]
    case .task(let record): return ["type": type, "record": record.json]
    case .submission(let record): return ["type": type, "record": record.json]
    case .document(let record): return ["type": type, "record": record.json]
    case .revision(let id, let sequence, let content):
      return [
        "type": type, "document": id.json, "seq": .int(sequence), "content": content.json,
      ]
    case .extra(let scope, let id, let value):
      return ["type": type, "scope": .string(scope), "id": .int(id), "value": value]
    }
  }

  /// Reads the first line.
  static func header(_ json: JSON) throws -> StoreCounters {
    guard json["format"]?.string == format else { throw bad("it is no export of a store") }
    guard let version = json["version"]?.int, version >= 1 else { throw bad("it has no version") }
    guard version == Self.version else {
      throw bad("its version is \(version), and this program knows version \(Self.version)")
    }
    guard let nextId = json["nextId"]?.int, (2...EntryID.greatest + 1).contains(nextId) else {
      throw bad("'nextId' is not a number from 2 to 2^53")
    }
    guard let next = json["nextSeq"]?.int, (1...EntryID.greatest).contains(next) else {
      throw bad("'nextSeq' is not a number from 1 to 2^53 − 1")
    }
    return StoreCounters(nextSequence: next, nextId: nextId)
  }

  /// Reads a line behind the first one.
  init(json: JSON) throws {
    let reader = try RecordReader(json, "line")
    let type = try reader.string("type").string
    if type == "end" {
      var counts: [StoreSection: Int] = [:]
      let stored = try reader.reader("counts")
      for section in StoreSection.allCases {
        counts[section] = Int(try stored.int(JSONString(section.rawValue)))
      }
      self = .end(counts: counts, digest: try reader.string("sha256").string)
      return
    }
    guard let section = StoreSection(rawValue: type) else {
      throw Self.bad("its type is '\(type)', which this program does not know")
    }
    self = .part(try Self.part(section, reader))
  }

  private static func part(_ section: StoreSection, _ reader: RecordReader) throws -> StorePart {
    func required(_ key: JSONString) throws -> JSON {
      guard let value = reader.optional(key) else { throw reader.fail(key, "present") }
      return value
    }
    switch section {
    case .conversation: return .conversation(try ConversationRecord(json: try required("record")))
    case .entry:
      let entry = try EntryRecord(json: try required("record"))
      return .entry(EntryLookup(entry: entry, commitSequence: try reader.int("seq")))
    case .task: return .task(try TaskRecord(json: try required("record")))
    case .submission: return .submission(try SubmissionRecord(json: try required("record")))
    case .document: return .document(try DocumentRecord(json: try required("record")))
    case .revision:
      return .revision(
        try reader.id("document"),
        sequence: try reader.int("seq"),
        try DocumentContent(json: try required("content"))
      )
    case .extra:
      let scope = try reader.string("scope")
      guard let value = reader.optional("value") else { throw reader.fail("value", "present") }
      return .extra(scope: scope.string, id: try reader.int("id"), value: value)
    }
  }

  static func bad(_ message: String) -> PerdureError { PerdureError(.invalidInput, message) }
}
