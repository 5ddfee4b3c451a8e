import PerdureModel
import PerdureValue

/// One hook of a plugin, as the engine calls it.
struct PluginHook: Sendable {
  let caller: ContributionCaller
  let hook: ManifestHook
  let answers: HookAnswers
  private var core: PluginCore { caller.core }

  init(_ hook: ManifestHook, _ caller: ContributionCaller, mayAsk: Bool) {
    self.hook = hook
    self.caller = caller
    answers = HookAnswers(hook: hook, mayAsk: mayAsk)
  }

  /// What the engine registers; `nil` for a point that it does not have.
  func registered(failsClosed: @escaping @Sendable () -> Bool) -> Hook? {
    guard let handler else { return nil }
    var made = Hook(
      handler,
      hook.role == .guard ? .guard : .observer,
      changes: hook.changes,
      tools: hook.tools.isEmpty ? nil : hook.tools,
      .nanoseconds(caller.times.deadline)
    )
    made.order = hook.order
    made.endsInTime = true
    made.failsClosed = failsClosed
    return made
  }

  private func wants(_ field: String) -> Bool { hook.fields?.contains(field) ?? true }

  // MARK: Calls

  private func place(_ context: any ContributionReads) -> CallPlace {
    var place = CallPlace()
    place.task = (context as? any HookContext)?.taskId
    place.reads = context
    return place
  }

  private func message(
    _ context: any HookContext,
    _ kind: String,
    _ members: JSONObject
  ) -> [UInt8] {
    var message: JSONObject = [
      "ctx": ContributionMessage.context(
        core,
        now: context.now(),
        conversation: context.conversationId,
        task: context.taskId,
        kind: kind
      )
    ]
    for (key, value) in members { message[key] = value }
    return JSON.object(message).encoded
  }

  private var handler: Hook.Handler? {
    switch hook.point {
    case "beforeRequest": .beforeRequest { try await request($0, $1) }
    case "afterResponse": .afterResponse { try await watch($0, $1) }
    case "onYield": .onYield { try await yield($0, $1) }
    case "afterTools": .afterTools { try await round($0, $1, $2) }
    case "beforeTool": .beforeTool { try await before($0, $1) }
    case "afterTool": .afterTool { try await after($0, $1, $2) }
    case "onAbort": .onAbort { try await after($0, $1, $2) }
    case "beforeCompact": .beforeCompact { try await compact($0, $1) }
    case "conversationCreated": .conversationCreated { try await created($0, $1, $2) }
    default: custom
    }
  }

  private var custom: Hook.Handler? {
    guard hook.point.hasPrefix("task:") else { return nil }
    let parts = hook.point.dropFirst(5).split(separator: "/")
    guard parts.count == 2 else { return nil }
    let kind = String(parts[0])
    return .named(task: kind, name: String(parts[1])) { try await value(kind, $0, $1) }
  }

  // MARK: pi.generation

  private func request(
    _ request: PendingRequest,
    _ context: any HookContext
  ) async throws -> RequestDecision {
    let place = place(context)
    var members: JSONObject = [
      "attempt": .int(Int64(request.attempt)), "model": request.model.json,
      "thinkingLevel": .string(request.thinkingLevel),
      "tools": ContributionMessage.names(request.tools),
    ]
    if wants("messages") {
      members["messages"] = place.images.elided(.array(request.messages))
    }
    return try await caller.call(message(context, "pi.generation", members), place) {
      (object) throws(BorderProblem) in
      try answers.request(object, request.messages, place.images)
    }
  }

  private func watch(_ answer: JSON, _ context: any HookContext) async throws {
    let place = place(context)
    let members: JSONObject = ["message": place.images.elided(answer)]
    try await caller.call(message(context, "pi.generation", members), place) {
      (object) throws(BorderProblem) in try answers.nothing(object)
    }
  }

  private func yield(_ answer: JSON, _ context: any HookContext) async throws -> JSON? {
    let place = place(context)
    let members: JSONObject = ["message": place.images.elided(answer)]
    return try await caller.call(message(context, "pi.generation", members), place) {
      (object) throws(BorderProblem) in try answers.continuation(object, place.images)
    }
  }

  private func round(
    _ assistant: EntryID,
    _ results: [EntryID],
    _ context: any HookContext
  ) async throws {
    let members: JSONObject = [
      "assistant": assistant.json, "results": .array(results.map(\.json)),
    ]
    try await caller.call(message(context, "pi.generation", members), place(context)) {
      (object) throws(BorderProblem) in try answers.nothing(object)
    }
  }

  // MARK: pi.tool

  private func before(
    _ call: HookedCall,
    _ context: any HookContext
  ) async throws -> CallDecision {
    let place = place(context)
    let members: JSONObject = [
      "call": ContributionMessage.call(call, place.images),
      "tool": ContributionMessage.tool(call),
      "approvals": .array(call.consents.map(ContributionMessage.consent)),
    ]
    return try await caller.call(message(context, "pi.tool", members), place) {
      (object) throws(BorderProblem) in try answers.call(object, place.images)
    }
  }

  private func after(
    _ call: HookedCall,
    _ result: ToolResult,
    _ context: any HookContext
  ) async throws -> ResultDecision {
    let place = place(context)
    var members: JSONObject = ["call": ContributionMessage.call(call, place.images)]
    if let duration = call.durationMs { members["durationMs"] = .int(duration) }
    if wants("result") {
      members["result"] = .object(ContributionMessage.result(result, place.images))
    }
    return try await caller.call(message(context, "pi.tool", members), place) {
      (object) throws(BorderProblem) in try answers.result(object, place.images)
    }
  }

  // MARK: Other points

  private func compact(
    _ compaction: PendingCompaction,
    _ context: any HookContext
  ) async throws -> CompactionDecision {
    let place = place(context)
    var members: JSONObject = [
      "reason": .string(compaction.reason), "firstKept": compaction.firstKept.json,
    ]
    if let instructions = compaction.instructions {
      members["instructions"] = .string(instructions)
    }
    if wants("entries") {
      members["entries"] = place.images.elided(.array(compaction.entries.map(\.json)))
    }
    if wants("messages") {
      members["messages"] = place.images.elided(.array(compaction.messages))
    }
    return try await caller.call(message(context, "pi.compaction", members), place) {
      (object) throws(BorderProblem) in try answers.compaction(object)
    }
  }

  private func value(
    _ kind: String,
    _ arguments: JSON,
    _ context: any HookContext
  ) async throws -> HookAnswer {
    let place = place(context)
    let members: JSONObject = ["arguments": place.images.elided(arguments)]
    return try await caller.call(message(context, kind, members), place) {
      (object) throws(BorderProblem) in try answers.custom(object, place.images)
    }
  }

  private func created(
    _ record: ConversationRecord,
    _ agent: AgentInfo,
    _ reads: any ContributionReads
  ) async throws {
    let message = JSON.object([
      "ctx": ContributionMessage.context(core, now: reads.now(), conversation: record.id),
      "record": record.json, "agent": ContributionMessage.agent(agent),
    ]).encoded
    try await caller.call(message, place(reads)) { (object) throws(BorderProblem) in
      try answers.nothing(object)
    }
  }
}
