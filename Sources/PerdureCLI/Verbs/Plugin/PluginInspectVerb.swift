import Perdure
import PerdureModel
import PerdureValue

/// `perdure plugin inspect`: what a plugin registers, without running its code.
enum PluginInspectVerb {
  static let verb = Verb(
    name: "plugin inspect",
    summary: "show what a plugin registers, without running its code",
    options: [Option(name: "json", help: "write one JSON object")],
    positionals: ["FILE"],
    body: { try await run($0, $1) }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let plugin = try PluginInspection(path: arguments.positionals.first ?? "")
    if reporter.isJSON {
      reporter.printStyled(String(decoding: EventLine.bytes(plugin.json), as: UTF8.self))
    } else {
      reporter.print(text(plugin))
    }
    return .ok
  }

  private static func text(_ plugin: PluginInspection) -> String {
    let manifest = plugin.json["manifest"]
    let note = plugin.json["note"]
    var lines = ["\(plugin.id) \(plugin.version)"]
    if let description = manifest?["description"]?.text { lines.append("  \(description)") }
    let level = note?["messageLevel"]?.int ?? 0
    lines += [
      "  file      \(plugin.json["path"]?.text ?? "")",
      "  sha256    \(plugin.digest)",
      "  runtime   \(note?["runtime"]?.text ?? "")",
      "  ABI       \(note?["abiMajor"]?.int ?? 0).\(note?["hostMinor"]?.int ?? 0), "
        + "message level \(level)",
    ]
    let needed = (plugin.json["needed"]?.array ?? []).compactMap { $0.text }
    if !needed.isEmpty { lines.append("  needs     \(needed.joined(separator: ", "))") }
    if let words = words(of: manifest?["permissions"]) { lines.append("  may       \(words)") }
    lines += contributions(manifest)
    lines += plugin.warnings.map { "warning: \($0)" }
    return lines.joined(separator: "\n")
  }

  /// The lines that say what a plugin registers.
  static func contributions(_ manifest: JSON?) -> [String] {
    var lines: [String] = []
    for tool in manifest?["tools"]?.array ?? [] { lines += describe(tool) }
    func add(_ key: JSONString, _ line: (JSON) -> String) {
      lines += (manifest?[key]?.array ?? []).map(line)
    }
    add("sections") { "section \($0["key"]?.text ?? "?")" }
    add("hooks") { hook in
      let tools = (hook["tools"]?.array ?? []).compactMap { $0.text }
      let place = tools.isEmpty ? "" : " of \(tools.joined(separator: ", "))"
      return "hook \(hook["point"]?.text ?? "?")\(place), \(hook["role"]?.text ?? "observer")"
    }
    add("wraps") { wrap in
      wrap["tool"]?.text.map { "wrap of the tool \($0)" }
        ?? "wrap of the section \(wrap["section"]?.text ?? "?")"
    }
    add("tasks") { "task \($0["type"]?.text ?? "?"), version \($0["version"]?.int ?? 1)" }
    add("documents") { document in
      let scope = document["scope"]?.text.map { " of a \($0)" } ?? ""
      return
        "document \(document["kind"]?.text ?? "?")\(scope), version \(document["version"]?.int ?? 1)"
    }
    return lines
  }

  /// What a plugin asks for, in words; `nil` if that is nothing.
  static func words(of permissions: JSON?) -> String? {
    var words: [String] = []
    for (key, value) in permissions?.object ?? [:] where value != false && value != .null {
      let text = value.text ?? (value.array?.compactMap { $0.text }.joined(separator: ", "))
      words.append(value == true ? key.string : "\(key.string): \(text ?? value.compactText)")
    }
    return words.isEmpty ? nil : words.joined(separator: "; ")
  }

  private static func describe(_ tool: JSON) -> [String] {
    let parameters = tool["parameters"]?["properties"]?.object ?? [:]
    let required = (tool["parameters"]?["required"]?.array ?? []).compactMap { $0.string }
    let names = parameters.keys.map { required.contains($0) ? $0.string : "[\($0.string)]" }
    return [
      "tool \(tool["name"]?.text ?? "?")(\(names.joined(separator: ", ")))",
      "  \(tool["description"]?.text ?? "")",
      "  replay    \(tool["replay"]?.text ?? "unsafe")",
    ]
  }
}
