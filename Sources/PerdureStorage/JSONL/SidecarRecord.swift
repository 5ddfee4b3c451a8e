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
      guard let content = payload.optional("content") else {
        throw payload.fail("content", "present")
      }
      self.payload = .document(try payload.id("id"), try DocumentContent(json: content))
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
