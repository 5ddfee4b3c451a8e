import Perdure
import PerdureModel
import PerdureValue

/// `perdure plugin rollback`, `uninstall`, `enable` and `disable`.
enum PluginChangeVerb {
  static let rollback = Verb(
    name: "plugin rollback",
    summary: "go back to the version before; once more leads forward again",
    options: PluginVerbs.options,
    positionals: ["ID"],
    body: { arguments, reporter in
      try await run(PluginRequest(.rollback, arguments.positionals.first), arguments, reporter)
    }
  )

  static let uninstall = Verb(
    name: "plugin uninstall",
    summary: "remove a plugin that nothing needs",
    options: [
      Option(name: "drain", help: "let calls that are under way end, and remove it then"),
      Option(name: "force", help: "cancel its calls, and block its tasks"),
    ] + PluginVerbs.options,
    positionals: ["ID"],
    notes: """
      Whom its id belongs to is remembered. In a host that runs, its code stays mapped until
      the host ends.
      """,
    body: { try await remove($0, $1) }
  )

  static let enable = Verb(
    name: "plugin enable",
    summary: "let hosts load a plugin, and choose how it is used",
    options: PluginVerbs.choiceOptions + PluginVerbs.options,
    positionals: ["ID"],
    notes: "One that was quarantined, because it crashed again and again, is run again.",
    body: { arguments, reporter in
      var request = PluginRequest(.enable, arguments.positionals.first)
      request.choices = try PluginVerbs.choices(arguments)
      return try await run(request, arguments, reporter)
    }
  )

  static let disable = Verb(
    name: "plugin disable",
    summary: "let hosts pass a plugin over; it stays installed",
    options: PluginVerbs.options,
    positionals: ["ID"],
    body: { arguments, reporter in
      try await run(PluginRequest(.disable, arguments.positionals.first), arguments, reporter)
    }
  )

  private static func remove(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    var request = PluginRequest(.uninstall, arguments.positionals.first)
    switch (arguments.has("drain"), arguments.has("force")) {
    case (true, true):
      throw UsageError.make("--drain and --force exclude each other", "give one of them")
    case (true, false): request.removal = .drain
    case (false, true): request.removal = .force
    case (false, false): request.removal = .refuse
    }
    return try await run(request, arguments, reporter)
  }

  private static func run(
    _ request: PluginRequest,
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let object = try await PluginVerbs.perform(request, arguments)
    PluginVerbs.say(object, sentence(request.operation, object), reporter)
    return .ok
  }

  private static func sentence(
    _ operation: PluginRequest.Operation,
    _ object: JSONObject
  ) -> String {
    let id = object["plugin"]?.text ?? ""
    let version = object["version"]?.text ?? object["from"]?.text ?? ""
    var text =
      switch operation {
      case .rollback: "went back to \(id) \(version)"
      case .uninstall: "removed \(id) \(version)" + lastCalls(object)
      default:
        object["changed"] == true
          ? "\(id) \(version) is \(object["state"]?.text ?? "") now"
          : "\(id) \(version) is \(object["state"]?.text ?? "") already"
      }
    if object["stateLost"] == true { text += ", without the state of the other version" }
    let tasks = (object["blockedTasks"]?.array ?? []).compactMap { $0.int.map { "\($0)" } }
    if !tasks.isEmpty { text += "; tasks blocked by that: \(tasks.joined(separator: ", "))" }
    return text
  }

  /// What of a plugin that takes no more calls still runs.
  private static func lastCalls(_ object: JSONObject) -> String {
    let calls = (object["draining"]?.array ?? []).compactMap(\.text)
    if calls.isEmpty { return "" }
    let list = calls.joined(separator: ", ")
    return calls.count == 1
      ? "; a call that is under way ends first: \(list)"
      : "; \(calls.count) calls that are under way end first: \(list)"
  }
}
