import PerdureModel
import PerdureValue

extension OperationSchema {
  private static let everybody: CallClasses = [.tool, .task, .abort, .hook, .created]
  private static let paged: [OperationMember] = [
    .takes("limit", .integer(1...256)), .takes("order", .word(["asc", "desc"])),
    .takes("cursor", .object),
  ]
  private static let transaction: [OperationMember] = [.takes("tx", .handle)]

  /// A read that a transaction can track.
  private static func tracked(
    _ name: String,
    classes: CallClasses = everybody,
    _ members: [OperationMember],
    _ body:
      @escaping @Sendable (OperationRun, Arguments, (any ReadTracking)?) async throws
      -> JSONObject
  ) -> OperationSchema {
    OperationSchema(
      name: name,
      classes: classes,
      worksInTransaction: true,
      members: transaction + members,
      body: .later { run, input in
        let tracking = try run.tracking(input)
        defer { run.finishTracking(input) }
        return .object(try await body(run, input, tracking))
      }
    )
  }

  static let reads: [OperationSchema] = [
    tracked("conversation.get", [.needs("conversation", .id)]) { run, input, tracking in
      try await run.conversation(input, tracking)
    },
    tracked(
      "conversations.scan",
      [.takes("ownerTask", .id), .takes("ownerConversation", .id)] + paged
    ) { run, input, tracking in try await run.conversations(input, tracking) },
    tracked("entry.get", [.needs("entry", .id), .takes("conversation", .id)]) {
      run,
      input,
      tracking in try await run.entry(input, tracking)
    },
    tracked(
      "entries.scan",
      [
        .needs("conversation", .id), .takes("minEntry", .id), .takes("maxEntry", .id),
        .takes("heads", .bool),
      ] + paged
    ) { run, input, tracking in try await run.entries(input, tracking) },
    OperationSchema(
      name: "context.get",
      classes: everybody,
      members: [
        .needs("conversation", .id), .takes("at", .id), .takes("from", .count),
        .takes("to", .count),
      ],
      body: .later { run, input in .object(try await run.context(input)) }
    ),
    tracked("task.get", [.needs("task", .id)]) { run, input, tracking in
      try await run.task(input, tracking)
    },
    tracked(
      "tasks.scan",
      [
        .takes("conversation", .id), .takes("owner", .either([.id, .word(["self"])])),
        .takes("kind", .short), .takes("status", .word(TaskState.Status.allCases.map(\.rawValue))),
        .takes("live", .bool), .takes("background", .bool), .takes("abortRequested", .bool),
      ] + paged
    ) { run, input, tracking in try await run.tasks(input, tracking) },
    OperationSchema(
      name: "task.outcomes",
      classes: [.tool, .task, .abort, .hook],
      members: [.needs("tasks", .list(.id, 0...256))],
      body: .later { run, input in .object(try await run.outcomes(input)) }
    ),
    tracked(
      "submission.get",
      [.takes("submission", .id), .takes("conversation", .id), .takes("requestId", .short)]
    ) { run, input, tracking in try await run.submission(input, tracking) },
    tracked(
      "document.get",
      classes: [.tool, .task, .abort, .hook, .created, .section],
      [
        .needs("kind", .short), .takes("of", .place), .takes("key", .short),
        .takes("asOf", .id),
      ]
    ) { run, input, tracking in try await run.document(input, tracking) },
    OperationSchema(
      name: "document.watch",
      classes: [.tool, .task, .hook],
      members: [.needs("kind", .short), .takes("of", .place), .takes("key", .short)],
      body: .later { run, input in .object(try await run.watch(input)) }
    ),
    OperationSchema(
      name: "agent.get",
      classes: [.tool, .task, .abort, .hook, .created, .section],
      members: [.takes("conversation", .id)],
      body: .later { run, input in .object(try await run.agent(input)) }
    ),
    OperationSchema(
      name: "tools.list",
      classes: [.tool, .task, .hook, .section],
      members: [.needs("set", .word(ToolSet.allCases.map(\.rawValue)))],
      body: .later { run, input in .object(try await run.tools(input)) }
    ),
  ]
}

/// What plugins may look at.
extension OperationRun {
  func conversation(
    _ input: Arguments,
    _ tracking: (any ReadTracking)?
  ) async throws -> JSONObject {
    let id: ConversationID = try input.known("conversation")
    try await requireAccess(id)
    guard let record = try await engine().conversation(id, tracking) else { return [:] }
    return ["record": record.json]
  }

  func conversations(
    _ input: Arguments,
    _ tracking: (any ReadTracking)?
  ) async throws -> JSONObject {
    let engine = try engine()
    let query = ConversationQuery(
      ownerConversationId: input.id("ownerConversation"),
      ownerTaskId: input.id("ownerTask")
    )
    if core.grants.conversations == .own {
      if let task = query.ownerTaskId {
        try await requireAccess(to: task)
      } else if let conversation = query.ownerConversationId {
        try await requireAccess(conversation)
      } else {
        throw denied("all conversations", "ask for the permission conversations: read")
      }
    }
    return Self.object(try await engine.conversations(query, page(input), tracking)) { $0.json }
  }

  /// Throws unless the plugin may look at a task.
  func requireAccess(to task: TaskID) async throws {
    let engine = try engine()
    if task == engine.taskId { return }
    guard let record = try await engine.task(task, nil) else {
      throw CallRefusal(.notFound, "task \(task) does not exist")
    }
    try await requireAccess(record.conversationId)
  }

