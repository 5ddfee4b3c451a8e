package import PerdureModel
package import PerdureValue

/// Says why a submission got no answer.
package enum Unanswered {
  /// Makes the error of a submission that was settled without an answer.
  ///
  /// `failure` is what the engine noted about it, `reason` what its record says.
  package static func error(reason: String, detail: JSON?, failure: JSON?) -> PerdureError {
    let kind = failure?["kind"]?.text ?? reason
    let said = failure?["message"]?.text ?? detail?.text
    var details: JSONObject = ["reason": .string(reason)]
    if let wait = failure?["retryAfterMs"] { details["retryAfterMs"] = wait }
    return PerdureError(
      // The engine's word says what it may do, not what happened.
      kind == "retry" ? .providerUnavailable : PerdureError.Code(rawValue: kind),
      sentence(kind),
      hint: hint(kind),
      details: .object(details),
      cause: said
    )
  }

  private static func sentence(_ kind: String) -> String {
    switch kind {
    case "authentication": "the provider asks for a valid key"
    case "quota": "the provider's limit or quota is reached"
    case "retry": "the provider gave no answer and the prompt is over"
    case "overflow": "the conversation is too long for the model"
    case "no_model": "there is no model to ask"
    case "aborted": "the run was aborted"
    case "reset": "the conversation was reset before there was an answer"
    case "run_failed": "the run before it failed"
    case "refused": "a hook refused the request"
    case "max_turns": "the run has had all the answers that it may have"
    case "budget": "the budget is used up"
    case "faulted": "the run failed inside Perdure"
    default: "the run got no answer"
    }
  }

  private static func hint(_ kind: String) -> String? {
    switch kind {
    case "authentication": "put one into the variable that the provider reads"
    case "quota": "raise the limit at the provider, or choose another model"
    case "retry": "submit it again later"
    case "max_turns": "submit again to go on, or raise the setting maxTurns"
    case "budget": "raise the budget in the settings"
    case "overflow": "choose a model with a larger context"
    default: nil
    }
  }
}

extension PerdureError.Code {
  /// The provider stayed overloaded or unreachable, and the prompt has ended without an answer.
  public static let providerUnavailable: Self = "provider_unavailable"
}
