package import PerdureModel
package import PerdureValue

/// A provider that answers from a script; nothing is kept in memory between requests.
///
/// The turn is chosen by the number of assistant messages behind the last user message, the attempt
/// by the durable attempt of the request, so a script goes on where it was after a restart.
package struct FauxProvider: ModelProvider {
  /// The provider's name.
  package static let name = "faux"
  /// The model that is used unless another one is asked for.
  package static let defaultModel = ModelReference(provider: name, modelId: "faux-1")

  private let script: FauxScript
  private let limits: ProviderLimits
  private let clock: any HostClock

  /// Makes a provider; delays and stalls follow `clock`.
  package init(
    script: FauxScript,
    limits: ProviderLimits = ProviderLimits(),
    clock: any HostClock
  ) {
    self.script = script
    self.limits = limits
    self.clock = clock
  }

  /// Returns a description of any model of this provider.
  package func model(_ reference: ModelReference) -> ModelInfo? {
    guard reference.provider == Self.name, !reference.modelId.isEmpty else { return nil }
    return ModelInfo(
      reference: reference,
      api: "faux",
      contextWindow: script.contextWindow,
      maxTokens: script.maxTokens
    )
  }

  package func stream(_ request: ModelRequest) -> any ModelStream {
    let number = request.purpose == .summary ? 0 : Self.turn(of: request.messages)
    guard let turn = turn(number) else {
      let what = number == 0 ? "summary" : "turn \(number)"
      return EventStream([
        .failed(ProviderFailure(.stop, "the faux script has no \(what)"))
      ])
    }
    let position = min(max(request.attempt, 1), turn.attempts.count) - 1
    let attempt = turn.attempts[position]
    if let deferral = attempt.deferral {
      return EventStream([
        Self.held(turn: number, attempt: position, deferral, left: deferral.pendingFetches)
      ])
    }
    return play(attempt, request.messages)
  }

  /// The turn of this number, from 1; 0 is the summary.
  private func turn(_ number: Int) -> FauxScript.Turn? {
    if number == 0 { return script.summary }
    return script.turns.indices.contains(number - 1) ? script.turns[number - 1] : nil
  }

  private func play(_ attempt: FauxScript.Attempt, _ messages: [JSON]) -> any ModelStream {
    let player = FauxPlayer(attempt: attempt, messages: messages, limits: limits, clock: clock)
    return EventStream { send in await player.play(send) }
  }

  // MARK: Deferred answers

  /// The handle says all that is needed, so that a script goes on where it was after a restart.
  private static func held(
    turn: Int,
    attempt: Int,
    _ deferral: FauxScript.Deferral,
    left: Int64
  ) -> ModelEvent {
    var handle: JSONObject = ["turn": .int(turn), "attempt": .int(attempt), "left": .int(left)]
    if let delay = deferral.pollAfterMs { handle["pollAfterMs"] = .int(delay) }
    return .deferred(handle: .object(handle))
  }

  package func fetchDeferred(_ handle: JSON, of model: ModelInfo) -> any ModelStream {
    guard let number = handle["turn"]?.int, let position = handle["attempt"]?.int,
      let left = handle["left"]?.int, let turn = turn(Int(clamping: number)),
      turn.attempts.indices.contains(Int(clamping: position)),
      let deferral = turn.attempts[Int(clamping: position)].deferral
    else {
      return EventStream([
        .failed(ProviderFailure(.stop, "the faux script holds no such deferred answer"))
      ])
    }
    let place = Int(clamping: position)
    guard left <= 0 else {
      return EventStream([
        Self.held(turn: Int(clamping: number), attempt: place, deferral, left: left - 1)
      ])
    }
    return play(turn.attempts[place], [])
  }

  /// Returns the number of the turn that answers these messages, from 1.
  static func turn(of messages: [JSON]) -> Int {
    var number = 1
    for message in messages.reversed() {
      switch message["role"]?.text {
      case "user": return number
      case "assistant": number += 1
      default: continue
      }
    }
    return number
  }
}
