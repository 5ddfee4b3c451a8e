public import PerdureValue

/// What a document belongs to.
public enum DocumentScope: Sendable, Hashable {
  case session
  case conversation(ConversationID)
  case task(TaskID)

  /// The name under which stores index it.
  public var kind: String {
    switch self {
    case .session: "session"
    case .conversation: "conversation"
    case .task: "task"
    }
  }

  /// The id of the owner; 0 for the session.
  public var ownerId: Int64 {
    switch self {
    case .session: 0
    case .conversation(let id): id.value
    case .task(let id): id.value
    }
  }

  init(reader: RecordReader) throws {
    switch try reader.string("kind") {
    case "session": self = .session
    case "conversation": self = .conversation(try reader.id("conversationId"))
    case "task": self = .task(try reader.id("taskId"))
    default: throw reader.fail("kind", "a document scope")
    }
  }

  var json: JSON {
    switch self {
    case .session: ["kind": "session"]
    case .conversation(let id): ["kind": "conversation", "conversationId": id.json]
    case .task(let id): ["kind": "task", "taskId": id.json]
    }
  }
}

/// Which revisions of a conversation's document are kept.
public enum DocumentHistory: String, Sendable { case latest, rewindable }

/// What a fork does with a conversation's document.
public enum DocumentFork: String, Sendable { case asOf, current, initial }

/// Where a document is found: at most one incarnation is alive at an address.
public struct DocumentAddress: Sendable, Hashable {
  public var kind: JSONString
  public var scope: DocumentScope
  /// The key in a family; absent for a singleton.
  ///
  /// The empty key is a key.
  public var key: JSONString?

  /// Makes an address.
  public init(kind: JSONString, scope: DocumentScope, key: JSONString? = nil) {
    self.kind = kind
    self.scope = scope
    self.key = key
  }
}

/// One incarnation of a document.
public struct DocumentRecord: Sendable, Equatable {
  public var id: DocumentID
  public var address: DocumentAddress
  /// Present at conversation scope.
  public var history: DocumentHistory?
  /// Present at conversation scope.
  public var fork: DocumentFork?
  /// The commit that created it; stamped by the store.
  public var createdAt: Int64
  /// The commit that retired it.
  public var retiredAt: Int64?

  /// Makes a record.
  public init(
    id: DocumentID,
    address: DocumentAddress,
    history: DocumentHistory? = nil,
    fork: DocumentFork? = nil,
    createdAt: Int64,
    retiredAt: Int64? = nil
  ) {
    self.id = id
    self.address = address
    self.history = history
    self.fork = fork
    self.createdAt = createdAt
    self.retiredAt = retiredAt
  }

  /// Whether only its newest value is kept: session scope, task scope, `latest`.
  public var isCurrentOnly: Bool { history != .rewindable }

  /// Whether it lived after the commit `sequence`, or lives now.
  public func isAlive(at sequence: Int64?) -> Bool {
    guard let sequence else { return retiredAt == nil }
    return createdAt <= sequence && (retiredAt.map { sequence < $0 } ?? true)
  }

  /// Reads the persisted form.
  public init(json: JSON) throws {
    let reader = try RecordReader(json, "document")
    id = try reader.id("id")
    address = DocumentAddress(
      kind: try reader.string("kind"),
      scope: try DocumentScope(reader: try reader.reader("scope")),
      key: try reader.optionalString("key")
    )
    if let history = try reader.optionalString("history") {
      guard let value = DocumentHistory(rawValue: history.string) else {
        throw reader.fail("history", "'latest' or 'rewindable'")
      }
      self.history = value
    }
    if let fork = try reader.optionalString("fork") {
      guard let value = DocumentFork(rawValue: fork.string) else {
        throw reader.fail("fork", "'asOf', 'current' or 'initial'")
      }
      self.fork = value
    }
    createdAt = try reader.int("createdAt")
    retiredAt = try reader.optionalInt("retiredAt")
  }

  /// The persisted form.
  public var json: JSON {
    var object: JSONObject = ["id": id.json, "kind": .string(address.kind)]
    if let key = address.key { object["key"] = .string(key) }
    object["scope"] = address.scope.json
    if let history { object["history"] = .string(history.rawValue) }
    if let fork { object["fork"] = .string(fork.rawValue) }
    object["createdAt"] = .int(createdAt)
    if let retiredAt { object["retiredAt"] = .int(retiredAt) }
    return .object(object)
  }
}

/// One stored revision of a document.
public enum DocumentContent: Sendable, Equatable {
  /// The complete value.
  case base(version: Int64, value: JSON)
  /// Operations on the revision before.
  case delta(version: Int64, operations: [Operation])

  /// The version of the definition that wrote it.
  public var version: Int64 {
    switch self {
    case .base(let version, _), .delta(let version, _): version
    }
  }
}

extension DocumentContent {
  /// Reads the persisted form.
  public init(json: JSON) throws {
    let reader = try RecordReader(json, "document content")
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

  /// The persisted form.
  public var json: JSON {
    switch self {
    case .base(let version, let value):
      ["kind": "base", "version": .int(version), "value": value]
    case .delta(let version, let operations):
      ["kind": "delta", "version": .int(version), "ops": .array(operations.map { $0.json })]
    }
  }
}

/// A document as a store reads it.
public struct StoredDocument: Sendable, Equatable {
  public var record: DocumentRecord
  public var version: Int64
  public var value: JSON
  /// How many deltas follow the newest base.
  public var deltasSinceBase: Int

  /// Makes a stored document.
  public init(record: DocumentRecord, version: Int64, value: JSON, deltasSinceBase: Int) {
    self.record = record
    self.version = version
    self.value = value
    self.deltasSinceBase = deltasSinceBase
  }
}
