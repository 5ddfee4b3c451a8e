import PerdureModel
import PerdureValue

/// One hook of a plugin, as the engine calls it.
final class PluginHook: Sendable {
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

  private func place(_ context: any HookContext) -> CallPlace {
    CallPlace(task: context.taskId, reads: context)
  }

  private func message(
    _ context: any HookContext,
    _ kind: String,
    _ body: (inout JSONWriter) -> Void
  ) -> [UInt8] {
    ContributionMessage.encoded(
      core,
      now: context.now(),
      conversation: context.conversationId,
      task: context.taskId,
      kind: kind,
      body
    )
  }

  private var handler: Hook.Handler? {
    switch hook.point {
    case "beforeRequest": .beforeRequest { try await self.request($0, $1) }
    case "afterResponse": .afterResponse { try await self.watch($0, $1) }
    case "onYield": .onYield { try await self.yield($0, $1) }
    case "afterTools": .afterTools { try await self.round($0, $1, $2) }
    case "beforeTool": .beforeTool { try await self.before($0, $1) }
    case "afterTool": .afterTool { try await self.after($0, $1, $2) }
    case "onAbort": .onAbort { try await self.after($0, $1, $2) }
    case "beforeCompact": .beforeCompact { try await self.compact($0, $1) }
    case "conversationCreated": .conversationCreated { try await self.created($0, $1, $2) }
    default: custom
    }
  }

  private var custom: Hook.Handler? {
    guard hook.point.hasPrefix("task:") else { return nil }
    let parts = hook.point.dropFirst(5).split(separator: "/")
    guard parts.count == 2 else { return nil }
    let kind = String(parts[0])
    return .named(task: kind, name: String(parts[1])) { try await self.value(kind, $0, $1) }
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
    let input = message(context, "pi.generation") { $0.members(of: members) }
    return try await caller.call(input, place) { (object) throws(BorderProblem) in
      try self.answers.request(object, request.messages, place.images)
    }
  }

  private func watch(_ answer: JSON, _ context: any HookContext) async throws {
    let place = place(context)
    let input = message(context, "pi.generation") {
      $0.member(.message, place.images.elided(answer))
    }
    try await caller.call(input, place) {
      (object) throws(BorderProblem) in try self.answers.nothing(object)
    }
  }

  private func yield(_ answer: JSON, _ context: any HookContext) async throws -> JSON? {
    let place = place(context)
    let input = message(context, "pi.generation") {
      $0.member(.message, place.images.elided(answer))
    }
    return try await caller.call(input, place) {
      (object) throws(BorderProblem) in try self.answers.continuation(object, place.images)
    }
  }

  private func round(
    _ assistant: EntryID,
    _ results: [EntryID],
    _ context: any HookContext
  ) async throws {
    let input = message(context, "pi.generation") { writer in
      writer.member(.assistant, assistant.json)
      writer.member(.results, .array(results.map(\.json)))
    }
    try await caller.call(input, place(context)) {
      (object) throws(BorderProblem) in try self.answers.nothing(object)
    }
  }

  // MARK: pi.tool

  private func before(
    _ call: HookedCall,
    _ context: any HookContext
  ) async throws -> CallDecision {
    let place = place(context)
    let images = place.images
    let input = message(context, "pi.tool") { writer in
      ContributionMessage.write(call, images, to: &writer)
      writer.begin(.tool)
      writer.member(.replay, JSONString(call.replay.rawValue))
      if let name = call.extensionName { writer.member(.extensionName, JSONString(name)) }
      writer.end()
      writer.member(.approvals, .array(call.consents.map(ContributionMessage.consent)))
    }
    return try await caller.call(input, place) {
      (object) throws(BorderProblem) in try self.answers.call(object, images)
    }
  }

  private func after(
    _ call: HookedCall,
    _ result: ToolResult,
    _ context: any HookContext
  ) async throws -> ResultDecision {
    let place = place(context)
    let input = message(context, "pi.tool") { writer in
      ContributionMessage.write(call, place.images, to: &writer)
      if let duration = call.durationMs { writer.member(.durationMs, duration) }
      if wants("result") {
        writer.member(.result, .object(ContributionMessage.result(result, place.images)))
      }
    }
    return try await caller.call(input, place) {
      (object) throws(BorderProblem) in try self.answers.result(object, place.images)
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
    let input = message(context, "pi.compaction") { $0.members(of: members) }
    return try await caller.call(input, place) {
      (object) throws(BorderProblem) in try self.answers.compaction(object)
    }
  }

  private func value(
    _ kind: String,
    _ arguments: JSON,
    _ context: any HookContext
  ) async throws -> HookAnswer {
    let place = place(context)
    let input = message(context, kind) {
      $0.member(.arguments, place.images.elided(arguments))
    }
    return try await caller.call(input, place) {
      (object) throws(BorderProblem) in try self.answers.custom(object, place.images)
    }
  }

  private func created(
    _ record: ConversationRecord,
    _ agent: AgentInfo,
    _ reads: any ContributionReads
  ) async throws {
    let input = ContributionMessage.encoded(
      core,
      now: reads.now(),
      conversation: record.id
    ) { writer in
      writer.member(.record, record.json)
      writer.member(.agent, ContributionMessage.agent(agent))
    }
    let place = CallPlace(task: (reads as? any HookContext)?.taskId, reads: reads)
    try await caller.call(input, place) { (object) throws(BorderProblem) in
      try self.answers.nothing(object)
    }
  }
}
