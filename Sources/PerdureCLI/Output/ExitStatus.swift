import Perdure
import PerdureModel
import PerdureValue

/// How the command ended, for scripts.
enum ExitStatus: Int32, Sendable {
  case ok = 0
  case runFailed = 1
  case usage = 2
  case configuration = 3
  case authentication = 4
  case pluginRefused = 5
  case limit = 6
  case approval = 7
  case storeInUse = 8
  case temporary = 75
  case interrupted = 130
  case terminated = 143

  // What is not named here is a run that failed.
  private static let table: [PerdureError.Code: ExitStatus] = [
    .usage: .usage,
    .invalidConfiguration: .configuration,
    .invalidInput: .configuration,
    .invalidRequest: .configuration,
    .notFound: .configuration,
    .documentMismatch: .configuration,
    .storeUnreadable: .configuration,
    .storeUnwritable: .configuration,
    .storeCorrupt: .configuration,
    .unsupportedFeature: .configuration,
    .pluginRefused: .pluginRefused,
    .storeInUse: .storeInUse,
    .conversationBusy: .temporary,
    // Why a submission got no answer.
    "authentication": .authentication,
    "quota": .limit,
    "retry": .temporary,
    "no_model": .configuration,
  ]

  /// Returns the status for an error; a session that failed ends as what it failed of.
  init(_ error: PerdureError) {
    var code = error.code
    if code == .sessionFailed, let inner = error.details?["code"]?.text {
      code = PerdureError.Code(rawValue: inner)
    }
    self = Self.table[code] ?? .runFailed
  }

  /// Returns the status for a signal.
  init(signal: Int32) { self = signal == 2 ? .interrupted : .terminated }
}

/// Says why a submission got no answer.
enum Unanswered {
  /// Makes the error of a submission that was settled without an answer.
  ///
  /// `failure` is what the engine noted about it, `reason` what its record says.
  static func error(reason: String, detail: JSON?, failure: JSON?) -> PerdureError {
    let kind = failure?["kind"]?.text ?? reason
    let said = failure?["message"]?.text ?? detail?.text
    var error = PerdureError(
      PerdureError.Code(rawValue: kind),
      sentence(kind),
      hint: hint(kind),
      cause: said
    )
    var details: JSONObject = ["reason": .string(reason)]
    if let wait = failure?["retryAfterMs"] { details["retryAfterMs"] = wait }
    error.details = .object(details)
    if let wait = failure?["retryAfterMs"]?.int, wait > 0 {
      error.hint = "run it again in \((wait + 999) / 1_000) s"
    }
    return error
  }

  private static func sentence(_ kind: String) -> String {
    switch kind {
    case "authentication": "the provider asks for a valid key"
    case "quota": "the provider's limit or quota is reached"
    case "retry": "the provider gave no answer"
    case "overflow": "the conversation is too long for the model"
    case "no_model": "there is no model to ask"
    case "aborted": "the run was aborted"
    case "faulted": "the run failed inside Perdure"
    default: "the run got no answer"
    }
  }

  private static func hint(_ kind: String) -> String? {
    switch kind {
    case "authentication": "put one into the variable that --api-key-env names"
    case "quota": "raise the limit at the provider, or choose another model"
    case "retry": "nothing is left to resume, so give the prompt again later"
    case "overflow": "choose a model with a larger context"
    case "no_model": "choose one with --model PROVIDER/ID, or play a script with --faux"
    default: nil
    }
  }
}
