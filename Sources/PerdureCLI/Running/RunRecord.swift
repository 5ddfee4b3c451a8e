import Perdure
import PerdureModel
import PerdureValue

/// How a store was run last, as it is kept in the store; never a key.
struct RunRecord: Sendable, Equatable {
  /// A plugin by the file it was loaded from.
  struct PluginFile: Sendable, Equatable {
    var path: String
    var id: String
    var version: String
    /// SHA-256 of the file, in hexadecimal.
    var digest: String
  }

  /// Where the value of a plugin's secret is.
  struct SecretBinding: Sendable, Equatable {
    var plugin: String
    var name: String
    /// The name of the variable that holds it.
    var variable: String

    /// The form of the option: `PLUGIN:NAME=VARIABLE`.
    var text: String { "\(plugin):\(name)=\(variable)" }

    /// Reads that form; `nil` if it is another one.
    init?(text: String) {
      guard let equals = text.lastIndex(of: "="), let colon = text[..<equals].firstIndex(of: ":")
      else { return nil }
      plugin = String(text[..<colon])
      name = String(text[text.index(after: colon)..<equals])
      variable = String(text[text.index(after: equals)...])
      guard !plugin.isEmpty, !name.isEmpty, RunOptions.isVariable(variable) else { return nil }
    }
  }

  var model: ModelReference
  /// The plugins that were named one by one.
  var plugins: [PluginFile] = []
  /// The folder whose plugins are loaded, too; absent: none are.
  var pluginFolder: String?
  /// What was installed there.
  var installed: [PluginFile] = []
  var isolation: Isolation = .auto
  /// The path of the script that stands in for a model.
  var faux: String?
  var baseURL: String?
  /// The name of the variable that holds the key.
  var keyVariable: String?
  var workingDirectory: String?
  /// What confines the work on that folder.
  var sandbox = SandboxChoice()
  var durability: Durability = .full
  var maxRetries: Int?
  /// How many answers a run may have; 0: any number, absent: `standardTurns`.
  var maxTurns: Int?
  /// How many tokens a run may use; 0 and absent: any number.
  var maxTokens: Int64?
  /// The tools whose calls need an approval.
  var approvedTools: [String] = []
  /// What plugins that ask for secrets get.
  var secrets: [SecretBinding] = []
  /// The names of the variables that hold what nobody but this process may have.
  var secretVariables: Set<String> {
    Set(secrets.map(\.variable) + [keyVariable].compactMap(\.self))
  }

  static let scope = "run"
  /// More than the work of an hour takes: it ends models that would never stop calling tools.
  static let standardTurns = 200

  init(model: ModelReference) { self.model = model }

  /// Reads the stored form; `nil` if it is not one that this version understands.
  init?(json: JSON) {
    guard json["version"]?.int == 1, let model = ModelReference(json: json["model"]) else {
      return nil
    }
    self.model = model
    guard let plugins = Self.files(json["plugins"]), let installed = Self.files(json["installed"])
    else { return nil }
    self.plugins = plugins
    self.installed = installed
    // Absent in records of versions that installed no plugins.
    pluginFolder =
      json["pluginFolder"].map { $0.text } ?? (try? PluginInstallation.userFolder())
    isolation = json["isolation"]?.text.flatMap(Isolation.init(rawValue:)) ?? .auto
    faux = json["faux"]?.text
    baseURL = json["baseUrl"]?.text
    keyVariable = json["apiKeyEnv"]?.text
    workingDirectory = json["cwd"]?.text
    sandbox = workingDirectory == nil ? SandboxChoice() : SandboxChoice(json: json["sandbox"])
    durability = json["durability"]?.text.flatMap(Durability.init(rawValue:)) ?? .full
    approvedTools = (json["requireApproval"]?.array ?? []).compactMap { $0.text }
    secrets = (json["secrets"]?.array ?? []).compactMap { json in
      json.text.flatMap { SecretBinding(text: $0) }
    }
    maxRetries = json["maxRetries"]?.int.flatMap { Int(exactly: $0) }
    maxTurns = json["maxTurns"]?.int.flatMap { Int(exactly: $0) }
    maxTokens = json["maxTokens"]?.int
  }

  private static func files(_ json: JSON?) -> [PluginFile]? {
    var files: [PluginFile] = []
    for plugin in json?.array ?? [] {
      guard let path = plugin["path"]?.text, let digest = plugin["digest"]?.text else {
        return nil
      }
      files.append(
        PluginFile(
          path: path,
          id: plugin["id"]?.text ?? "",
          version: plugin["version"]?.text ?? "",
          digest: digest
        )
      )
    }
    return files
  }

