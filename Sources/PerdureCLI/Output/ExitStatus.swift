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
    .sandboxUnavailable: .configuration,
    .sandboxPolicy: .configuration,
    .pluginRefused: .pluginRefused,
    .pluginInUse: .pluginRefused,
    "plugins_busy": .temporary,
    .storeInUse: .storeInUse,
    .conversationBusy: .temporary,
    .conversationArchived: .configuration,
    .conversationDeleted: .configuration,
    .conversationInUse: .configuration,
    .storeBusy: .temporary,
    "host_gone": .temporary,
    // Why a submission got no answer.
    "authentication": .authentication,
    "quota": .limit,
    "max_turns": .limit,
    "budget": .limit,
    .providerUnavailable: .temporary,
    "no_model": .configuration,
    .approvalRequired: .approval,
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

/// What users of the program can do about a prompt that got no answer.
enum Remedy {
  /// Returns the error with a remedy that names options.
  static func added(to error: PerdureError) -> PerdureError {
    var error = error
    switch error.code {
    case "authentication": error.hint = "put one into the variable that --api-key-env names"
    case .providerUnavailable:
      let wait = error.details?["retryAfterMs"]?.int ?? 0
      error.hint = wait > 0 ? "give it again in \((wait + 999) / 1_000) s" : "give it again later"
    case "max_turns": error.hint = "give a prompt again to let it go on, or raise --max-turns"
    case "budget": error.hint = "give a prompt again to let it go on, or raise --max-tokens"
    default: break
    }
    return error
  }

  /// Returns the error with a remedy that names verbs, where what Swift programs do is meant.
  static func named(_ error: any Error, _ address: StoreAddress) -> any Error {
    guard var error = error as? PerdureError else { return error }
    let store = "--store \(ShellWord.quoted(address.text))"
    switch error.code {
    case .conversationArchived:
      let id = error.details?["conversation"]?.int.map { " \($0)" } ?? ""
      error.hint = "run `perdure conversation unarchive\(id) \(store)`"
    case .invalidConfiguration where error.hint?.contains("'perdure close'") == true:
      error.hint = error.hint?.replacing("'perdure close'", with: "`\(address.command("close"))`")
    case .conversationBusy where error.hint == nil:
      error.hint =
        "let the prompt wait with --when-busy follow-up, or change what is done with steer"
    case .conversationBusy where error.hint?.contains("abort") == true,
      .conversationInUse where error.hint?.contains("abort") == true:
      error.hint = "run `\(address.resumeCommand)`, which ends when the work is done"
    case .conversationInUse where error.hint?.contains("both at once") == true:
      error.hint = "delete the fork before, or both at once with --forks"
    default: break
    }
    return error
  }
}
