import PerdureModel
import PerdureValue
import Synchronization

/// The phase `request` of a generation: one request to the model, from intent to consequence.
struct Request {
  let runtime: TaskRuntime
  let record: TaskRecord
  let attempt: Int64
  let conversation: ConversationID
  private let phase: PhaseAgent

  init(_ runtime: TaskRuntime, _ record: TaskRecord) {
    self.runtime = runtime
    self.record = record
    attempt = GenerationTask.attempt(of: record)
    conversation = record.conversationId
    phase = PhaseAgent(runtime)
  }

  private var hooks: GenerationHooks { GenerationHooks(phase: phase) }

  func run() async throws {
    try await announce()
    let checkpoint = record.state.checkpoint
    let reference = ModelReference(json: checkpoint?["model"])
    guard let reference, let model = runtime.surroundings.models.model(reference) else {
      return try await GenerationTask.failWithoutModel(runtime, reference)
    }
    let cutoff = try cutoff()
    var context = try await runtime.context(upTo: cutoff)
    let level = checkpoint?["thinkingLevel"]?.text ?? "off"
    let verdict = try await hooks.beforeRequest(
      PendingRequest(
        attempt: Int(clamping: attempt),
        model: reference,
        thinkingLevel: level,
        tools: context.offeredTools.map(\.string).sorted(),
        messages: context.messages
      )
    )
    context.messages = []
    guard case .send(let messages) = verdict else {
      if case .refuse(let reason) = verdict {
        try await GenerationTask.stop(runtime, reason: "refused", reason)
      }
      return
    }
    let session = try await runtime.value(.provider)["sessionId"]?.text
    let request = ModelRequest(
      model: model,
      messages: messages,
      attempt: Int(clamping: attempt),
      sessionId: session,
      reasoning: level == "off" ? nil : level,
      streamOptions: checkpoint?["streamOptions"]?.object ?? [:]
    )
    // The intent is on disk before anything leaves the process.
    try await runtime.barrier()
    let answer = await receive(consume request)
    try runtime.checkSignal()
    try await classify(answer, offered: context.offeredTools)
  }

  /// The end of the context of this request.
  func cutoff() throws -> EntryID {
    guard let cutoff = EntryID(record.state.checkpoint?["cutoff"]) else {
      throw PerdureError(.storeCorrupt, "task \(record.id) has no cutoff")
    }
    return cutoff
  }

  /// Says in the store that a request is made; what an earlier one left becomes an entry.
  private func announce() async throws {
    try await runtime.commit { tx, _ in
      try await tx.convertPartial(conversation)
      // Older stores may lack it, and all requests must carry the same identity.
      try await tx.edit(.provider, conversation) { _ in }
      try await tx.edit(.live, conversation) { live in
        if live.value["generation"] != ["attempt": .int(attempt)] {
          try live.set(["generation"], ["attempt": .int(attempt)])
        }
      }
      return nil
    }
  }

  /// Reads the answer to its end, committing what has arrived now and then.
  private func receive(_ request: consuming ModelRequest) async -> AnswerBuilder {
    let answer = Mutex(AnswerBuilder(model: request.model, timestamp: runtime.now))
    let shared = SharedAnswer(answer: answer)
    let interval = runtime.settings.partialIntervalMs
    let throttle = Throttle(clock: runtime.surroundings.clock, firstDelayMs: interval) {
      [runtime, conversation] in
      await Self.commitPartial(shared, runtime, conversation)
      return interval
    }
    let stream = runtime.surroundings.models.stream(request)
    while shared.answer.withLock({ $0.end == nil }) {
      let events = await stream.next()
      let isBroken = events.isEmpty
      let isPartial = shared.answer.withLock { answer in
        for event in events { answer.apply(event) }
        if isBroken, answer.end == nil {
          answer.apply(.failed(ProviderFailure(.retry, "the answer ended without an end")))
        }
        return answer.hasContent && answer.end == nil
      }
      if isPartial { throttle.changed() }
    }
    stream.cancel()
    await throttle.stop()
    return shared.answer.withLock { $0 }
  }

  private static func commitPartial(
    _ shared: SharedAnswer,
    _ runtime: TaskRuntime,
    _ conversation: ConversationID
  ) async {
    let message = shared.answer.withLock { $0.partialMessage() }
    do {
      try await runtime.commit { tx, _ in
        try await tx.edit(.live, conversation) { live in
          guard live.value["generation"] != nil else { return }
          try live.assign(["generation", "message"], message)
        }
        return nil
      }
    } catch {
      if runtime.signal.reason == nil { runtime.report("a partial answer was not kept: \(error)") }
    }
  }

  // MARK: Consequences

