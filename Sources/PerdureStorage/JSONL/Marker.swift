import PerdureModel
import PerdureValue

/// The line of `main.jsonl` that makes a commit.
struct Marker {
  enum Write {
    case conversation(ConversationRecord)
    case entry(EntryRecord)
    case submission(SubmissionRecord)
    /// A task that has ended; one that lives stands in its sidecar.
    case task(TaskRecord)
    case taskSidecar(TaskID, ordinal: Int64)
    case createDocument(DocumentRecord, ordinal: Int64)
    case changeDocument(DocumentID, ordinal: Int64)
    case retireDocument(DocumentID)
  }

  let sequence: Int64
  let writes: [Write]
  /// Its line in `main.jsonl`.
  let line: Int

  init(sequence: Int64, writes: [Write], line: Int = 0) {
    self.sequence = sequence
    self.writes = writes
    self.line = line
  }

  init(json: JSON, line: Int) throws {
    let reader = try RecordReader(json, "commit")
    guard try reader.string("type") == "commit" else { throw reader.fail("type", "'commit'") }
    let sequence = try reader.sequence()
    self.sequence = sequence
    writes = try reader.array("writes").map { try Write(json: $0, sequence: sequence) }
    self.line = line
  }

  var json: JSON {
    [
      "format": 1, "type": "commit", "seq": .int(sequence),
      "writes": .array(writes.map { $0.json }),
    ]
  }
}

extension Marker.Write {
  init(json: JSON, sequence: Int64) throws {
    let reader = try RecordReader(json, "write")
    func value() throws -> JSON {
      guard let value = reader.optional("value") else { throw reader.fail("value", "present") }
      return value
    }
    switch try reader.string("type") {
    case "conversation": self = .conversation(try ConversationRecord(json: try value()))
    case "entry": self = .entry(try EntryRecord(json: try value()))
    case "submission": self = .submission(try SubmissionRecord(json: try value()))
    case "task":
      let record = try TaskRecord(json: try value())
      guard !record.isLive else { throw reader.fail("value", "a task that has ended") }
      self = .task(record)
    case "task.sidecar":
      self = .taskSidecar(try reader.id("id"), ordinal: try reader.ordinal())
    case "document.create":
      guard var record = reader.optional("record")?.object else {
        throw reader.fail("record", "an object")
      }
      record["createdAt"] = .int(sequence)
      record["retiredAt"] = nil
      self = .createDocument(
        try DocumentRecord(json: .object(record)),
        ordinal: try reader.ordinal()
      )
    case "document.change":
      self = .changeDocument(try reader.id("id"), ordinal: try reader.ordinal())
    case "document.retire": self = .retireDocument(try reader.id("id"))
    default: throw reader.fail("type", "a known write")
    }
  }

  var json: JSON {
    switch self {
    case .conversation(let record): ["type": "conversation", "value": record.json]
    case .entry(let record): ["type": "entry", "value": record.json]
    case .submission(let record): ["type": "submission", "value": record.json]
    case .task(let record): ["type": "task", "value": record.json]
    case .taskSidecar(let id, let ordinal):
      ["type": "task.sidecar", "id": id.json, "ordinal": .int(ordinal)]
    case .createDocument(let record, let ordinal):
      ["type": "document.create", "record": Self.unstamped(record), "ordinal": .int(ordinal)]
    case .changeDocument(let id, let ordinal):
      ["type": "document.change", "id": id.json, "ordinal": .int(ordinal)]
    case .retireDocument(let id): ["type": "document.retire", "id": id.json]
    }
  }

  /// The sequence number of the commit is the stamp.
  private static func unstamped(_ record: DocumentRecord) -> JSON {
    var object = record.json.object ?? [:]
    object["createdAt"] = nil
    object["retiredAt"] = nil
    return .object(object)
  }
}

extension RecordReader {
  func sequence() throws -> Int64 {
    let value = try int("seq")
    guard (1..<EntryID.greatest).contains(value) else { throw fail("seq", "a sequence number") }
    return value
  }

  func ordinal() throws -> Int64 {
    let value = try int("ordinal")
    guard value >= 0 else { throw fail("ordinal", "a number from 0") }
    return value
  }
}
