import PerdureModel
import PerdureValue

extension OperationSchema {
  private static let runs: CallClasses = [.tool, .task]

  static let work: [OperationSchema] = [
    OperationSchema(
      name: "tool.call",
      classes: .tool,
      pauses: true,
      members: [
        .needs("name", .text), .needs("arguments", .object), .takes("key", .short),
        .takes("progress", .bool),
      ],
      body: .later { run, input in .object(try await run.callTool(input)) }
    ),
    OperationSchema(
      name: "conversation.submit",
      classes: runs,
      members: [
        .needs("conversation", .id), .needs("content", .json),
        .takes("whenBusy", .word(WhenBusy.allCases.map(\.rawValue))),
        .takes("requestId", .short), .takes("entry", .object),
      ],
      body: .later { run, input in .object(try await run.submit(input)) }
    ),
    OperationSchema(
      name: "submission.wait",
      classes: runs,
      pauses: true,
      members: [.needs("submission", .id)],
      body: .later { run, input in
        let id: SubmissionID = try input.known("submission")
        try await run.requireAccess(toSubmission: id)
        return .object(try await run.engine().wait(for: id).json.object ?? [:])
      }
    ),
    OperationSchema(
      name: "submission.abort",
      classes: runs,
      members: [.needs("submission", .id)],
      body: .later { run, input in
        let id: SubmissionID = try input.known("submission")
        try await run.requireAccess(toSubmission: id, writing: true)
        let result = try await run.engine().withdraw(id)
        return .object(["result": .string(JSONString(result.rawValue))])
      }
    ),
    OperationSchema(
      name: "conversation.wait",
      classes: runs,
      pauses: true,
      members: [.needs("conversation", .id), .takes("background", .bool)],
      body: .later { run, input in
        let id: ConversationID = try input.known("conversation")
        try await run.requireAccess(id)
        let background = input.flag("background") ?? false
        try await run.engine().waitForIdle(id, background: background)
        return .object([:])
      }
    ),
    OperationSchema(
      name: "conversation.abort",
      classes: runs,
      pauses: true,
      members: [.needs("conversation", .id), .takes("background", .bool)],
      body: .later { run, input in
        let id: ConversationID = try input.known("conversation")
        try await run.requireAccess(id, writing: true)
        try await run.engine().abort(id, background: input.flag("background") ?? false)
        return .object([:])
      }
    ),
    OperationSchema(
      name: "task.wait",
      classes: runs,
      pauses: true,
      members: [.needs("task", .id)],
      body: .later { run, input in
        let id: TaskID = try input.known("task")
        try await run.requireAccess(to: id)
        return .object(run.shown(try await run.engine().wait(for: id).json).object ?? [:])
      }
    ),
    OperationSchema(
      name: "task.abort",
      classes: [.tool, .task, .abort],
      pauses: true,
      members: [.needs("task", .id)],
      body: .later { run, input in
        try await run.engine().abortOwned(try input.known("task"))
        return .object([:])
      }
    ),
    OperationSchema(
      name: "hooks.each",
      classes: [.task, .abort],
      pauses: true,
      members: [
        .needs("name", .text), .needs("arguments", .json), .takes("from", .count),
        .takes("limit", .integer(1...1_024)),
      ],
      body: .later { run, input in .object(try await run.callHooks(input)) }
    ),
  ]
}

/// Work that plugins have done.
extension OperationRun {
  private static let nestingLimit = 16

  /// Throws if so many calls of the plugin lie above each other that it seems to call itself for ever.
  private func requireRoomBelow() async throws {
    let live = Set(core.liveCalls.compactMap(\.place.task))
    guard live.count >= Self.nestingLimit, let call else { return }
    let above = try await call.place.port?.tasksAbove() ?? []
    guard live.intersection(above).count + 1 >= Self.nestingLimit else { return }
    throw OperationProblem(
      .invalid,
      "\(Self.nestingLimit) calls of the plugin lie above each other already",
      reason: "nesting"
    )
  }

  func callTool(_ input: Arguments) async throws -> JSONObject {
    let name = input.text("name")
    guard core.grants.tools.fits(name) else {
      throw denied("the tool \(name)", "ask for the permission tools: [\"\(name)\"]")
    }
    guard let host = call?.host else {
      throw OperationProblem(.invalid, "tool.call needs a call of a tool", reason: "not_here")
    }
    try await requireRoomBelow()
    let result = try await host.executeTool(
      name,
      input["arguments"] ?? [:],
      NestedCallOptions(key: input["key"]?.text, showsProgress: input.flag("progress") ?? true)
    )
    var answer = shown(result.json).object ?? [:]
    answer["taskId"] = nil
    answer["task"] = result.taskId.json
    return answer
  }

  func submit(_ input: Arguments) async throws -> JSONObject {
    let id: ConversationID = try input.known("conversation")
    try await requireAccess(id, writing: true)
    let content = try restored(input["content"] ?? .null, at: "/content")
    do throws(BorderProblem) {
      try MemberType.content.check(content, at: "/content")
    } catch {
      throw OperationProblem(error, of: request.operation.name)
    }
    try await requireRoomBelow()
    let record = try await engine().submit(
      content,
      to: id,
      whenBusy: WhenBusy(rawValue: input["whenBusy"]?.text ?? "") ?? .followUp,
      requestId: input.string("requestId"),
      entry: try inputEntry(input)
    )
    return [
      "submission": record.id.json, "status": .string(JSONString(record.status.rawValue)),
    ]
  }

  private func inputEntry(_ input: Arguments) throws -> InputEntry? {
    guard let object = input["entry"]?.object else { return nil }
    var reader = FieldReader(object, at: "/entry")
    do throws(BorderProblem) {
      let kind = try reader.name("kind", "the kind of an entry", Names.isKind)
      let data = reader.any("data")
      try reader.finish()
      return InputEntry(kind: JSONString(kind), data: data)
    } catch {
      throw OperationProblem(error, of: request.operation.name)
    }
  }

  /// Throws unless the plugin may look at the conversation of a submission, or write to it.
  func requireAccess(toSubmission id: SubmissionID, writing: Bool = false) async throws {
    guard let record = try await engine().submission(id, nil) else {
      throw CallRefusal(.notFound, "submission \(id) does not exist")
    }
    try await requireAccess(record.conversationId, writing: writing)
  }

  func callHooks(_ input: Arguments) async throws -> JSONObject {
    let engine = try engine()
    let name = input.text("name")
    guard let id = engine.taskId, let kind = try await engine.task(id, nil)?.kind,
      core.grants.ownTasks[kind.string]?.hooks.contains(name) == true
    else {
      throw CallRefusal(.notFound, "the task's type declares no hook point \(name)")
    }
    let (replies, more) = try await engine.callHooks(
      name,
      input["arguments"] ?? .null,
      from: Int(input.integer("from") ?? 0),
      limit: input.integer("limit").map { Int($0) }
    )
    let results = replies.map { reply -> JSON in
      var object: JSONObject = [
        "index": .int(Int64(reply.index)), "extension": .string(JSONString(reply.extensionName)),
      ]
      object["value"] = reply.value
      object["denied"] = reply.denied.map { .string(JSONString($0)) }
      return .object(object)
    }
    return ["results": .array(results), "more": .bool(more)]
  }
}
