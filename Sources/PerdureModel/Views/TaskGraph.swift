public import PerdureValue

/// The tasks that have not ended, and what each of them owns.
public struct TaskGraph: Sendable, Equatable {
  /// One task that has not ended.
  public struct Node: Sendable, Equatable {
    public var id: TaskID
    public var kind: JSONString
    public var conversationId: ConversationID
    /// The owning task; absent when the conversation owns it.
    public var owner: TaskID?
    public var background: Bool
    /// The durable abort mark.
    public var abortRequested: Bool
    public var state: State
    /// The conversations that the task owns, in order.
    public var conversations: [ConversationID]
    /// Why the task cannot go on here: `missing_task`, `task_too_old`, `migration_failed`,
    /// `restart_limit`.
    public var blocked: String?

    /// Makes the node of a task.
    public init(_ record: TaskRecord, conversations: [ConversationID] = [], blocked: String? = nil)
    {
      id = record.id
      kind = record.kind
      conversationId = record.conversationId
      owner = record.owner
      background = record.background
      abortRequested = record.abortRequested
      state = State(record.state)
      self.conversations = conversations
      self.blocked = blocked
    }
  }

  /// Where a task stands, without what only its own code reads.
  public enum State: Sendable, Equatable {
    case pending(phase: JSONString?)
    case running(phase: JSONString?)
    case waiting(phase: JSONString?, on: [TaskID], policy: JoinPolicy)
    /// Until a time in milliseconds since 1970.
    case sleeping(phase: JSONString?, until: Int64)
    /// The outcome is decided (its status is given), but ordinary owned work is still live.
    case completing(outcome: JSONString)
  }

  /// The nodes by task.
  public var tasks: [TaskID: Node]

  /// Makes a graph.
  public init(tasks: [TaskID: Node] = [:]) { self.tasks = tasks }

  /// The value to which the operations of the graph apply: `tasks` by id.
  public var json: JSON {
    let nodes = tasks.sorted { $0.key < $1.key }
    return ["tasks": .object(JSONObject(nodes.map { (JSONString("\($0.key)"), $0.value.json) }))]
  }
}

extension TaskGraph.State {
  init(_ state: TaskState) {
    let phase = state.checkpoint?["phase"]?.string
    switch state {
    case .pending: self = .pending(phase: phase)
    case .running: self = .running(phase: phase)
    case .waiting(_, let on, let policy): self = .waiting(phase: phase, on: on, policy: policy)
    case .sleeping(_, let until): self = .sleeping(phase: phase, until: until)
    case .completing(let outcome), .terminal(let outcome):
      self = .completing(outcome: outcome.json["status"]?.string ?? "")
    }
  }

  var json: JSON {
    func position(_ status: JSON, _ phase: JSONString?) -> JSONObject {
      var object: JSONObject = ["status": status]
      if let phase { object["phase"] = .string(phase) }
      return object
    }
    switch self {
    case .pending(let phase): return .object(position("pending", phase))
    case .running(let phase): return .object(position("running", phase))
    case .waiting(let phase, let on, let policy):
      var object = position("waiting", phase)
      object["on"] = .array(on.map { $0.json })
      object["policy"] = .string(policy.rawValue)
      return .object(object)
    case .sleeping(let phase, let until):
      var object = position("sleeping", phase)
      object["until"] = .int(until)
      return .object(object)
    case .completing(let outcome):
      return ["status": "completing", "outcome": .string(outcome)]
    }
  }
}

extension TaskGraph.Node {
  /// The form in which it stands in the graph.
  public var json: JSON {
    var object: JSONObject = [
      "id": id.json, "kind": .string(kind), "conversationId": conversationId.json,
    ]
    if let owner { object["owner"] = owner.json }
    object["background"] = .bool(background)
    object["abortRequested"] = .bool(abortRequested)
    object["state"] = state.json
    object["conversations"] = .array(conversations.map { $0.json })
    if let blocked { object["blocked"] = .string(blocked) }
    return .object(object)
  }
}
