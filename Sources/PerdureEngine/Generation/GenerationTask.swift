import PerdureModel
import PerdureValue

/// The built-in task `pi.generation`: one answer of the model and the calls that it makes.
enum GenerationTask {
  static let name: JSONString = "pi.generation"

  static let definition = TaskDefinition(
    name: name,
    version: 1,
    initial: { _ in ["phase": "prepare", "attempt": 1] },
    phases: [
      "prepare": { runtime, record in try await prepare(runtime, record) },
      "request": { runtime, record in try await Request(runtime, record).run() },
      "retry": { runtime, record in try await retry(runtime, record) },
      "poll": { runtime, record in try await Deferral.poll(runtime, record) },
      "tools": { runtime, record in try await ToolRound.advance(runtime, record) },
    ],
    abort: { runtime, record in try await abort(runtime, record) },
    migrate: nil,
    settle: { tx, record, outcome in try await settle(tx, record, outcome) }
  )

  static func attempt(of record: TaskRecord) -> Int64 {
    record.state.checkpoint?["attempt"]?.int ?? 1
  }

  // MARK: prepare

  /// Fixes what will be asked: model, tools and the end of the context.
  private static func prepare(_ runtime: TaskRuntime, _ record: TaskRecord) async throws {
    let agent = try await PhaseAgent(runtime).get()
    guard let reference = agent.model, let model = runtime.surroundings.models.model(reference)
    else { return try await failWithoutModel(runtime, agent.model) }
    if try await CompactionResume.fails(runtime, record) { return }
    if let excess = try await RunLimits(runtime).excess() {
      return try await stop(runtime, reason: excess.reason, excess.text)
    }
    let planned: [EntryDraft]
    do { planned = try await plan(runtime, agent) } catch let refusal as PromptRefusal {
      return try await stop(runtime, reason: "refused", refusal.reason)
    }
    let need = try await runtime.surroundings.contexts.read(runtime.conversationId) { context in
      CompactionResume.need(context, planned, model, runtime, record)
    }
    if need == .blocking { return try await CompactionResume.waitForSummary(runtime) }
    let streamOptions = runtime.settings.stream
    try await runtime.commit { tx, record in
      var cutoff = runtime.surroundings.contexts.tail(of: runtime.conversationId)
      // The derived context may have been dropped since it was read.
      if cutoff == nil { cutoff = try await tx.newestEntry(in: runtime.conversationId)?.id }
      for draft in planned {
        cutoff = try await tx.append(draft, to: runtime.conversationId).id
      }
      guard let cutoff else {
        throw PerdureError(
          .storeCorrupt,
          "conversation \(runtime.conversationId) has a run but no entries"
        )
      }
      if need == .background { try await CompactionResume.summarizeMeanwhile(tx, record) }
      return .running(
        checkpoint: CompactionResume.carried(
          from: record,
          to: [
            "phase": "request", "attempt": .int(attempt(of: record)), "model": reference.json,
            "thinkingLevel": .string(agent.thinkingLevel), "streamOptions": .object(streamOptions),
            "cutoff": cutoff.json,
          ]
        )
      )
    }
  }

  /// Plans what the model is to be told of sections and tools.
  private static func plan(_ runtime: TaskRuntime, _ agent: Agent) async throws -> [EntryDraft] {
    let contexts = runtime.surroundings.contexts
    var sections = JSONObject()
    if !agent.sections.isEmpty || agent.instructions != nil {
      let shown = try await contexts.read(runtime.conversationId) { $0.prompt.sections }
      sections = try await PromptRendering(runtime: runtime, agent: agent, shown: shown).sections()
    }
    let tools = agent.tools.map { $0.tool.declaration }
    let (wanted, now) = (sections, runtime.now)
    return try await contexts.read(runtime.conversationId) { context in
      PromptPlan.entries(for: context, sections: wanted, tools: tools, timestamp: now)
    }
  }

  /// Ends the run before its next request, because somebody or something does not want it.
  static func stop(_ runtime: TaskRuntime, reason: String, _ text: String) async throws {
    try await runtime.commit { tx, record in
      let run = try await tx.prepareFailedRun(record.conversationId, runtime.settings)
      try await noteFailure(reason, text, nil, tx, record)
      try await tx.endFailedRun(
        run,
        of: record.id,
        record.conversationId,
        reason: reason,
        detail: text
      )
      return .terminal(.failed(message: text, detail: ["reason": .string(reason)]))
    }
  }

