public import PerdureValue

/// A durable state machine bound to one conversation.
public struct TaskRecord: Sendable, Equatable {
  public var id: TaskID
  public var conversationId: ConversationID
  /// The name of its definition.
  public var kind: JSONString
  /// The version of the definition that wrote `input` and the checkpoint.
  public var version: Int64
  public var input: JSON
  /// The owning task; absent when the conversation owns it.
  public var owner: TaskID?
  public var background: Bool
  /// The durable abort mark.
  public var abortRequested: Bool
  /// `"restart"` when the mark came from abandoning on restart.
  public var abortReason: JSONString?
  public var abandonOnRestart: Bool
  /// Milliseconds since 1970, stamped at the first transition to running.
  public var startedAt: Int64?
  /// Milliseconds since 1970, stamped at the transition to terminal.
  public var endedAt: Int64?
  /// How often in a row a crash cut it off without progress; absent means 0.
  public var restarts: Int64?
  public var state: TaskState
  public var memos: JSONObject?

  /// Makes a record.
  public init(
    id: TaskID,
    conversationId: ConversationID,
    kind: JSONString,
    version: Int64,
    input: JSON,
    owner: TaskID? = nil,
    background: Bool = false,
    abandonOnRestart: Bool = false,
    state: TaskState
  ) {
    self.id = id
    self.conversationId = conversationId
    self.kind = kind
    self.version = version
    self.input = input
    self.owner = owner
    self.background = background
    abortRequested = false
    self.abandonOnRestart = abandonOnRestart
    self.state = state
  }

  /// Whether it is not terminal.
  public var isLive: Bool { state.status != .terminal }

  /// Reads the persisted form.
  public init(json: JSON) throws {
    let reader = try RecordReader(json, "task")
    id = try reader.id("id")
    conversationId = try reader.id("conversationId")
    kind = try reader.string("kind")
    version = try reader.int("version")
    input = reader.optional("input") ?? .null
    owner = try reader.optionalId("owner")
    background = try reader.bool("background")
    abortRequested = try reader.bool("abortRequested")
    abortReason = try reader.optionalString("abortReason")
    abandonOnRestart = reader.optional("abandonOnRestart") == true
    startedAt = try reader.optionalInt("startedAt")
    endedAt = try reader.optionalInt("endedAt")
    restarts = try reader.optionalInt("restarts")
    state = try TaskState(reader: try reader.reader("state"))
    memos = reader.optional("memos")?.object
  }

  /// The persisted form.
  public var json: JSON {
    var object: JSONObject = [
      "id": id.json, "conversationId": conversationId.json, "kind": .string(kind),
      "version": .int(version), "input": input, "background": .bool(background),
      "abortRequested": .bool(abortRequested), "state": state.json,
    ]
    if let abortReason { object["abortReason"] = .string(abortReason) }
    if let owner { object["owner"] = owner.json }
    if abandonOnRestart { object["abandonOnRestart"] = true }
    if let startedAt { object["startedAt"] = .int(startedAt) }
    if let endedAt { object["endedAt"] = .int(endedAt) }
    if let restarts { object["restarts"] = .int(restarts) }
    if let memos { object["memos"] = .object(memos) }
    return .object(object)
  }
}

/// How a task that waits for several others treats a failure of one.
public enum JoinPolicy: String, Sendable, CaseIterable {
  /// The others get an abort mark as soon as one does not complete.
  case failFast
  /// It waits until all are terminal.
  case allSettled
}

/// Where a task stands.
public enum TaskState: Sendable, Equatable {
  /// The state without its contents, as stores index it.
  public enum Status: String, Sendable, CaseIterable {
    case pending, running, waiting, sleeping, completing, terminal
  }

  case pending(checkpoint: JSON)
  case running(checkpoint: JSON)
  case waiting(checkpoint: JSON, on: [TaskID], policy: JoinPolicy)
  case sleeping(checkpoint: JSON, until: Int64)
  /// The outcome is decided, but ordinary owned work is still live.
  case completing(TaskOutcome)
  case terminal(TaskOutcome)

  /// The status.
  public var status: Status {
    switch self {
    case .pending: .pending
    case .running: .running
    case .waiting: .waiting
    case .sleeping: .sleeping
    case .completing: .completing
    case .terminal: .terminal
    }
  }

  /// The durable position, while there is one.
  public var checkpoint: JSON? {
    switch self {
    case .pending(let checkpoint), .running(let checkpoint), .waiting(let checkpoint, _, _),
      .sleeping(let checkpoint, _):
      checkpoint
    case .completing, .terminal: nil
    }
  }

