import Perdure
import PerdureModel

/// The options that say how a store is run.
enum RunOptions {
  private static let plain: [Option] = [
    Option(
      name: "store",
      value: "PATH",
      help: "the SQLite file of the conversations,\na folder of JSON lines, or :memory:",
      standard: "perdure/perdure.sqlite in $XDG_DATA_HOME,\nor else in ~/.local/share"
    ),
    Option(
      name: "plugin",
      value: "FILE",
      isRepeatable: true,
      help: "load this plugin; may be repeated"
    ),
    PluginVerbs.folderOption,
    Option(name: "no-plugins", help: "load no installed plugins, only those of --plugin"),
    Option(
      name: "isolation",
      value: "WHERE",
      help: "auto, in-process or runner",
      standard: "auto"
    ),
    Option(
      name: "secret",
      value: "PLUGIN:NAME=VAR",
      isRepeatable: true,
      help: "the variable that holds a secret which a plugin\nasks for; may be repeated"
    ),
    Option(name: "model", value: "PROVIDER/ID", help: "the model to ask"),
    Option(
      name: "faux",
      value: "SCRIPT.json",
      help: "play this script instead of asking a model"
    ),
    Option(
      name: "base-url",
      value: "URL",
      help: "an OpenAI-compatible server, with any model id"
    ),
    Option(
      name: "api-key-env",
      value: "NAME",
      help: "the variable that holds the key",
      standard: Models.defaultKeyVariable
    ),
    Option(
      name: "cwd",
      value: "DIR",
      help: "let the model work on the files of this folder with\n"
        + "tools and commands, confined as --sandbox says"
    ),
    Option(
      name: "durability",
      value: "LEVEL",
      help: "full survives a power failure, normal a killed process",
      standard: "full"
    ),
    Option(
      name: "max-retries",
      value: "N",
      help: "how often a failed request is sent again",
      standard: "3"
    ),
    Option(
      name: "max-turns",
      value: "N",
      help: "how many answers of the model a run may have;\n0 sets no limit",
      standard: "\(RunRecord.standardTurns)"
    ),
    Option(
      name: "max-tokens",
      value: "N",
      help: "how many tokens a run may use before its last\nrequest; 0 sets no limit",
      standard: "0"
    ),
    Option(
      name: "require-approval",
      value: "TOOL",
      isRepeatable: true,
      help: "calls of this tool need an approval; may be repeated"
    ),
    ApprovalMode.option,
    Option(name: "json", help: "write events as JSON, one a line"),
  ]

  /// Behind the folder what it is confined by.
  static let all = plain.flatMap { $0.name == "cwd" ? [$0] + SandboxChoice.options : [$0] }

  /// The options of verbs that work on a store which is there: one in memory never is.
  static let forOwnStores = all.map { option in
    var option = option
    if option.name == "store" {
      option.help = "the SQLite file of the conversations,\nor a folder of JSON lines"
    }
    return option
  }

  /// The options of `resume`: what is not given is as it was, whatever the defaults are.
  static let forResume = forOwnStores.map { option in
    var option = option
    if !["store", "approvals"].contains(option.name) { option.standard = nil }
    return option
  }

  /// Returns how to run, from the command line and from how the store was run last.
  ///
  /// What is not given is as it was, if there is something that it was.
  static func resolve(_ arguments: ParsedArguments, recorded: RunRecord?) throws -> RunRecord {
    // What is written wrongly is told before what is missing.
    let (isolation, durability) = (
      try arguments.choice("isolation", Isolation.self),
      try arguments.choice("durability", Durability.self)
    )
    let retries = try arguments.number("max-retries", in: 0...1_000)
    let turns = try arguments.number("max-turns", in: 0...1_000_000)
    let tokens = try arguments.number("max-tokens", in: 0...1_000_000_000_000)
    var record = try base(arguments, recorded)
    if arguments.has("plugin") {
      record.plugins = try plugins(arguments.all("plugin"))
      // Whoever names a plugin wants it, whatever it did.
      for plugin in record.plugins { PluginCrashes.forget(plugin.id) }
    }
    record.pluginFolder = try pluginFolder(arguments, recorded)
    record.installed = try installed(record)
    if let isolation { record.isolation = isolation }
    if let durability { record.durability = durability }
    if let name = arguments.value("api-key-env") {
      guard isVariable(name) else {
        throw UsageError.make(
          "--api-key-env cannot be '\(name)'",
          "give the name of a variable: letters, digits and _"
        )
      }
      record.keyVariable = name
    }
    if let retries { record.maxRetries = Int(retries) }
    if let turns { record.maxTurns = Int(turns) }
    if let tokens { record.maxTokens = tokens }
    if arguments.has("require-approval") {
      record.approvedTools = arguments.all("require-approval")
    }
    if arguments.has("secret") { record.secrets = try arguments.all("secret").map(secret) }
    if let path = arguments.value("cwd") {
      let kind = HostText.kind(ofPath: path)
      guard kind == .folder, let full = HostText.fullPath(path) else {
        throw PerdureError(
          .invalidConfiguration,
          kind == .nothing
            ? "the working folder \(path) does not exist"
            : "the working folder \(path) is no folder",
          hint: "give --cwd an existing folder"
        )
      }
      // What is confined in one folder says nothing about another one.
      if record.workingDirectory != full { record.sandbox = SandboxChoice() }
      record.workingDirectory = full
    }
    record.sandbox = try record.sandbox.changed(by: arguments, folder: record.workingDirectory)
    return record
  }

