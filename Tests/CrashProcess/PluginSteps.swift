import Perdure
import PerdureModel
import PerdurePluginHost
import Synchronization

/// A change of installed plugins that dies before one of its steps.
struct PluginSteps {
  private let installation: PluginInstallation
  private let subject: String
  private let verb: String
  private let names: StepNames

  init(_ arguments: [String]) throws {
    guard let step = Int(arguments[4]) else {
      throw PerdureError(.invalidInput, "a change of plugins needs the number of a step")
    }
    let names = StepNames()
    var installation = PluginInstallation(folder: arguments[1])
    installation.base.onStep = { name in
      if names.add(name) == step { Failpoint.die() }
    }
    self.installation = installation
    self.names = names
    subject = arguments[2]
    verb = arguments[3]
  }

  func run() async throws {
    var choices = PluginChoices()
    choices.allowsUnsigned = true
    switch verb {
    case "install": try await installation.install(subject, choices)
    case "upgrade": try await installation.upgrade(subject, choices)
    case "rollback": try await installation.rollback(subject)
    case "uninstall": try await installation.uninstall(subject)
    default: throw PerdureError(.invalidInput, "there is no change '\(verb)'")
    }
    for name in names.all { print(name) }
  }
}

/// The steps that were reached.
private final class StepNames: Sendable {
  private let names = Mutex<[String]>([])

  /// Adds one and returns how many there are.
  func add(_ name: String) -> Int {
    names.withLock { names in
      names.append(name)
      return names.count
    }
  }

  var all: [String] { names.withLock { $0 } }
}