  private static func json(_ files: [PluginFile]) -> JSON {
    .array(
      files.map {
        [
          "path": .string($0.path), "id": .string($0.id), "version": .string($0.version),
          "digest": .string($0.digest),
        ]
      }
    )
  }

  /// The ids of the extensions that plugins bring, in order.
  var extensions: [String] { installed.map { $0.id } + plugins.map { $0.id } }

  /// The stored form.
  var json: JSON {
    var object: JSONObject = [
      "version": 1, "perdure": .string(PerdureVersion.perdure), "model": model.json,
      "plugins": Self.json(plugins), "isolation": .string(isolation.rawValue),
      "durability": .string(durability.rawValue),
    ]
    object["pluginFolder"] = pluginFolder.map { .string($0) } ?? .null
    if !installed.isEmpty { object["installed"] = Self.json(installed) }
    if let faux { object["faux"] = .string(faux) }
    if let baseURL { object["baseUrl"] = .string(baseURL) }
    if let keyVariable { object["apiKeyEnv"] = .string(keyVariable) }
    if let workingDirectory {
      object["cwd"] = .string(workingDirectory)
      object["sandbox"] = sandbox.json
    }
    if let maxRetries { object["maxRetries"] = .int(maxRetries) }
    if let maxTurns { object["maxTurns"] = .int(maxTurns) }
    if let maxTokens { object["maxTokens"] = .int(maxTokens) }
    if !approvedTools.isEmpty {
      object["requireApproval"] = .array(approvedTools.map { .string($0) })
    }
    if !secrets.isEmpty { object["secrets"] = .array(secrets.map { .string($0.text) }) }
    return .object(object)
  }

  /// Gives the value of a plugin's secret, which is read each time and never kept.
  @Sendable func secret(_ plugin: String, _ name: String) -> String? {
    secrets.first { $0.plugin == plugin && $0.name == name }
      .flatMap { HostText.variable($0.variable) }
  }

  /// Returns what another run had where this one differs, as options.
  func differences(from other: RunRecord) -> [String] {
    func option(_ name: String, _ value: String?) -> String {
      value.map { "--\(name) \(ShellWord.quoted($0))" } ?? "no --\(name)"
    }
    var found: [String] = []
    if faux != other.faux { found.append(option("faux", other.faux)) }
    if model != other.model, other.faux == nil || faux == other.faux {
      found.append(option("model", "\(other.model.provider)/\(other.model.modelId)"))
    }
    if plugins.map({ $0.path }) != other.plugins.map({ $0.path }) {
      let options = other.plugins.map { option("plugin", $0.path) }
      found.append(options.isEmpty ? "no --plugin" : options.joined(separator: " "))
    } else {
      for (plugin, before) in zip(plugins, other.plugins) where plugin != before {
        found.append("another file \(before.path)")
      }
    }
    if pluginFolder != other.pluginFolder {
      found.append(
        other.pluginFolder.map { "--plugins \(ShellWord.quoted($0))" } ?? "--no-plugins"
      )
    }
    if isolation != other.isolation { found.append(option("isolation", other.isolation.rawValue)) }
    if baseURL != other.baseURL { found.append(option("base-url", other.baseURL)) }
    if keyVariable != other.keyVariable { found.append(option("api-key-env", other.keyVariable)) }
    if secrets != other.secrets {
      let options = other.secrets.map { option("secret", $0.text) }
      found.append(options.isEmpty ? "no --secret" : options.joined(separator: " "))
    }
    if workingDirectory != other.workingDirectory {
      found.append(option("cwd", other.workingDirectory))
    }
    if other.workingDirectory != nil { found += sandbox.differences(from: other.sandbox) }
    if durability != other.durability {
      found.append(option("durability", other.durability.rawValue))
    }
    if maxRetries != other.maxRetries {
      found.append(option("max-retries", other.maxRetries.map { "\($0)" }))
    }
    if limits != other.limits {
      found.append("--max-turns \(other.limits.turns ?? 0)")
      found.append("--max-tokens \(other.limits.tokens ?? 0)")
    }
    return found
  }

  /// What a run may use; absent: any number.
  struct Limits: Equatable {
    var turns: Int?
    var tokens: Int64?
  }

  /// What a run may use, with what counts for what is not given.
  var limits: Limits {
    let turns = maxTurns ?? Self.standardTurns
    return Limits(turns: turns > 0 ? turns : nil, tokens: maxTokens.flatMap { $0 > 0 ? $0 : nil })
  }

  /// The models that this run asks.
  func models() throws -> any ModelProvider {
    if let faux { return try Models.faux(scriptAt: faux) }
    return try Models.openAI(
      name: model.provider,
      baseURL: baseURL,
      keyVariable: keyVariable ?? Models.defaultKeyVariable
    )
  }
}