  /// Says that there is no such model, or none at all.
  static func missing(_ model: ModelReference?) -> String {
    model.map {
      "the provider \($0.provider) does not serve the model \($0.modelId); "
        + "choose another one with Conversation.configure or --model"
    } ?? "the conversation has no model; choose one with Conversation.configure or --model"
  }

  static func failWithoutModel(_ runtime: TaskRuntime, _ model: ModelReference?) async throws {
    let text = missing(model)
    try await runtime.commit { tx, record in
      let run = try await tx.prepareFailedRun(record.conversationId, runtime.settings)
      try await noteFailure("no_model", text, nil, tx, record)
      try await tx.endFailedRun(
        run,
        of: record.id,
        record.conversationId,
        reason: "no_model"
      )
      return .terminal(.failed(message: text, detail: ["reason": "no_model"]))
    }
  }

  /// Keeps, beside the records, what kind of failure left the inputs unanswered.
  static func noteFailure(
    _ kind: String,
    _ message: String,
    _ retryAfterMs: Int64?,
    _ tx: Transaction,
    _ record: TaskRecord
  ) async throws {
    var failure: JSONObject = ["kind": .string(kind), "message": .string(message)]
    if let retryAfterMs { failure["retryAfterMs"] = .int(retryAfterMs) }
    for input in try await tx.inputs(of: record.id, record.conversationId) {
      try tx.put(
        extra: ExtraWrite(scope: "failure", id: input.value, value: .object(failure))
      )
    }
  }

  // MARK: retry

  /// Goes back to `prepare` once the delay, which survives restarts, is over.
  private static func retry(_ runtime: TaskRuntime, _ record: TaskRecord) async throws {
    let until = record.state.checkpoint?["until"]?.int ?? 0
    try await runtime.commit { tx, record in
      let checkpoint = record.state.checkpoint ?? [:]
      // The clock may have gone back, or a timer may have fired early.
      if until > tx.now { return .sleeping(checkpoint: checkpoint, until: until) }
      let next = attempt(of: record).addingSaturated(1)
      try await tx.edit(.live, record.conversationId) { live in
        try live.set(["generation"], ["attempt": .int(next)])
      }
      return .running(
        checkpoint: CompactionResume.carried(
          from: record,
          to: ["phase": "prepare", "attempt": .int(next)]
        )
      )
    }
  }

  // MARK: abort and cleanup

  private static func abort(_ runtime: TaskRuntime, _ record: TaskRecord) async throws {
    await Deferral.cancel(runtime, record)
    try await runtime.commit { tx, record in
      let checkpoint = record.state.checkpoint
      let pending = (checkpoint?["pending"]?.array ?? []).compactMap { $0.string }
      if let assistant = EntryID(checkpoint?["assistant"]), !pending.isEmpty {
        let entry = try await runtime.entry(assistant)
        for call in ToolRound.calls(of: entry) where pending.contains(call.id) {
          try await tx.append(
            ToolResultEntry.failure(
              call,
              "aborted",
              "the call was aborted before it started",
              at: tx.now
            ),
            to: record.conversationId
          )
        }
      }
      try await tx.convertPartial(record.conversationId)
      try await tx.endRun(of: record.id, record.conversationId, reason: "aborted")
      return .terminal(.aborted())
    }
  }

  private static func settle(
    _ tx: Transaction,
    _ record: TaskRecord,
    _ outcome: TaskOutcome
  ) async throws {
    let live = try await tx.value(.live, record.conversationId)
    guard TaskID(live["run"]?["taskId"]) == record.id else { return }
    try await tx.convertPartial(record.conversationId)
    switch outcome {
    case .faulted(let message, _):
      try await noteFailure("faulted", message, nil, tx, record)
      try await tx.endRun(of: record.id, record.conversationId, reason: "faulted", detail: message)
    case .orphaned(let reason):
      try await tx.endRun(of: record.id, record.conversationId, reason: reason)
    case .completed, .failed, .aborted: break
    }
  }
}