  /// The outcome, once it is decided.
  public var outcome: TaskOutcome? {
    switch self {
    case .completing(let outcome), .terminal(let outcome): outcome
    default: nil
    }
  }

  init(reader: RecordReader) throws {
    let status = try reader.string("status").string
    func checkpoint() throws -> JSON {
      guard let value = reader.optional("checkpoint") else {
        throw reader.fail("checkpoint", "present")
      }
      return value
    }
    switch Status(rawValue: status) {
    case .pending: self = .pending(checkpoint: try checkpoint())
    case .running: self = .running(checkpoint: try checkpoint())
    case .waiting:
      let on = try reader.array("on").map { (element) throws -> TaskID in
        guard let id = TaskID(element) else { throw reader.fail("on", "a list of ids") }
        return id
      }
      guard let policy = JoinPolicy(rawValue: try reader.string("policy").string) else {
        throw reader.fail("policy", "a join policy")
      }
      self = .waiting(checkpoint: try checkpoint(), on: on, policy: policy)
    case .sleeping:
      self = .sleeping(checkpoint: try checkpoint(), until: try reader.int("until"))
    case .completing: self = .completing(try TaskOutcome(reader: try reader.reader("outcome")))
    case .terminal: self = .terminal(try TaskOutcome(reader: try reader.reader("outcome")))
    case nil: throw reader.fail("status", "a task status")
    }
  }

  var json: JSON {
    var object: JSONObject = ["status": .string(status.rawValue)]
    if let checkpoint { object["checkpoint"] = checkpoint }
    switch self {
    case .waiting(_, let on, let policy):
      object["on"] = .array(on.map { $0.json })
      object["policy"] = .string(policy.rawValue)
    case .sleeping(_, let until): object["until"] = .int(until)
    case .completing(let outcome), .terminal(let outcome): object["outcome"] = outcome.json
    case .pending, .running: break
    }
    return .object(object)
  }
}

/// How a task ended.
public enum TaskOutcome: Sendable, Equatable {
  case completed(result: JSON)
  case failed(message: String, detail: JSON? = nil, result: JSON? = nil)
  case aborted(reason: String? = nil, result: JSON? = nil)
  case orphaned(reason: String)
  case faulted(message: String, detail: JSON? = nil)

  /// Whether it completed.
  public var isCompleted: Bool {
    if case .completed = self { return true }
    return false
  }

  /// The result, where there is one.
  public var result: JSON? {
    switch self {
    case .completed(let result): result
    case .failed(_, _, let result), .aborted(_, let result): result
    case .orphaned, .faulted: nil
    }
  }

  /// Reads the persisted form.
  package init(json: JSON) throws { try self.init(reader: try RecordReader(json, "outcome")) }

  init(reader: RecordReader) throws {
    func error() throws -> (String, JSON?) {
      let error = try reader.reader("error")
      return (try error.string("message").string, error.optional("detail"))
    }
    switch try reader.string("status") {
    case "completed": self = .completed(result: reader.optional("result") ?? .null)
    case "failed":
      let (message, detail) = try error()
      self = .failed(message: message, detail: detail, result: reader.optional("result"))
    case "aborted":
      self = .aborted(
        reason: try reader.optionalString("reason")?.string,
        result: reader.optional("result")
      )
    case "orphaned": self = .orphaned(reason: try reader.string("reason").string)
    case "faulted":
      let (message, detail) = try error()
      self = .faulted(message: message, detail: detail)
    default: throw reader.fail("status", "an outcome")
    }
  }

  /// The persisted form.
  public var json: JSON {
    func error(_ message: String, _ detail: JSON?) -> JSON {
      var object: JSONObject = ["message": .string(message)]
      if let detail { object["detail"] = detail }
      return .object(object)
    }
    switch self {
    case .completed(let result): return ["status": "completed", "result": result]
    case .failed(let message, let detail, let result):
      var object: JSONObject = ["status": "failed", "error": error(message, detail)]
      if let result { object["result"] = result }
      return .object(object)
    case .aborted(let reason, let result):
      var object: JSONObject = ["status": "aborted"]
      if let reason { object["reason"] = .string(reason) }
      if let result { object["result"] = result }
      return .object(object)
    case .orphaned(let reason): return ["status": "orphaned", "reason": .string(reason)]
    case .faulted(let message, let detail):
      return ["status": "faulted", "error": error(message, detail)]
    }
  }
}
