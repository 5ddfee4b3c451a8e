import PerdureModel
import PerdureValue

/// Answers that the provider holds back, to be fetched later.
enum Deferral {
  /// When a provider that does not say when it may be asked is asked again, in milliseconds.
  private static let defaultDelayMs: Int64 = 5_000

  /// Lets the generation sleep until the provider may be asked for its answer.
  ///
  /// The next time always lies behind the last one, so that waiting is progress.
  static func `defer`(_ runtime: TaskRuntime, _ record: TaskRecord, _ handle: JSON) async throws {
    let checkpoint = record.state.checkpoint
    let attempt = GenerationTask.attempt(of: record)
    try await runtime.commit { tx, record in
      var pollAt = tx.now.addingSaturated(max(0, handle["pollAfterMs"]?.int ?? defaultDelayMs))
      if let last = checkpoint?["pollAt"]?.int { pollAt = max(pollAt, last.addingSaturated(1)) }
      try await tx.edit(.live, record.conversationId) { live in
        try live.set(
          ["generation"],
          ["attempt": .int(attempt), "deferred": ["pollAt": .int(pollAt)]]
        )
      }
      let next = CompactionResume.carried(
        from: record,
        to: [
          "phase": "poll", "attempt": .int(attempt), "model": checkpoint?["model"] ?? .null,
          "cutoff": checkpoint?["cutoff"] ?? .null, "handle": handle, "pollAt": .int(pollAt),
        ]
      )
      return .sleeping(checkpoint: next, until: pollAt)
    }
  }

  /// The phase `poll`: asks for the answer once it is time, and goes on with what comes.
  static func poll(_ runtime: TaskRuntime, _ record: TaskRecord) async throws {
    let checkpoint = record.state.checkpoint ?? [:]
    let pollAt = checkpoint["pollAt"]?.int ?? 0
    // The clock may have gone back, or a timer may have fired early.
    if pollAt > runtime.now {
      return try await runtime.commit { _, _ in
        .sleeping(checkpoint: checkpoint, until: pollAt)
      }
    }
    let reference = ModelReference(json: checkpoint["model"])
    guard let reference, let model = runtime.surroundings.models.model(reference) else {
      return try await GenerationTask.failWithoutModel(runtime, reference)
    }
    let request = Request(runtime, record)
    let cutoff = try request.cutoff()
    try await runtime.barrier()
    let stream = runtime.surroundings.models.fetchDeferred(checkpoint["handle"] ?? [:], of: model)
    let answer = await AnswerBuilder.read(
      stream,
      AnswerBuilder(model: model, timestamp: runtime.now)
    )
    try runtime.checkSignal()
    let context = try await runtime.context(upTo: cutoff)
    try await request.classify(answer, offered: context.offeredTools)
  }

  /// Tells the provider that its answer is not wanted any more, if one is deferred.
  static func cancel(_ runtime: TaskRuntime, _ record: TaskRecord) async {
    let checkpoint = record.state.checkpoint
    guard checkpoint?["phase"] == "poll", let handle = checkpoint?["handle"],
      let reference = ModelReference(json: checkpoint?["model"]),
      let model = runtime.surroundings.models.model(reference)
    else { return }
    do {
      try await runtime.barrier()
      try await runtime.surroundings.models.cancelDeferred(handle, of: model)
    } catch {
      runtime.report("a deferred answer was not cancelled: \(error)")
    }
  }
}

extension AnswerBuilder {
  /// Returns the answer of a stream that nobody watches, read to its end.
  static func read(
    _ stream: any ModelStream,
    _ answer: consuming AnswerBuilder
  ) async -> AnswerBuilder {
    var answer = answer
    while answer.end == nil {
      let events = await stream.next()
      for event in events { answer.apply(event) }
      if events.isEmpty {
        answer.apply(.failed(ProviderFailure(.retry, "the answer ended without an end")))
      }
    }
    stream.cancel()
    return answer
  }
}
