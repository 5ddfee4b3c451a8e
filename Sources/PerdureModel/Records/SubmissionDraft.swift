public import PerdureValue

/// What becomes of an input while the conversation has a run.
public enum WhenBusy: String, Sendable, CaseIterable {
  /// It waits for the end of the run.
  case followUp
  /// It joins the run before its next request.
  case steer
  /// It is refused.
  case reject
}

/// The kind and data of the entry as which an input is placed, instead of `pi.user`.
public struct InputEntry: Sendable, Equatable {
  /// A kind of the application's own: not empty, and without the prefix `pi.`.
  public var kind: JSONString
  /// What applications read; never sent to a model.
  public var data: JSON?

  /// Makes the description of an entry.
  public init(kind: JSONString, data: JSON? = nil) {
    self.kind = kind
    self.data = data
  }

  /// Reads the persisted form.
  package init(json: JSON) throws {
    let reader = try RecordReader(json, "input entry")
    kind = try reader.string("kind")
    data = reader.optional("data")
  }

  /// The persisted form.
  package var json: JSON {
    var object: JSONObject = ["kind": .string(kind)]
    if let data { object["data"] = data }
    return .object(object)
  }
}

/// What became of a submission that was to be withdrawn.
public enum Withdrawal: String, Sendable {
  /// It was queued and will not be placed.
  case aborted
  /// It has its entry, so it can only be aborted with its run.
  case alreadyPlaced = "already_placed"
  /// It was done or unanswered before.
  case settled
  /// There is no such submission, or it belongs to another conversation.
  case notFound = "not_found"
}

extension EntryDraft {
  /// Whether it changes nothing of what a model is shown.
  package var isDisplayOnly: Bool { model == nil && head == nil && edits == nil }

  /// Reads the form in which a queued write is stored.
  package init(json: JSON) throws {
    let reader = try RecordReader(json, "entry draft")
    kind = try reader.string("kind")
    if reader.optional("model") != nil { model = try reader.array("model") }
    data = reader.optional("data")
    switch reader.optional("head") {
    case "self": head = .itself
    case nil: head = nil
    default: head = .entry(try reader.id("head"))
    }
    if reader.optional("edits") != nil {
      edits = try reader.array("edits").map { try ContextEdit(json: $0) }
    }
  }

  /// The form in which a queued write is stored.
  package var json: JSON {
    var object: JSONObject = ["kind": .string(kind)]
    if let model { object["model"] = .array(model) }
    if let data { object["data"] = data }
    switch head {
    case .itself: object["head"] = "self"
    case .entry(let id): object["head"] = id.json
    case nil: break
    }
    if let edits { object["edits"] = .array(edits.map { $0.json }) }
    return .object(object)
  }
}
