import PerdureModel
import PerdureValue

/// One queued submission, as `pi.inbox` holds it.
struct InboxItem: Sendable {
  /// What is to be placed.
  enum Content: Sendable {
    case write(EntryDraft)
    case steer(JSON, InputEntry?)
    case followUp(JSON, InputEntry?)
  }

  var id: SubmissionID
  var content: Content

  init(id: SubmissionID, _ draft: SubmissionDraft) {
    self.id = id
    content =
      switch draft {
      case .write(let entry): .write(entry)
      case .input(let content, .steer, let entry): .steer(content, entry)
      case .input(let content, _, let entry): .followUp(content, entry)
      }
  }

  init(json: JSON) throws {
    let reader = try RecordReader(json, "inbox item")
    id = try reader.id("id")
    let mode = try reader.string("mode")
    if mode == "write" {
      content = .write(try EntryDraft(json: reader.optional("entry") ?? .null))
      return
    }
    guard let input = reader.optional("content") else { throw reader.fail("content", "present") }
    let entry = try reader.optional("entry").map { try InputEntry(json: $0) }
    switch mode {
    case "steer": content = .steer(input, entry)
    case "followUp": content = .followUp(input, entry)
    default: throw reader.fail("mode", "'write', 'steer' or 'followUp'")
    }
  }

  var json: JSON {
    var object: JSONObject = ["id": id.json]
    switch content {
    case .write(let draft):
      object["mode"] = "write"
      object["entry"] = draft.json
    case .steer(let input, let entry):
      object["mode"] = "steer"
      object["content"] = input
      if let entry { object["entry"] = entry.json }
    case .followUp(let input, let entry):
      object["mode"] = "followUp"
      object["content"] = input
      if let entry { object["entry"] = entry.json }
    }
    return .object(object)
  }

  /// The entry of a write.
  var write: EntryDraft? {
    if case .write(let draft) = content { return draft }
    return nil
  }

  /// Whether it starts the active context anew.
  var isReset: Bool { write?.head == .itself }

  var isSteer: Bool {
    if case .steer = content { return true }
    return false
  }

  var isFollowUp: Bool {
    if case .followUp = content { return true }
    return false
  }
}
