package import PerdureModel
package import PerdureValue

/// Requests to models that calls make for themselves.
extension EngineOperations {
  package func answer(
    _ request: ModelRequest,
    _ changed: (@Sendable ([JSON]) async -> Bool)?
  ) async throws -> JSON {
    // What was decided is on disk before anything leaves the process.
    try await barrier()
    let surroundings = surroundings
    return try await scope.run {
      await Self.read(
        surroundings.models.stream(request),
        AnswerBuilder(model: request.model, timestamp: surroundings.clock.now()),
        changed
      )
    }
  }

  package func fetchDeferred(_ handle: JSON, of model: ModelInfo) async throws -> JSON {
    try await barrier()
    let surroundings = surroundings
    return try await scope.run {
      await Self.read(
        surroundings.models.fetchDeferred(handle, of: model),
        AnswerBuilder(model: model, timestamp: surroundings.clock.now()),
        nil
      )
    }
  }

  package func cancelDeferred(_ handle: JSON, of model: ModelInfo) async throws {
    try await barrier()
    try await surroundings.models.cancelDeferred(handle, of: model)
  }

  /// Reads an answer to its end and tells of what changes on the way.
  private static func read(
    _ stream: any ModelStream,
    _ builder: AnswerBuilder,
    _ changed: (@Sendable ([JSON]) async -> Bool)?
  ) async -> JSON {
    var answer = builder
    var shown = answer.message(.stop)
    while answer.end == nil {
      let events = await stream.next()
      for event in events { answer.apply(event) }
      if events.isEmpty, answer.end == nil {
        answer.apply(.failed(ProviderFailure(.retry, "the answer ended without an end")))
      }
      guard let changed, answer.hasContent else { continue }
      let now = answer.message(.stop)
      let changes = changes(from: shown, to: now)
      shown = now
      if !changes.isEmpty, !(await changed(changes)) { break }
    }
    stream.cancel()
    return message(of: answer)
  }

  private static func changes(from old: JSON, to new: JSON) -> [JSON] {
    var difference = Difference()
    difference.compare(["generation", "message"], old, new)
    let changes = MessageChange.changes(by: difference.operations, from: old, to: new)
    return changes.map { $0.json }
  }

  private static func message(of answer: AnswerBuilder) -> JSON {
    switch answer.end {
    case .finished(let reason)?: return answer.message(reason)
    case .failed(let failure)?: return answer.message(.error, errorMessage: failure.message)
    case .deferred(let handle)?:
      var message = answer.message(.deferred).object ?? [:]
      message["deferred"] = handle
      return .object(message)
    case nil: return answer.message(.aborted)
    }
  }
}
