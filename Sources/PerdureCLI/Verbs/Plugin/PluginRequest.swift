import Perdure
import PerdureModel
import PerdureValue

/// What can be asked about installed plugins: of a folder, or of a host that runs with them.
protocol PluginHolder: Sendable {
  func list() throws -> [InstalledPlugin]
  func plugin(_ id: String) throws -> InstalledPlugin
  func install(_ path: String, _ choices: PluginChoices) async throws -> PluginChange
  func upgrade(_ path: String, _ choices: PluginChoices) async throws -> PluginChange
  func rollback(_ id: String) async throws -> PluginChange
  func enable(_ id: String, _ choices: PluginChoices) async throws -> PluginChange
  func disable(_ id: String) async throws -> PluginChange
  func remove(_ id: String, _ removal: PluginRemoval) async throws -> PluginChange
  func verify(_ id: String?) throws -> [PluginProblem]
}

extension PluginInstallation: PluginHolder {
  // Nothing runs here, so there are no calls; tasks were looked for in the store before.
  func remove(_ id: String, _ removal: PluginRemoval) async throws -> PluginChange {
    try await uninstall(id)
  }
}

extension InstalledPlugins: PluginHolder {
  func remove(_ id: String, _ removal: PluginRemoval) async throws -> PluginChange {
    try await uninstall(id, removal)
  }

  func verify(_ id: String?) throws -> [PluginProblem] { try installation.verify(id) }
}

/// A look at the installed plugins or a change of them, whoever runs with them.
struct PluginRequest: Sendable {
  /// What is asked for, by the name under which the control socket knows it.
  enum Operation: String, Sendable {
    case install = "plugin.install"
    case list = "plugin.list"
    case info = "plugin.info"
    case upgrade = "plugin.upgrade"
    case rollback = "plugin.rollback"
    case uninstall = "plugin.uninstall"
    case enable = "plugin.enable"
    case disable = "plugin.disable"
    case verify = "plugin.verify"
  }

  var operation: Operation
  /// The plugin, or the absolute path of the one to be installed.
  var subject: String?
  var choices = PluginChoices()
  var removal = PluginRemoval.refuse

  init(_ operation: Operation, _ subject: String? = nil) {
    self.operation = operation
    self.subject = subject
  }

  // MARK: For the control socket

  /// Reads a request; `nil` if its name is that of another one.
  init?(operation: String, parameters: JSONObject) throws(PerdureError) {
    guard let operation = Operation(rawValue: operation) else { return nil }
    self.init(operation)
    let reader = PluginParameters(operation: operation.rawValue, members: parameters)
    subject = try reader.text("plugin")
    if subject == nil, operation != .list, operation != .verify {
      throw reader.wrong("plugin", "a text")
    }
    choices.signaturePath = try reader.text("signature")
    choices.signerKey = try reader.text("key")
    choices.allowsUnsigned = try reader.flag("allowUnsigned") ?? false
    choices.replacesSigner = try reader.flag("replaceSigner") ?? false
    choices.isPinned = try reader.flag("pinned")
    choices.isRequired = try reader.flag("required")
    choices.allowsDowngrade = try reader.flag("allowDowngrade") ?? false
    choices.discardsState = try reader.flag("discardState") ?? false
    if let word = try reader.text("isolation") {
      guard let isolation = Isolation(rawValue: word) else {
        throw reader.wrong("isolation", "auto, in-process or runner")
      }
      choices.isolation = isolation
    }
    if let word = try reader.text("removal") {
      guard let removal = PluginRemoval(rawValue: word) else {
        throw reader.wrong("removal", "refuse, drain or force")
      }
      self.removal = removal
    }
  }

