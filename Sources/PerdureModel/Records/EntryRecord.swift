public import PerdureValue

/// A change that an entry makes to what an earlier one contributes to the context.
public enum ContextEdit: Sendable, Equatable {
  /// The target contributes nothing.
  case omit(EntryID)
  /// The target contributes these messages instead.
  case replace(EntryID, [JSON])

  /// The target contributes these messages instead.
  public static func replace(_ target: EntryID, with messages: [JSON]) -> ContextEdit {
    .replace(target, messages)
  }

  /// The entry that is edited.
  public var target: EntryID {
    switch self {
    case .omit(let target), .replace(let target, _): target
    }
  }

  init(json: JSON) throws {
    let reader = try RecordReader(json, "context edit")
    switch try reader.string("action") {
    case "omit": self = .omit(try reader.id("target"))
    case "replace": self = .replace(try reader.id("target"), try reader.array("messages"))
    default: throw reader.fail("action", "'omit' or 'replace'")
    }
  }

  var json: JSON {
    switch self {
    case .omit(let target): ["target": target.json, "action": "omit"]
    case .replace(let target, let messages):
      ["target": target.json, "action": "replace", "messages": .array(messages)]
    }
  }
}

/// One immutable record of a transcript.
public struct EntryRecord: Sendable, Equatable {
  public var id: EntryID
  /// The conversation to which it was appended.
  public var conversationId: ConversationID
  /// What it is; kinds that start with `pi.` are built in.
  public var kind: JSONString
  /// Messages for the model, in their persisted form.
  public var model: [JSON]?
  /// What applications read; never sent to a model.
  public var data: JSON?
  /// The start of the active context, which makes this entry a head marker.
  public var head: EntryID?
  /// Edits of earlier entries.
  public var edits: [ContextEdit]?
  /// The task that appended it.
  public var byTaskId: TaskID?

  /// Makes a record.
  public init(
    id: EntryID,
    conversationId: ConversationID,
    kind: JSONString,
    model: [JSON]? = nil,
    data: JSON? = nil,
    head: EntryID? = nil,
    edits: [ContextEdit]? = nil,
    byTaskId: TaskID? = nil
  ) {
    self.id = id
    self.conversationId = conversationId
    self.kind = kind
    self.model = model
    self.data = data
    self.head = head
    self.edits = edits
    self.byTaskId = byTaskId
  }

  /// Reads the persisted form.
  public init(json: JSON) throws {
    let reader = try RecordReader(json, "entry")
    id = try reader.id("id")
    conversationId = try reader.id("conversationId")
    kind = try reader.string("kind")
    if reader.optional("model") != nil { model = try reader.array("model") }
    data = reader.optional("data")
    head = try reader.optionalId("head")
    if reader.optional("edits") != nil {
      edits = try reader.array("edits").map { try ContextEdit(json: $0) }
    }
    byTaskId = try reader.optionalId("byTaskId")
  }

  /// The persisted form.
  public var json: JSON {
    var object: JSONObject = [
      "id": id.json, "conversationId": conversationId.json, "kind": .string(kind),
    ]
    if let model { object["model"] = .array(model) }
    if let data { object["data"] = data }
    if let head { object["head"] = head.json }
    if let edits { object["edits"] = .array(edits.map { $0.json }) }
    if let byTaskId { object["byTaskId"] = byTaskId.json }
    return .object(object)
  }
}

/// An entry that is to be appended.
public struct EntryDraft: Sendable, Equatable {
  /// Where a head marker points.
  public enum Head: Sendable, Equatable {
    /// To the new entry.
    case itself
    /// To an entry.
    case entry(EntryID)
  }

  public var kind: JSONString
  public var model: [JSON]?
  public var data: JSON?
  public var head: Head?
  public var edits: [ContextEdit]?

  /// Makes a draft.
  public init(
    kind: JSONString,
    model: [JSON]? = nil,
    data: JSON? = nil,
    head: Head? = nil,
    edits: [ContextEdit]? = nil
  ) {
    self.kind = kind
    self.model = model
    self.data = data
    self.head = head
    self.edits = edits
  }
}
