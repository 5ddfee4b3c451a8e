import PerdureModel
import PerdureValue

/// Why a context is summarized.
package enum CompactionReason: String, Sendable, CaseIterable {
  /// Somebody asked for it.
  case manual
  /// The context comes near to the limit of the model.
  case threshold
  /// The model refused the context as too long.
  case overflow
}

/// The built-in task `pi.compaction`: the older part of a context becomes a summary.
package enum CompactionTask {
  static let name: JSONString = "pi.compaction"
  /// The kind of the entry that holds a summary.
  static let entryKind: JSONString = "pi.compaction"

  static let definition = TaskDefinition(
    name: name,
    version: 1,
    initial: { _ in ["phase": "select"] },
    phases: [
      "select": { runtime, record in try await select(runtime, record) },
      "summarize": { runtime, record in try await SummaryRequest(runtime, record).run() },
      "retry": { runtime, record in try await retry(runtime, record) },
    ],
    abort: { runtime, record in try await abort(runtime, record) },
    migrate: nil,
    settle: { tx, record, outcome in try await settle(tx, record, outcome) }
  )

  static func reason(of record: TaskRecord) -> CompactionReason {
    record.input["reason"]?.text.flatMap { CompactionReason(rawValue: $0) } ?? .manual
  }

  // MARK: select

  /// Chooses what is summarized and fixes the request, or finds that there is nothing to do.
  private static func select(_ runtime: TaskRuntime, _ record: TaskRecord) async throws {
    let phase = PhaseAgent(runtime)
    let agent = try await phase.get()
    guard let reference = agent.model, let model = runtime.surroundings.models.model(reference)
    else { return try await failWithoutModel(runtime, agent.model) }
    let view = try await runtime.surroundings.contexts.view(
      of: runtime.conversationId,
      upTo: nil
    )
    let reason = reason(of: record)
    let policy = runtime.settings.compaction.policy(for: reference)
      .fitted(to: window(of: model, view, isOverflow: reason == .overflow))
    guard let tail = view.entries.map({ $0.id }).max(),
      let range = CompactionRange(of: view, keepRecentTokens: policy.keepRecentTokens)
    else { return try await complete(runtime) }
    let plan = PendingCompaction(
      reason: reason.rawValue,
      entries: Array(view.entries[..<range.cut]),
      messages: range.messages(of: view),
      firstKept: view.entries[range.cut].id,
      instructions: record.input["instructions"]?.text
    )
    switch try await CompactionHooks(phase: phase).beforeCompact(plan) {
    case .decline, .deny: return try await complete(runtime)
    case .summary(let text):
      return try await runtime.commit { tx, record in
        try await tx.place(
          summary: JSONString(text),
          firstKept: plan.firstKept,
          of: record,
          runtime.settings
        )
      }
    case .proceed: break
    }
    let limit = max(1, policy.reserveTokens / 5 * 4 + policy.reserveTokens % 5 * 4 / 5)
    let maxTokens = model.maxTokens > 0 ? min(limit, Int64(model.maxTokens)) : limit
    let streamOptions = runtime.settings.stream
    try await runtime.commit { _, _ in
      .running(checkpoint: [
        "phase": "summarize", "attempt": 1, "model": reference.json,
        "thinkingLevel": .string(agent.thinkingLevel), "streamOptions": .object(streamOptions),
        "maxTokens": .int(maxTokens), "tail": tail.json, "firstKept": plan.firstKept.json,
      ])
    }
  }

  /// How much the model takes, as far as it is known; an overflow says that it is less than that.
  static func window(of model: ModelInfo, _ view: ContextView, isOverflow: Bool) -> Int64 {
    let known = Int64(max(0, model.contextWindow))
    guard isOverflow else { return known }
    let estimate = max(1, view.estimatedTokens)
    return known > 0 ? min(known, estimate) : estimate
  }

  // MARK: Ends

  private static func complete(_ runtime: TaskRuntime) async throws {
    try await runtime.commit { tx, record in
      try await tx.removeCompaction(record.id, record.conversationId)
      return .terminal(.completed(result: [:]))
    }
  }

  static func failWithoutModel(_ runtime: TaskRuntime, _ model: ModelReference?) async throws {
    let text = GenerationTask.missing(model)
    try await runtime.commit { tx, record in
      try await tx.failCompaction(record.id, record.conversationId, text)
      return .terminal(.failed(message: text, detail: ["reason": "no_model"]))
    }
  }

  private static func abort(_ runtime: TaskRuntime, _ record: TaskRecord) async throws {
    try await runtime.commit { tx, record in
      try await tx.removeCompaction(record.id, record.conversationId)
      return .terminal(.aborted())
    }
  }

  private static func settle(
    _ tx: Transaction,
    _ record: TaskRecord,
    _ outcome: TaskOutcome
  ) async throws {
    switch outcome {
    case .faulted(let message, _):
      try await tx.failCompaction(record.id, record.conversationId, message)
    case .orphaned(let reason):
      try await tx.failCompaction(record.id, record.conversationId, reason)
    case .completed, .failed, .aborted: break
    }
  }

  // MARK: retry

  /// Sends the same request again once the delay, which survives restarts, is over.
  private static func retry(_ runtime: TaskRuntime, _ record: TaskRecord) async throws {
    let until = record.state.checkpoint?["until"]?.int ?? 0
    try await runtime.commit { tx, record in
      var checkpoint = record.state.checkpoint?.object ?? [:]
      // The clock may have gone back, or a timer may have fired early.
      if until > tx.now { return .sleeping(checkpoint: .object(checkpoint), until: until) }
      let next = GenerationTask.attempt(of: record).addingSaturated(1)
      try await tx.editCompaction(record.id, record.conversationId) { live, status in
        try live.set(status + ["attempt"], .int(next))
        try live.delete(status + ["retry"])
      }
      checkpoint["until"] = nil
      checkpoint["phase"] = "summarize"
      checkpoint["attempt"] = .int(next)
      return .running(checkpoint: .object(checkpoint))
    }
  }
}
