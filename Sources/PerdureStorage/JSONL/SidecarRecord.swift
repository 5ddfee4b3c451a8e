import PerdureModel
import PerdureValue

/// One line of a sidecar; it counts once a marker with its sequence number names its ordinal.
struct SidecarRecord {
  enum Payload {
    case task(TaskRecord)
    case document(DocumentID, DocumentContent)
  }

  let sequence: Int64
  /// Its place among all sidecar records of its commit.
  let ordinal: Int64
  let payload: Payload

  init(sequence: Int64, ordinal: Int64, payload: Payload) {
    self.sequence = sequence
    self.ordinal = ordinal
    self.payload = payload
  }

  init(json: JSON) throws {
    let reader = try RecordReader(json, "sidecar record")
    guard try reader.string("type") == "record" else { throw reader.fail("type", "'record'") }
    sequence = try reader.sequence()
    ordinal = try reader.ordinal()
    let payload = try reader.reader("payload")
    switch try payload.string("type") {
    case "task":
      guard let value = payload.optional("value") else { throw payload.fail("value", "present") }
      let record = try TaskRecord(json: value)
      guard record.isLive else { throw payload.fail("value", "a live task") }
      self.payload = .task(record)
    case "document":
      let content = try DocumentContent(reader: try payload.reader("content"))
      self.payload = .document(try payload.id("id"), content)
    default: throw payload.fail("type", "'task' or 'document'")
    }
  }

  var sidecar: Sidecar {
    switch payload {
    case .task(let record): .task(record.id)
    case .document(let id, _): .document(id)
    }
  }

  var json: JSON {
    let payload: JSON =
      switch payload {
      case .task(let record): ["type": "task", "value": record.json]
      case .document(let id, let content):
        ["type": "document", "id": id.json, "content": content.json]
      }
    return [
      "format": 1, "type": "record", "seq": .int(sequence), "ordinal": .int(ordinal),
      "payload": payload,
    ]
  }
}

extension DocumentContent {
  fileprivate init(reader: RecordReader) throws {
    let version = try reader.int("version")
    guard version >= 1 else { throw reader.fail("version", "a number from 1") }
    switch try reader.string("kind") {
    case "base":
      guard let value = reader.optional("value") else { throw reader.fail("value", "present") }
      self = .base(version: version, value: value)
    case "delta":
      do {
        self = .delta(
          version: version,
          operations: try Operation.batch(json: .array(try reader.array("ops")))
        )
      } catch let error as OperationError {
        throw PerdureError(.storeCorrupt, "an operation cannot be read", cause: "\(error)")
      }
    default: throw reader.fail("kind", "'base' or 'delta'")
    }
  }

  fileprivate var json: JSON {
    switch self {
    case .base(let version, let value):
      ["kind": "base", "version": .int(version), "value": value]
    case .delta(let version, let operations):
      ["kind": "delta", "version": .int(version), "ops": .array(operations.map { $0.json })]
    }
  }
}