  /// The folder whose plugins are loaded: the recorded one goes on to be.
  private static func pluginFolder(
    _ arguments: ParsedArguments,
    _ recorded: RunRecord?
  ) throws -> String? {
    if arguments.has("no-plugins") {
      guard !arguments.has("plugins") else {
        throw UsageError.make("--plugins and --no-plugins exclude each other", "give one of them")
      }
      return nil
    }
    if arguments.has("plugins") { return try PluginVerbs.installation(arguments).folder }
    if let recorded { return recorded.pluginFolder }
    return try? PluginInstallation.userFolder()
  }

  /// What is loaded from the folder; a plugin that is named itself takes the place of its like.
  private static func installed(_ record: RunRecord) throws -> [RunRecord.PluginFile] {
    guard let folder = record.pluginFolder else { return [] }
    return try PluginInstallation(folder: folder).list().filter { plugin in
      plugin.state == .enabled && !record.plugins.contains { $0.id == plugin.id }
    }.map {
      RunRecord.PluginFile(path: $0.path, id: $0.id, version: $0.version, digest: $0.digest)
    }
  }

  private static func secret(_ text: String) throws -> RunRecord.SecretBinding {
    guard let binding = RunRecord.SecretBinding(text: text) else {
      throw UsageError.make(
        "--secret cannot be '\(text)'",
        "write PLUGIN:NAME=VARIABLE, such as acme.crawl:CRAWL_TOKEN=MY_TOKEN"
      )
    }
    guard HostText.variable(binding.variable) != nil else {
      throw PerdureError(
        .invalidConfiguration,
        "the variable \(binding.variable) of --secret is not set",
        hint: "export it, and never write the value of a secret into a command"
      )
    }
    return binding
  }

  static func isVariable(_ name: String) -> Bool {
    guard let first = name.utf8.first else { return false }
    func isLetter(_ byte: UInt8) -> Bool {
      (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20) || byte == UInt8(ascii: "_")
    }
    return isLetter(first)
      && name.utf8.allSatisfy {
        isLetter($0) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
      }
  }

  private static func base(
    _ arguments: ParsedArguments,
    _ recorded: RunRecord?
  ) throws -> RunRecord {
    let wanted = try arguments.value("model").map(model)
    if let script = arguments.value("faux") {
      if arguments.has("base-url") {
        throw UsageError.make("--faux and --base-url exclude each other", "give one of them")
      }
      if let wanted, wanted.provider != Models.fauxModel.provider {
        throw UsageError.make(
          "--faux plays no model of \(wanted.provider)",
          "leave --model out, or use faux/NAME"
        )
      }
      var record = recorded ?? RunRecord(model: Models.fauxModel)
      record.model = wanted ?? Models.fauxModel
      record.faux = HostText.fullPath(script) ?? HostText.absolutePath(script)
      (record.baseURL, record.keyVariable) = (nil, nil)
      return record
    }
    let isAsking = arguments.has("base-url") || wanted != nil
    guard let model = wanted ?? recorded?.model,
      !arguments.has("base-url") || wanted != nil || recorded?.faux == nil
    else {
      throw PerdureError(
        .invalidConfiguration,
        "no model is chosen",
        hint: "give --model PROVIDER/ID, or play a script with --faux SCRIPT.json"
      )
    }
    var record = recorded ?? RunRecord(model: model)
    record.model = model
    let plays = recorded?.faux != nil && model.provider == Models.fauxModel.provider
    if isAsking, !plays { record.faux = nil }
    if let url = arguments.value("base-url") { record.baseURL = url }
    if record.faux == nil, record.baseURL == nil, model.provider != Models.defaultProvider {
      throw PerdureError(
        .invalidConfiguration,
        "no server is known for the provider \(model.provider)",
        hint: model.provider == Models.fauxModel.provider
          ? "give its script with --faux SCRIPT.json"
          : "name an OpenAI-compatible one with --base-url"
      )
    }
    return record
  }

  private static func model(_ text: String) throws -> ModelReference {
    guard let slash = text.firstIndex(of: "/"), slash != text.startIndex,
      text.index(after: slash) != text.endIndex
    else {
      throw UsageError.make(
        "--model cannot be '\(text)'",
        "write PROVIDER/ID, such as openai/gpt-5-mini"
      )
    }
    return ModelReference(
      provider: String(text[..<slash]),
      modelId: String(text[text.index(after: slash)...])
    )
  }

  /// Reads the plugins' files; throws if they cannot stand side by side.
  private static func plugins(_ paths: [String]) throws -> [RunRecord.PluginFile] {
    var owners: [String: String] = [:]
    var files: [RunRecord.PluginFile] = []
    for path in paths {
      let plugin = try PluginInspection(path: path)
      guard !files.contains(where: { $0.id == plugin.id }) else {
        throw PerdureError(
          .pluginRefused,
          "two plugins have the id \(plugin.id)",
          hint: "give --plugin for one of them"
        )
      }
      for tool in plugin.tools {
        if let other = owners[tool.name], !tool.overrides {
          throw PerdureError(
            .pluginRefused,
            "the plugins \(other) and \(plugin.id) both have a tool named \(tool.name)",
            hint: "rename one, or set \"overrides\" in the tool that is to replace the other"
          )
        }
        owners[tool.name] = plugin.id
      }
      files.append(
        RunRecord.PluginFile(
          path: HostText.fullPath(path) ?? HostText.absolutePath(path),
          id: plugin.id,
          version: plugin.version,
          digest: plugin.digest
        )
      )
    }
    return files
  }
}