  /// The conversation that an input names, or that of the call.
  func conversationId(_ input: Arguments) throws -> ConversationID {
    if let id: ConversationID = input.id("conversation") { return id }
    guard let own = try engine().conversationId else {
      throw OperationProblem(
        .invalid,
        "\(request.operation.name) needs a conversation",
        reason: "shape",
        at: "/conversation"
      )
    }
    return own
  }

  func entry(_ input: Arguments, _ tracking: (any ReadTracking)?) async throws -> JSONObject {
    let conversation = try conversationId(input)
    try await requireAccess(conversation)
    let id: EntryID = try input.known("entry")
    guard let entry = try await engine().entry(id, in: conversation, tracking) else { return [:] }
    return ["entry": shown(entry.json)]
  }

  func entries(_ input: Arguments, _ tracking: (any ReadTracking)?) async throws -> JSONObject {
    let id: ConversationID = try input.known("conversation")
    try await requireAccess(id)
    let query = EntryQuery(
      conversationId: id,
      minEntry: input.id("minEntry"),
      maxEntry: input.id("maxEntry")
    )
    let heads = input.flag("heads") ?? false
    let found = try await engine().entries(query, heads: heads, page(input), tracking)
    return Self.object(found) { shown($0.json) }
  }

  func context(_ input: Arguments) async throws -> JSONObject {
    let id: ConversationID = try input.known("conversation")
    try await requireAccess(id)
    let context = try await engine().context(of: id, at: input.id("at"))
    let total = context.messages.count
    let from = min(total, Int(input.integer("from") ?? 0))
    let to = min(total, max(from, input.integer("to").map { Int($0) } ?? total))
    var object = JSONObject()
    if let head = context.head { object["head"] = shown(head.json) }
    object["entries"] = .array(context.entries.map { shown($0.json) })
    object["messages"] = .array(context.messages[from..<to].map { shown($0) })
    object["total"] = .int(Int64(total))
    return object
  }

  func task(_ input: Arguments, _ tracking: (any ReadTracking)?) async throws -> JSONObject {
    let id: TaskID = try input.known("task")
    guard let record = try await engine().task(id, tracking) else { return [:] }
    if id != (try engine().taskId) { try await requireAccess(record.conversationId) }
    return ["task": shown(record.json)]
  }

  func tasks(_ input: Arguments, _ tracking: (any ReadTracking)?) async throws -> JSONObject {
    let engine = try engine()
    var filter = TaskFilter()
    filter.query = TaskQuery(
      conversationId: input.id("conversation"),
      kind: input.string("kind"),
      status: input["status"]?.text.flatMap(TaskState.Status.init(rawValue:)),
      abortRequested: input.flag("abortRequested"),
      background: input.flag("background")
    )
    filter.isLive = input.flag("live")
    filter.owner = try owner(input, engine)
    if let conversation = filter.query.conversationId {
      try await requireAccess(conversation)
    } else if let owner = filter.owner {
      try await requireAccess(to: owner)
    } else if core.grants.conversations == .own {
      // Those of others are none of its business.
      filter.query.conversationId = engine.conversationId
    }
    return Self.object(try await engine.tasks(filter, page(input), tracking)) { shown($0.json) }
  }

  private func owner(_ input: Arguments, _ engine: any CallOperations) throws -> TaskID? {
    guard input["owner"]?.text == "self" else { return input.id("owner") }
    guard let own = engine.taskId else {
      throw OperationProblem(
        .invalid,
        "the call has no task that could own anything",
        reason: "not_here",
        at: "/owner"
      )
    }
    return own
  }

  func outcomes(_ input: Arguments) async throws -> JSONObject {
    let ids = (input["tasks"]?.array ?? []).compactMap { TaskID($0) }
    for id in ids { try await requireAccess(to: id) }
    let outcomes = try await engine().outcomes(ids)
    return ["outcomes": .array(outcomes.map { shown($0.json) })]
  }

  func submission(
    _ input: Arguments,
    _ tracking: (any ReadTracking)?
  ) async throws -> JSONObject {
    let engine = try engine()
    let record: SubmissionRecord?
    switch (input.id("submission") as SubmissionID?, input.string("requestId")) {
    case (let id?, nil): record = try await engine.submission(id, tracking)
    case (nil, let requestId?):
      let conversation: ConversationID = try input.known("conversation")
      try await requireAccess(conversation)
      record = try await engine.submission(requestId: requestId, in: conversation, tracking)
    default:
      throw OperationProblem(
        .invalid,
        "submission.get takes either submission or conversation and requestId",
        reason: "shape",
        at: ""
      )
    }
    guard let record else { return [:] }
    try await requireAccess(record.conversationId)
    return ["submission": record.json]
  }

  func agent(_ input: Arguments) async throws -> JSONObject {
    let id: ConversationID? = input.id("conversation")
    if let id { try await requireAccess(id) }
    return ["agent": ContributionMessage.agent(try await engine().agent(of: id))]
  }

  func tools(_ input: Arguments) async throws -> JSONObject {
    let set = ToolSet(rawValue: input.text("set")) ?? .all
    let tools = try await engine().tools(set)
    return [
      "tools": .array(
        tools.map { tool, name in
          [
            "name": .string(tool.name), "description": .string(tool.description),
            "parameters": tool.parameters, "extension": .string(name),
          ]
        }
      )
    ]
  }
}

extension Arguments {
  /// The number of a record that has to be there.
  func known<Record>(_ name: String) throws -> Identifier<Record> {
    guard let id: Identifier<Record> = id(name) else {
      throw OperationProblem(
        .invalid,
        "the member \(name) is missing",
        reason: "shape",
        at: "/\(name)"
      )
    }
    return id
  }
}
