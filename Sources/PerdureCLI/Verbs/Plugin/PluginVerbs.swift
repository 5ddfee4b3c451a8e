import Perdure
import PerdureModel
import PerdureValue

/// The verbs about installed plugins.
enum PluginVerbs {
  static let all = [
    PluginInstallVerb.install, PluginListVerb.list, PluginListVerb.info, PluginInstallVerb.upgrade,
    PluginChangeVerb.rollback, PluginChangeVerb.uninstall, PluginChangeVerb.enable,
    PluginChangeVerb.disable, PluginListVerb.verify, PluginInspectVerb.verb,
    PluginNewVerb.verb, PluginCheckVerb.verb, PluginTestVerb.verb, PluginDevVerb.verb,
  ]

  /// The option that names the folder.
  static let folderOption = Option(
    name: "plugins",
    value: "DIR",
    help: "the folder of installed plugins",
    standard: "perdure/plugins in $XDG_DATA_HOME,\nor else in ~/.local/share"
  )

  /// The options of every verb.
  static let options = [
    folderOption,
    Option(
      name: "store",
      value: "PATH",
      help: "the store whose host is asked, if one runs",
      standard: "your own store"
    ),
    Option(name: "json", help: "write one JSON object"),
  ]

  /// Options that choose how a plugin is used.
  static let choiceOptions = [
    Option(name: "pinned", help: "it counts in every conversation, first of all"),
    Option(name: "not-pinned", help: "it counts where it is selected"),
    Option(name: "required", help: "nothing goes on while it is down"),
    Option(name: "not-required", help: "what it does is left out while it is down"),
    Option(name: "isolation", value: "WHERE", help: "auto, in-process or runner"),
  ]

  /// The folder that is meant; one that is named has to be there unless `mayBeAbsent`.
  static func installation(
    _ arguments: ParsedArguments,
    mayBeAbsent: Bool = false
  ) throws -> PluginInstallation {
    guard let path = arguments.value("plugins") else {
      return PluginInstallation(folder: try PluginInstallation.userFolder())
    }
    guard !path.isEmpty else {
      throw UsageError.make("--plugins names nothing", "give the path of a folder")
    }
    let folder = HostText.fullPath(path) ?? HostText.absolutePath(path)
    switch HostText.kind(ofPath: folder) {
    case .folder: break
    case .nothing where mayBeAbsent: break
    case .nothing:
      throw PerdureError(
        .invalidConfiguration,
        "there is no folder of plugins at \(path)",
        hint: "give --plugins an existing folder; the first `perdure plugin install` makes it"
      )
    case .file, .other:
      throw PerdureError(
        .invalidConfiguration,
        "\(path) is no folder, so no plugins can be installed in it",
        hint: "give --plugins a folder, or a file of a plugin to --plugin"
      )
    }
    return PluginInstallation(folder: folder)
  }

  /// Lets a request be carried out in the folder that is meant, by the host of the store if one runs
  /// with the plugins of that folder.
  static func perform(
    _ request: PluginRequest,
    _ arguments: ParsedArguments
  ) async throws -> JSONObject {
    let installation = try installation(arguments, mayBeAbsent: request.operation == .install)
    if let client = try await host(of: installation, arguments) {
      var object = try await client.ask(request.operation.rawValue, request.parameters)
      object["host"] = true
      return object
    }
    if request.operation == .uninstall, request.removal != .force, let id = request.subject {
      try await StoredTasks.check(id, installation, arguments)
    }
    return try await request.perform(on: installation)
  }

  /// A connection to the host of the store, if it loads its plugins from this folder.
  private static func host(
    of installation: PluginInstallation,
    _ arguments: ParsedArguments
  ) async throws -> ControlClient? {
    // Without a place for a store of one's own there is none.
    guard let address = try? StoreAddress(arguments),
      let client = try ControlClient.connect(address)
    else { return nil }
    let run = try await client.ask("hello")["run"]
    return run?["pluginFolder"]?.text == installation.folder ? client : nil
  }

  /// Reads what is chosen for a plugin.
  static func choices(_ arguments: ParsedArguments) throws -> PluginChoices {
    var choices = PluginChoices()
    choices.isPinned = try flag("pinned", arguments)
    choices.isRequired = try flag("required", arguments)
    choices.isolation = try arguments.choice("isolation", Isolation.self)
    return choices
  }

  private static func flag(_ name: String, _ arguments: ParsedArguments) throws -> Bool? {
    switch (arguments.has(name), arguments.has("not-\(name)")) {
    case (true, true):
      throw UsageError.make("--\(name) and --not-\(name) exclude each other", "give one of them")
    case (true, false): return true
    case (false, true): return false
    case (false, false): return nil
    }
  }

  /// Says what became of a plugin, in the form that was asked for.
  static func say(_ object: JSONObject, _ sentence: String, _ reporter: Reporter) {
    if reporter.isJSON {
      reporter.printStyled(String(decoding: EventLine.bytes(.object(object)), as: UTF8.self))
    } else {
      reporter.print(sentence)
      if object["changed"] == true, object["host"] != true {
        reporter.progress("no host of this store runs; hosts that start from now on see it")
      }
      for warning in object["warnings"]?.array ?? [] {
        reporter.warn("warning: \(warning.text ?? "")")
      }
    }
  }

  /// Who signed a plugin, for people.
  static func signer(_ object: JSONObject) -> String {
    guard let key = object["signer"]?.text else { return "not signed" }
    return "signed by \(key)" + (object["firstUse"] == true ? ", trusted from now on" : "")
  }
}

/// Tasks in a store that nobody runs, as far as an installed plugin brings their code.
enum StoredTasks {
  private static let toldTasks = 5

  /// Throws `plugin_in_use` if tasks of the store need the plugin.
  static func check(
    _ id: String,
    _ installation: PluginInstallation,
    _ arguments: ParsedArguments
  ) async throws {
    let plugin = try installation.plugin(id)
    let address = try StoreAddress(arguments)
    if case .memory = address { return }
    // One that cannot be read is not worse off without its files.
    guard address.exists, let inspection = try? PluginInspection(path: plugin.path) else { return }
    let types = Set(
      (inspection.json["manifest"]?["tasks"]?.array ?? []).compactMap {
        $0["type"]?.text
      }
    )
    guard !types.isEmpty else { return }
    let reader = try await address.openReader(isNamed: arguments.has("store"))
    let tasks: [TaskRecord]
    do { tasks = try await reader.liveTasks() } catch {
      await reader.close()
      throw error
    }
    await reader.close()
    let needed = tasks.filter { types.contains($0.kind.string) }
    guard !needed.isEmpty else { return }
    let told = needed.prefix(toldTasks).map { "\($0.id) (\($0.kind.string))" }
    let rest = needed.count > toldTasks ? " and \(needed.count - toldTasks) more" : ""
    throw PerdureError(
      .pluginInUse,
      "the plugin \(id) is needed by tasks of the store \(address.text): "
        + told.joined(separator: ", ") + rest,
      hint: "let them end, or block them until it is installed again with --force",
      details: [
        "tasks": .array(needed.map { ["id": $0.id.json, "kind": .string($0.kind.string)] })
      ]
    )
  }
}
