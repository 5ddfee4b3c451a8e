package import PerdureModel
import PerdureValue

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
    return ModelInfo(reference: reference, api: "faux", contextWindow: 128_000, maxTokens: 16_384)
  }

  package func stream(_ request: ModelRequest) -> any ModelStream {
    let number = Self.turn(of: request.messages)
    guard number <= script.turns.count else {
      return EventStream([
        .failed(ProviderFailure(.stop, "the faux script has no turn \(number)"))
      ])
    }
    let attempts = script.turns[number - 1].attempts
    let position = min(max(request.attempt, 1), attempts.count) - 1
    let player = FauxPlayer(
      attempt: attempts[position],
      messages: request.messages,
      limits: limits,
      clock: clock
    )
    return EventStream { send in await player.play(send) }
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
