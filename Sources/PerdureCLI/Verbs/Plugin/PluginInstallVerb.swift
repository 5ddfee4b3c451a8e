import Perdure
import PerdureModel
import PerdureValue

/// `perdure plugin install` and `perdure plugin upgrade`.
enum PluginInstallVerb {
  private static let trustOptions = [
    Option(
      name: "sig",
      value: "FILE",
      help: "its signature",
      standard: "the name of the plugin with .minisig behind it"
    ),
    Option(
      name: "key",
      value: "KEY",
      help: "the signer's public key: a file minisign.pub,\nor the line in it",
      standard: "whom its id belongs to, or minisign.pub beside it"
    ),
    Option(name: "allow-unsigned", help: "take it without a signature"),
    Option(name: "replace-signer", help: "take it from another signer than before"),
  ]

  static let install = Verb(
    name: "plugin install",
    summary: "install a plugin for all hosts",
    options: trustOptions + PluginVerbs.choiceOptions + PluginVerbs.options,
    positionals: ["FILE|DIR"],
    notes: """
      None of its code runs by that, unless a host of the store is running. The first signer
      of an id is remembered, and another one refused.
      """,
    body: { try await run(.install, $0, $1) }
  )

  static let upgrade = Verb(
    name: "plugin upgrade",
    summary: "install another version of a plugin, and keep the present one for a rollback",
    options: trustOptions + [
      Option(name: "allow-downgrade", help: "take an older version than the installed one"),
      Option(
        name: "discard-state",
        help: "go without the state of the present version, if the\nnew one does not take it over"
      ),
    ] + PluginVerbs.choiceOptions + PluginVerbs.options,
    positionals: ["FILE|DIR"],
    body: { try await run(.upgrade, $0, $1) }
  )

  private static func run(
    _ operation: PluginRequest.Operation,
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let path = arguments.positionals.first ?? ""
    var request = PluginRequest(operation, HostText.fullPath(path) ?? HostText.absolutePath(path))
    request.choices = try PluginVerbs.choices(arguments)
    request.choices.signaturePath = arguments.value("sig").map {
      HostText.fullPath($0) ?? HostText.absolutePath($0)
    }
    request.choices.signerKey = try arguments.value("key").map(key)
    request.choices.allowsUnsigned = arguments.has("allow-unsigned")
    request.choices.replacesSigner = arguments.has("replace-signer")
    request.choices.allowsDowngrade = arguments.has("allow-downgrade")
    request.choices.discardsState = arguments.has("discard-state")
    let object = try await PluginVerbs.perform(request, arguments)
    PluginVerbs.say(object, sentence(object), reporter)
    return .ok
  }

  /// The text of a key, which may stand in a file.
  private static func key(_ text: String) throws -> String {
    guard HostText.kind(ofPath: text) == .file else { return text }
    let bytes = try HostText.file(at: text, called: "the key", limit: 65_536)
    return String(decoding: bytes, as: UTF8.self)
  }

  private static func sentence(_ object: JSONObject) -> String {
    let name = "\(object["plugin"]?.text ?? "") \(object["version"]?.text ?? "")"
    var first = "\(name) is installed already"
    if object["changed"] == true {
      let old = object["from"]?.text.map { " in the place of \($0)" } ?? ""
      first = "installed \(name)\(old)"
    }
    var lines = ["\(first), \(PluginVerbs.signer(object))"]
    lines += (object["registers"]?.array ?? []).map { "  \($0.text ?? "")" }
    lines.append("  sha256 \(object["digest"]?.text ?? "")")
    if object["stateLost"] == true { lines.append("  the state of the old version is lost") }
    return lines.joined(separator: "\n")
  }
}