  func classify(_ answer: AnswerBuilder, offered: Set<JSONString>) async throws {
    switch answer.end {
    case .deferred(let handle): try await Deferral.defer(runtime, record, handle)
    case .finished(let reason) where reason == .stop || reason == .length || reason == .toolUse:
      let message = answer.message(reason)
      try await hooks.afterResponse(message)
      if reason == .toolUse, !answer.calls.isEmpty {
        return try await ToolRound.start(phase, message, offered: offered)
      }
      try await complete(message, continuation: try await hooks.onYield(message))
    case .finished(let reason):
      let text = "the answer ended with \(reason.rawValue)"
      let message = answer.message(reason, errorMessage: text)
      try await hooks.afterResponse(message)
      try await fail(message, ProviderFailure(.stop, text))
    case .failed(let failure):
      let message = answer.message(.error, errorMessage: failure.message)
      try await hooks.afterResponse(message)
      if failure.action == .overflow, try await summarize(message, failure) { return }
      if failure.action == .retry, try await retry(message, failure) { return }
      try await fail(message, failure)
    case nil:
      throw PerdureError(.invalidInput, "the answer has no end")
    }
  }

  /// Commits the answer.
  ///
  /// `continuation` is user content with which a hook lets the run go on.
  private func complete(_ message: JSON, continuation: JSON? = nil) async throws {
    try await runtime.commit { tx, record in
      let answer = try await tx.answerRun(
        of: record.id,
        conversation,
        message,
        continuation: continuation,
        runtime.settings.queueModes
      )
      return .terminal(.completed(result: ["entryId": answer.json]))
    }
  }

  /// Plans another attempt; returns whether there is one.
  private func retry(_ message: JSON, _ failure: ProviderFailure) async throws -> Bool {
    let delay = RetryDelay.milliseconds(after: failure, attempt: attempt, runtime.settings.retry)
    guard let delay else { return false }
    try await runtime.commit { tx, record in
      let until = tx.now.addingSaturated(delay)
      try await tx.appendAnswer(message, to: conversation)
      try await tx.edit(.live, conversation) { live in
        try live.set(
          ["generation"],
          [
            "attempt": .int(attempt),
            "retry": ["at": .int(until), "error": .string(failure.message)],
          ]
        )
      }
      return .sleeping(
        checkpoint: CompactionResume.carried(
          from: record,
          to: ["phase": "retry", "attempt": .int(attempt), "until": .int(until)]
        ),
        until: until
      )
    }
    return true
  }

  private func fail(_ message: JSON, _ failure: ProviderFailure) async throws {
    try await Self.fail(runtime, failure) { tx in
      try await tx.appendAnswer(message, to: conversation)
    }
  }

  /// Ends the run without an answer; `body` adds to the commit.
  static func fail(
    _ runtime: TaskRuntime,
    _ failure: ProviderFailure,
    _ body: (Transaction) async throws -> Void
  ) async throws {
    try await runtime.commit { tx, record in
      let run = try await tx.prepareFailedRun(record.conversationId, runtime.settings)
      try await body(tx)
      try await GenerationTask.noteFailure(
        failure.action.rawValue,
        failure.message,
        failure.retryAfterMs,
        tx,
        record
      )
      try await tx.endFailedRun(
        run,
        of: record.id,
        record.conversationId,
        reason: "model_error",
        detail: failure.message
      )
      return .terminal(
        .failed(message: failure.message, detail: ["reason": "model_error"])
      )
    }
  }
}

/// An answer that the reader extends and the throttle looks at.
private final class SharedAnswer: Sendable {
  let answer: Mutex<AnswerBuilder>

  init(answer: consuming Mutex<AnswerBuilder>) { self.answer = answer }
}

/// How long to wait before another attempt.
enum RetryDelay {
  /// Returns the delay before the attempt after this one, or `nil` if there is none.
  ///
  /// A provider that asks for more than the greatest delay is not waited for by a process that
  /// somebody watches.
  static func milliseconds(
    after failure: ProviderFailure,
    attempt: Int64,
    _ settings: Settings.Retry
  ) -> Int64? {
    guard failure.action == .retry, settings.isEnabled, attempt <= Int64(settings.maxRetries) else {
      return nil
    }
    let delay = max(milliseconds(attempt: attempt, settings), failure.retryAfterMs ?? 0)
    return delay <= settings.maxAgentDelayMs ? delay : nil
  }

  /// Doubles from the base with each attempt, up to the greatest delay.
  static func milliseconds(attempt: Int64, _ settings: Settings.Retry) -> Int64 {
    let doublings = min(max(attempt - 1, 0), 40)
    let (delay, overflow) = settings.baseDelayMs.multipliedReportingOverflow(by: 1 << doublings)
    return overflow ? settings.maxAgentDelayMs : min(delay, settings.maxAgentDelayMs)
  }
}
