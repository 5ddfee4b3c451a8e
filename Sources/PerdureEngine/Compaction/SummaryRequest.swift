import PerdureModel
import PerdureValue

/// The phase `summarize` of a compaction: one request for a summary, and what comes of it.
struct SummaryRequest {
  private let runtime: TaskRuntime
  private let record: TaskRecord
  private let checkpoint: JSON

  init(_ runtime: TaskRuntime, _ record: TaskRecord) {
    self.runtime = runtime
    self.record = record
    checkpoint = record.state.checkpoint ?? [:]
  }

  func run() async throws {
    let reference = ModelReference(json: checkpoint["model"])
    guard let reference, let model = runtime.surroundings.models.model(reference) else {
      return try await CompactionTask.failWithoutModel(runtime, reference)
    }
    guard let tail = EntryID(checkpoint["tail"]), let firstKept = EntryID(checkpoint["firstKept"])
    else { throw PerdureError(.storeCorrupt, "task \(record.id) has no range") }
    let request = try await request(to: model, upTo: tail, before: firstKept)
    // The intent is on disk before anything leaves the process.
    try await runtime.barrier()
    let answer = await AnswerBuilder.read(
      runtime.surroundings.models.stream(request),
      AnswerBuilder(model: model, timestamp: runtime.now)
    )
    try runtime.checkSignal()
    try await classify(answer, reference, firstKept)
  }

  /// Makes the same request each time: what it is made of was fixed, and entries do not change.
  private func request(
    to model: ModelInfo,
    upTo tail: EntryID,
    before firstKept: EntryID
  ) async throws -> ModelRequest {
    let view = try await runtime.surroundings.contexts.view(of: runtime.conversationId, upTo: tail)
    guard let cut = view.entries.firstIndex(where: { $0.id == firstKept }) else {
      throw PerdureError(
        .storeCorrupt,
        "the entry \(firstKept), at which task \(record.id) cuts, is not in its context"
      )
    }
    // Older stores may lack it, and all requests must carry the same identity.
    try await runtime.commit { tx, record in
      try await tx.edit(.provider, record.conversationId) { _ in }
      return nil
    }
    let session = try await runtime.value(.provider)["sessionId"]?.text
    var options = checkpoint["streamOptions"]?.object ?? [:]
    options["deferred"] = nil
    options["cacheRetention"] = "none"
    options["maxTokens"] = checkpoint["maxTokens"] ?? .int(0)
    let level = checkpoint["thinkingLevel"]?.text ?? "off"
    return ModelRequest(
      model: model,
      messages: SummaryText.request(
        CompactionRange.messages(of: view, before: cut),
        record.input["instructions"]?.text,
        at: runtime.now
      ),
      attempt: Int(clamping: GenerationTask.attempt(of: record)),
      sessionId: session,
      reasoning: level == "off" ? nil : level,
      streamOptions: options,
      purpose: .summary
    )
  }

  /// Commits what the answer comes to, and what it cost.
  private func classify(
    _ answer: AnswerBuilder,
    _ model: ModelReference,
    _ firstKept: EntryID
  ) async throws {
    let summary = summary(of: answer)
    let delay = delay(after: answer)
    try await runtime.commit { tx, record in
      let conversation = record.conversationId
      if let summary {
        // Placing it reads tables, which comes before all writes.
        let end = try await tx.place(
          summary: JSONString(summary),
          firstKept: firstKept,
          of: record,
          runtime.settings
        )
        try await tx.addUsage(answer.tokens, "models", JSONString(model.name), conversation)
        return end
      }
      try await tx.addUsage(answer.tokens, "models", JSONString(model.name), conversation)
      let text = Self.failure(of: answer)
      guard let delay else {
        try await tx.failCompaction(record.id, conversation, text)
        return .terminal(.failed(message: text, detail: ["reason": "model_error"]))
      }
      let until = tx.now.addingSaturated(delay)
      try await tx.editCompaction(record.id, conversation) { live, status in
        try live.set(status + ["retry"], ["at": .int(until), "error": .string(text)])
      }
      var next = checkpoint.object ?? [:]
      next["phase"] = "retry"
      next["until"] = .int(until)
      return .sleeping(checkpoint: .object(next), until: until)
    }
  }

  /// The summary, if the answer is one: complete, with text and without a call.
  private func summary(of answer: AnswerBuilder) -> String? {
    guard case .finished(.stop) = answer.end, answer.calls.isEmpty else { return nil }
    let texts = (answer.message(.stop)["content"]?.array ?? []).filter { $0["type"] == "text" }
    let text = SummaryText.trimmed(texts.compactMap { $0["text"]?.text }.joined(separator: "\n"))
    return text.isEmpty ? nil : text
  }

  private func delay(after answer: AnswerBuilder) -> Int64? {
    guard case .failed(let failure) = answer.end else { return nil }
    return RetryDelay.milliseconds(
      after: failure,
      attempt: GenerationTask.attempt(of: record),
      runtime.settings.retry
    )
  }

  private static func failure(of answer: AnswerBuilder) -> String {
    switch answer.end {
    case .failed(let failure): return "the summary failed: \(failure.message)"
    case .finished(.length): return "the summary is cut off, because it is longer than allowed"
    case .finished(.stop) where answer.calls.isEmpty: return "the summary has no text"
    case .finished(.stop), .finished(.toolUse):
      return "the model called a tool instead of summarizing"
    case .finished(let reason): return "the summary ended with \(reason.rawValue)"
    case .deferred: return "the summary was deferred"
    case nil: return "the summary has no end"
    }
  }
}
