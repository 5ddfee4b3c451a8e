import Perdure
import PerdureModel
import PerdureValue

/// `perdure plugin check`: whether a plugin keeps the contract, found out by breaking it.
enum PluginCheckVerb {
  static let verb = Verb(
    name: "plugin check",
    summary: "find out whether a plugin keeps the contract",
    options: [
      Option(name: "json", help: "write one JSON object"),
      Option(name: "only-failed", help: "say nothing of tests that pass"),
      Option(
        name: "reproduce",
        value: "SEED",
        help: "make the inputs of an earlier check",
        standard: "other ones each time"
      ),
      Option(name: "in-process", help: "run all tests in this process, for a debugger"),
      Option(
        name: "group",
        value: "NAME",
        help: "only the tests of one group, or one test",
        standard: "all"
      ),
    ],
    positionals: ["FILE"],
    notes: """
      The groups are \(PluginCheckup.groups.joined(separator: ", ")).
      Each test runs in a process and an empty folder of its own. Tools are called with made-up
      arguments that fit their schemas: do not check a plugin whose tools may do harm.
      Exit status 5 if a test fails.
      """,
    body: { try await run($0, $1) }
  )

  /// What this program starts itself with to run one test.
  static let one = Verb(
    name: "plugin check-one",
    summary: "run one test of plugin check, which starts this itself",
    options: [
      Option(name: "seed", value: "SEED", help: "where chance begins"),
      Option(name: "copies", value: "FOLDER", help: "the folder of private copies"),
    ],
    positionals: ["FILE", "TEST"],
    body: { arguments, _ in
      PluginCheckup.runOne(
        arguments.positionals.last ?? "",
        path: arguments.positionals.first ?? "",
        copies: arguments.value("copies") ?? "",
        seed: UInt64(arguments.value("seed") ?? "") ?? 0
      )
      return .ok
    }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let given = try arguments.number("reproduce", in: 0...Int64.max)
    let seed = given.map(UInt64.init) ?? UInt64.random(in: 1...999_999_999)
    let group = arguments.value("group")
    try checkGroup(group)
    let path = HostText.absolutePath(arguments.positionals.first ?? "")
    let checkup = try PluginCheckup(
      path: path,
      seed: seed,
      group: group,
      isInProcess: arguments.has("in-process"),
      verb: ["plugin", "check-one"]
    )
    var findings: [JSON] = []
    let onlyFailed = arguments.has("only-failed")
    let plugin = try checkup.run { finding in
      if !reporter.isJSON, !onlyFailed || isFailure(finding) {
        reporter.print(line(finding, after: findings))
      }
      findings.append(finding)
    }
    return end(path, plugin, seed, findings, onlyFailed, reporter)
  }

  private static func checkGroup(_ group: String?) throws {
    let groups = PluginCheckup.groups
    guard let group, !groups.contains(group), !PluginCheckup.tests.contains(group),
      !group.hasPrefix("file/")
    else { return }
    throw UsageError.make(
      "--group cannot be '\(group)'",
      Suggestion.sentence(for: group, among: groups + PluginCheckup.tests)
        ?? "use one of \(groups.joined(separator: ", "))"
    )
  }

  private static func isFailure(_ finding: JSON) -> Bool { finding["outcome"]?.text == "failed" }

  private static func end(
    _ path: String,
    _ plugin: (id: String, version: String)?,
    _ seed: UInt64,
    _ findings: [JSON],
    _ onlyFailed: Bool,
    _ reporter: Reporter
  ) -> ExitStatus {
    func count(_ outcome: String) -> Int { findings.count { $0["outcome"]?.text == outcome } }
    let failed = count("failed")
    let skipped = count("skipped")
    if reporter.isJSON {
      var object: JSONObject = ["path": .string(path)]
      if let plugin {
        object["id"] = .string(plugin.id)
        object["version"] = .string(plugin.version)
      }
      object["seed"] = .int(Int64(seed))
      object["tests"] = .int(findings.count)
      object["failed"] = .int(failed)
      object["findings"] = .array(onlyFailed ? findings.filter(isFailure) : findings)
      reporter.printStyled(String(decoding: EventLine.bytes(.object(object)), as: UTF8.self))
    } else {
      let name = plugin.map { "\($0.id) \($0.version)" } ?? path
      var sentence = "\(name): \(Counted.text(findings.count, "test")), \(failed) failed"
      if skipped > 0 { sentence += ", \(skipped) skipped" }
      reporter.print(sentence + ", seed \(seed)")
      if failed > 0 {
        reporter.print("repeat it with --reproduce \(seed), one group with --group NAME")
      }
    }
    return failed > 0 ? .pluginRefused : .ok
  }

  /// One line for people; what an earlier test found already is not said twice.
  private static func line(_ finding: JSON, after earlier: [JSON]) -> String {
    let name = finding["name"]?.text ?? "?"
    let padded = name + String(repeating: " ", count: max(1, 24 - name.count))
    let reason = finding["reason"]?.text
    let shown = String((reason ?? "").map { $0.isNewline ? " " : $0 })
    switch finding["outcome"]?.text {
    case "passed":
      let note = shown.isEmpty ? "" : " (\(shown))"
      return "ok      \(padded)\(finding["question"]?.text ?? "")\(note)"
    case "skipped": return "skipped \(padded)\(shown)"
    default:
      if let same = earlier.first(where: { isFailure($0) && $0["reason"]?.text == reason }) {
        return "FAILED  \(padded)the same as \(same["name"]?.text ?? "?")"
      }
      let remedy = finding["remedy"]?.text.map { "; \($0)" } ?? ""
      return "FAILED  \(padded)\(shown)\(remedy)"
    }
  }
}