  /// What the control socket carries beside the name of the operation.
  var parameters: JSONObject {
    var object: JSONObject = [:]
    object["plugin"] = subject.map { .string($0) }
    object["signature"] = choices.signaturePath.map { .string($0) }
    object["key"] = choices.signerKey.map { .string($0) }
    let flags: [(JSONString, Bool)] = [
      ("allowUnsigned", choices.allowsUnsigned), ("replaceSigner", choices.replacesSigner),
      ("allowDowngrade", choices.allowsDowngrade), ("discardState", choices.discardsState),
    ]
    for (name, flag) in flags where flag { object[name] = true }
    object["pinned"] = choices.isPinned.map { .bool($0) }
    object["required"] = choices.isRequired.map { .bool($0) }
    object["isolation"] = choices.isolation.map { .string($0.rawValue) }
    if removal != .refuse { object["removal"] = .string(removal.rawValue) }
    return object
  }

  // MARK: Doing it

  /// Does what is asked for and returns what is told of it.
  func perform(on holder: some PluginHolder) async throws -> JSONObject {
    let subject = subject ?? ""
    // Whoever asks for a version wants it to run, whatever another one or an earlier process did.
    if [.rollback, .enable].contains(operation) { PluginCrashes.forget(subject) }
    switch operation {
    case .install, .upgrade:
      let change =
        try await operation == .install
        ? holder.install(subject, choices) : holder.upgrade(subject, choices)
      if change.hasChanged { PluginCrashes.forget(change.id) }
      return change.json
    case .rollback: return try await holder.rollback(subject).json
    case .uninstall: return try await holder.remove(subject, removal).json
    case .enable: return try await holder.enable(subject, choices).json
    case .disable: return try await holder.disable(subject).json
    case .info: return try info(try holder.plugin(subject))
    case .list:
      var object: JSONObject = ["plugins": .array(try holder.list().map { $0.json })]
      if holder is InstalledPlugins { object["retired"] = RetiredPlugins.now.json }
      return object
    case .verify:
      let problems = try holder.verify(self.subject)
      let count = self.subject == nil ? try holder.list().count : 1
      return [
        "plugins": .int(count), "problems": .array(problems.map { $0.json }),
      ]
    }
  }

  private func info(_ plugin: InstalledPlugin) throws -> JSONObject {
    var object = plugin.json.object ?? [:]
    let inspection = try PluginInspection(path: plugin.path)
    object["manifest"] = inspection.json["manifest"]
    object["needed"] = inspection.json["needed"]
    object["warnings"] = inspection.json["warnings"]
    return object
  }
}

/// Reads the parameters of a request; what has the wrong type is an error that names it.
private struct PluginParameters {
  let operation: String
  let members: JSONObject

  func text(_ name: String) throws(PerdureError) -> String? {
    guard let value = members[JSONString(name)], value != .null else { return nil }
    guard let text = value.text else { throw wrong(name, "a text") }
    return text
  }

  func flag(_ name: String) throws(PerdureError) -> Bool? {
    guard let value = members[JSONString(name)], value != .null else { return nil }
    guard let flag = value.bool else { throw wrong(name, "true or false") }
    return flag
  }

  func wrong(_ name: String, _ what: String) -> PerdureError {
    PerdureError(
      .invalidRequest,
      "the parameter '\(name)' of the control request \(operation) must be \(what)"
    )
  }
}

extension InstalledPlugins {
  /// What runs, as the header line of a run tells it.
  var headers: [JSON] {
    // Whoever damages the folder meanwhile does not change what runs.
    ((try? list()) ?? []).compactMap { plugin in
      guard let running = plugin.running else { return nil }
      return [
        "id": .string(plugin.id), "version": .string(running.version),
        "digest": .string(running.digest), "isolation": .string(running.isolation.rawValue),
        "installed": true,
      ]
    }
  }
}

extension PluginRequest {
  /// Does what is asked for where a host runs, while it runs.
  func perform(on host: RunningHost) async throws -> JSONObject {
    guard let installed = host.installed else {
      throw PerdureError(
        .invalidRequest,
        "this host runs without installed plugins",
        hint: "start it again without --no-plugins"
      )
    }
    return try await perform(on: installed)
  }
}
