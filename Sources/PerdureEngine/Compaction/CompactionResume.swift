import PerdureModel
import PerdureValue

/// How a generation and the summaries that it needs go together.
///
/// A generation waits for one summary at most, whatever for: its checkpoint names the compaction in
/// `compacted` from then on.
enum CompactionResume {
  /// Returns a checkpoint that still says for which compaction the generation has waited.
  static func carried(from record: TaskRecord, to checkpoint: JSONObject) -> JSON {
    var checkpoint = checkpoint
    checkpoint["compacted"] = record.state.checkpoint?["compacted"]
    return .object(checkpoint)
  }

  // MARK: Before a request

  /// Finds out whether the context asks for a summary before it is sent.
  static func need(
    _ context: ContextCache,
    _ planned: [EntryDraft],
    _ model: ModelInfo,
    _ runtime: TaskRuntime,
    _ record: TaskRecord
  ) -> CompactionNeed? {
    guard record.state.checkpoint?["compacted"] == nil else { return nil }
    return CompactionNeed.of(
      contributions: context.contributions,
      weights: context.weights,
      head: context.head,
      planned: planned.flatMap { $0.model ?? [] },
      window: Int64(max(0, model.contextWindow)),
      policy: runtime.settings.compaction.policy(for: model.reference)
    )
  }

  /// Lets a summary be made and the generation wait for it; the transcript stays as it is.
  static func waitForSummary(_ runtime: TaskRuntime) async throws {
    try await runtime.commit { tx, record in
      let task = try await tx.createCompaction(
        .threshold,
        in: record.conversationId,
        owner: record.id
      )
      return .waiting(
        checkpoint: [
          "phase": "prepare", "attempt": .int(GenerationTask.attempt(of: record)),
          "compacted": task.json, "threshold": true,
        ],
        on: [task],
        policy: .allSettled
      )
    }
  }

  /// Begins a summary in the background, unless one is under way.
  static func summarizeMeanwhile(_ tx: Transaction, _ record: TaskRecord) async throws {
    // Looked at in this commit, so that one that was asked for meanwhile counts.
    guard try await tx.value(.live, record.conversationId)["compactions"] == nil else { return }
    _ = try await tx.createCompaction(.threshold, in: record.conversationId)
  }

  // MARK: After the wait

  /// Ends the run if the summary for which it waited has not come about; returns whether it has
  /// ended.
  static func fails(_ runtime: TaskRuntime, _ record: TaskRecord) async throws -> Bool {
    let checkpoint = record.state.checkpoint
    guard let compacted = TaskID(checkpoint?["compacted"]) else { return false }
    let overflow = checkpoint?["overflow"]?.text
    guard overflow != nil || checkpoint?["threshold"] == true else { return false }
    guard let outcome = try await runtime.ending(of: compacted) else {
      throw PerdureError(.storeCorrupt, "task \(record.id) waited for \(compacted) in vain")
    }
    let failure: ProviderFailure
    if let overflow {
      if case .completed(let result) = outcome, EntryID(result["entryId"]) != nil { return false }
      failure = ProviderFailure(.overflow, overflow)
    } else {
      // One that found nothing to do is no failure.
      guard let text = Self.failure(outcome) else { return false }
      failure = ProviderFailure(.stop, text)
    }
    try await Request.fail(runtime, failure) { _ in }
    return true
  }

  private static func failure(_ outcome: TaskOutcome) -> String? {
    switch outcome {
    case .completed: nil
    case .failed(let message, _, _), .faulted(let message, _):
      "the conversation could not be made shorter: \(message)"
    case .orphaned(let reason): "the conversation could not be made shorter: \(reason)"
    case .aborted: "the conversation was not made shorter, because that was aborted"
    }
  }
}

extension TaskRuntime {
  /// Returns the outcome of a task that has ended, or `nil`.
  func ending(of task: TaskID) async throws -> TaskOutcome? {
    try await surroundings.contexts.outcome(of: task)
  }
}

extension Request {
  /// Lets a context that the model refused as too long become shorter; returns whether it can.
  ///
  /// Once for a generation; it costs no attempt.
  func summarize(_ message: JSON, _ failure: ProviderFailure) async throws -> Bool {
    let checkpoint = record.state.checkpoint
    guard checkpoint?["compacted"] == nil,
      let reference = ModelReference(json: checkpoint?["model"]),
      let model = runtime.surroundings.models.model(reference)
    else { return false }
    let policy = runtime.settings.compaction.policy(for: reference)
    guard policy.isEnabled else { return false }
    let view = try await runtime.surroundings.contexts.view(of: conversation, upTo: cutoff())
    let window = CompactionTask.window(of: model, view, isOverflow: true)
    let kept = policy.fitted(to: window).keepRecentTokens
    guard CompactionRange(of: view, keepRecentTokens: kept) != nil else { return false }
    try await runtime.commit { tx, record in
      try await tx.appendAnswer(message, to: conversation)
      try await tx.edit(.live, conversation) { try $0.delete(["generation"]) }
      let task = try await tx.createCompaction(.overflow, in: conversation, owner: record.id)
      return .waiting(
        checkpoint: [
          "phase": "prepare", "attempt": .int(attempt), "compacted": task.json,
          "overflow": .string(failure.message),
        ],
        on: [task],
        policy: .allSettled
      )
    }
    return true
  }
}
