import Perdure
import PerdureModel
import PerdureValue

/// The folder on whose files the tools of a run work.
struct WorkingFolder: Sendable {
  /// The extension that works on it.
  static let extensionName = "coding-tools"
  /// Where the store keeps what was enforced.
  static let scope = "environment"

  private let path: String
  private let mode: SandboxChoice.Mode
  private let environment: any Environment
  private let sandbox: OpenedSandbox?

  /// Opens it as `choice` says; throws if that is not possible, and opens nothing weaker.
  ///
  /// No command gets the variables of `secrets`.
  init(
    _ path: String,
    _ choice: SandboxChoice,
    withholding secrets: Set<String>
  ) throws(PerdureError) {
    self.path = path
    mode = choice.mode
    do throws(PerdureError) {
      if let policy = choice.policy(for: path) {
        let opened = try OpenedSandbox(policy)
        sandbox = opened
        environment = opened.environment
      } else {
        sandbox = nil
        environment =
          choice.mode == .none
          ? try Environments.local(cwd: path, withholding: secrets)
          : try Environments.directory(at: path)
      }
    } catch {
      throw Self.explained(error, path, choice)
    }
  }

  private static func explained(
    _ error: PerdureError,
    _ path: String,
    _ choice: SandboxChoice
  ) -> PerdureError {
    guard error.code != .file else {
      return PerdureError(
        .invalidConfiguration,
        "the working folder \(path) cannot be opened",
        hint: "give --cwd a folder that exists and may be entered",
        cause: error.cause ?? error.message
      )
    }
    let start = error.hint.map { "\($0); or see" } ?? "see"
    let weaker = choice.tier == .namespaces ? "--sandbox-tier landlock (weaker), " : ""
    return PerdureError(
      error.code,
      error.message,
      hint:
        "\(start) `perdure doctor sandbox`, or choose \(weaker)--sandbox files (no commands) or "
        + "--sandbox none (nothing is confined)",
      details: error.details,
      cause: error.cause
    )
  }

  /// What the harness is opened with.
  var choice: EnvironmentChoice { sandbox?.choice ?? .custom(environment) }

  /// What works on it; plugins may bring better tools of the same names.
  var extensions: [Extension] {
    [.codingTools(shell: environment.runsCommands, sessions: environment.hasSessions)]
  }

  /// What the header of `--json` and the store say of it: also what is enforced.
  var header: JSON {
    var object = environment.confinement.json.object ?? [:]
    object["folder"] = .string(path)
    object["sandbox"] = .string(mode.rawValue)
    if object["commands"] == nil { object["commands"] = "none are run" }
    return .object(object)
  }

  /// What is said to who watches.
  var line: String {
    let words = Self.network(header).map { ", network \($0)" } ?? ""
    return "sandbox \(mode.rawValue) (\(environment.confinement.tier)\(words)) on \(path)"
  }

  /// The stored form of it as a sentence for people; `nil` if it is none.
  static func sentence(_ stored: JSON?) -> String? {
    guard let stored, let tier = stored["tier"]?.text, let files = stored["files"]?.text,
      let folder = stored["folder"]?.text
    else { return nil }
    var sentence = "the last run worked on \(folder): \(files); "
    sentence += stored["commands"]?.text == "none are run" ? "commands " : ""
    sentence += stored["commands"]?.text ?? "none are run"
    if let mode = stored["sandbox"]?.text {
      sentence += " (--sandbox \(mode), tier \(tier)"
      if let network = network(stored) { sentence += ", network \(network)" }
      sentence += ")"
    }
    return sentence
  }

  /// What there is of a network, as `--network` takes it.
  private static func network(_ stored: JSON) -> String? {
    guard let word = stored["network"]?.text else { return nil }
    let hosts = (stored["allowed"]?.array ?? []).compactMap { $0.text }
    return hosts.isEmpty ? word : "\(word)=\(hosts.joined(separator: ","))"
  }

  /// Ends all commands, and a sandbox with them.
  func close() async {
    await environment.cleanup()
    await sandbox?.close()
  }
}
