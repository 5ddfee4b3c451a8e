import Perdure
import PerdureModel
import PerdureValue

/// `perdure plugin list`, `info` and `verify`.
enum PluginListVerb {
  static let list = Verb(
    name: "plugin list",
    summary: "list the installed plugins",
    options: PluginVerbs.options,
    body: { arguments, reporter in
      let object = try await PluginVerbs.perform(PluginRequest(.list), arguments)
      let folder = try PluginVerbs.installation(arguments).folder
      PluginVerbs.say(object, text(object, folder), reporter)
      return .ok
    }
  )

  static let info = Verb(
    name: "plugin info",
    summary: "show an installed plugin with all that it registers",
    options: PluginVerbs.options,
    positionals: ["ID"],
    body: { arguments, reporter in
      let request = PluginRequest(.info, arguments.positionals.first)
      let object = try await PluginVerbs.perform(request, arguments)
      PluginVerbs.say(object, describe(object), reporter)
      return .ok
    }
  )

  static let verify = Verb(
    name: "plugin verify",
    summary: "check that installed plugins are as they were installed",
    options: PluginVerbs.options,
    positionals: ["[ID]"],
    notes: "Digests, signatures and manifests are checked. It ends with 1 if one is wrong.",
    body: { arguments, reporter in
      let request = PluginRequest(.verify, arguments.positionals.first)
      let object = try await PluginVerbs.perform(request, arguments)
      let problems = object["problems"]?.array ?? []
      PluginVerbs.say(object, problems.isEmpty ? good(object) : bad(problems), reporter)
      return problems.isEmpty ? .ok : .runFailed
    }
  )

  private static func text(_ object: JSONObject, _ folder: String) -> String {
    let plugins = (object["plugins"]?.array ?? []).compactMap { $0.object }
    guard !plugins.isEmpty else { return "no plugins are installed in \(folder)" }
    let rows = plugins.map { plugin in
      [
        plugin["id"]?.text ?? "", plugin["version"]?.text ?? "", plugin["state"]?.text ?? "",
        PluginVerbs.signer(plugin), marks(plugin),
      ]
    }
    let widths = (0..<4).map { column in rows.map { $0[column].count }.max() ?? 0 }
    var lines = rows.map { row in
      var line = ""
      for (column, width) in widths.enumerated() {
        line += row[column] + String(repeating: " ", count: width - row[column].count + 2)
      }
      line += row[4]
      while line.last == " " { line.removeLast() }
      return line
    }
    if let retired = object["retired"], let copies = retired["copies"]?.int, copies > 0 {
      let mapped = (retired["mappedBytes"]?.int ?? 0) >> 10
      let resident = (retired["residentBytes"]?.int ?? 0) >> 10
      lines.append(
        "\(copies) closed copies are still mapped (\(mapped) KiB, \(resident) KiB in memory)"
      )
      if let advice = retired["advice"]?.text { lines.append(advice) }
    }
    return lines.joined(separator: "\n")
  }

  private static func marks(_ plugin: JSONObject) -> String {
    var marks: [String] = []
    if plugin["pinned"] == true { marks.append("pinned") }
    if plugin["required"] == true { marks.append("required") }
    if let isolation = plugin["isolation"]?.text, isolation != "auto" { marks.append(isolation) }
    if plugin["quarantine"] != nil { marks.append("quarantined") }
    if let running = plugin["running"] {
      let version = running["version"]?.text ?? ""
      let other = version == plugin["version"]?.text ? "" : " \(version)"
      marks.append("running\(other), \(calls(running))")
      if running["degraded"] == true { marks.append("degraded") }
    }
    for old in plugin["draining"]?.array ?? [] {
      marks.append("\(old["version"]?.text ?? "") drains, \(calls(old))")
    }
    if let retired = plugin["retired"]?.int, retired > 0 { marks.append("\(retired) retired") }
    return marks.joined(separator: "; ")
  }

  private static func calls(_ running: JSON) -> String {
    Counted.text(running["calls"]?.array?.count ?? 0, "call")
  }

  private static func describe(_ object: JSONObject) -> String {
    var lines = ["\(object["id"]?.text ?? "") \(object["version"]?.text ?? "")"]
    func add(_ title: String, _ value: String?) {
      guard let value else { return }
      lines.append("  \(title)" + String(repeating: " ", count: 10 - title.count) + value)
    }
    if let description = object["manifest"]?["description"]?.text {
      lines.append("  \(description)")
    }
    add("state", object["state"]?.text)
    add("signer", object["signer"]?.text ?? "none")
    add("isolation", object["isolation"]?.text)
    add("not run", object["quarantine"]?.text)
    add("before", object["previous"]?.text)
    add("file", object["path"]?.text)
    add("sha256", object["digest"]?.text)
    let marks = marks(object)
    if !marks.isEmpty { add("in use", marks) }
    if let permissions = object["manifest"]?["permissions"] {
      add("may", PluginInspectVerb.words(of: permissions))
    }
    for line in PluginInspectVerb.contributions(object["manifest"]) { lines.append(line) }
    return lines.joined(separator: "\n")
  }

  private static func good(_ object: JSONObject) -> String {
    let count = object["plugins"]?.int ?? 0
    return count == 1
      ? "the plugin is as it was installed"
      : "\(count) plugins are as they were installed"
  }

  private static func bad(_ problems: [JSON]) -> String {
    problems.map {
      "\($0["id"]?.text ?? "") \($0["version"]?.text ?? ""): \($0["message"]?.text ?? "")"
    }.joined(separator: "\n")
  }
}
