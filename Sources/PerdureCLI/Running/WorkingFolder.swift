import Perdure
import PerdureValue

/// The folder on whose files the tools of a run work.
struct WorkingFolder: Sendable {
  /// The extension that works on it.
  static let extensionName = "coding-tools"

  private let path: String
  private let environment: any Environment

  /// Opens it; throws if that is not possible.
  init(_ path: String) throws(PerdureError) {
    self.path = path
    do {
      environment = try Environments.directory(at: path)
    } catch {
      throw PerdureError(
        .invalidConfiguration,
        "the working folder \(path) cannot be opened",
        hint: "give --cwd a folder that exists and may be entered",
        cause: error.cause ?? error.message
      )
    }
  }

  /// What the harness is opened with.
  var choice: EnvironmentChoice { .custom(environment) }

  /// What works on it; plugins may bring better tools of the same names.
  var extensions: [Extension] { [.codingTools(shell: environment.runsCommands)] }

  /// What the header of `--json` says of it: also what is enforced.
  var header: JSON {
    var object = environment.confinement.json.object ?? [:]
    object["folder"] = .string(path)
    if object["commands"] == nil { object["commands"] = "none are run" }
    return .object(object)
  }
}
