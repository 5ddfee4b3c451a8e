import Perdure
import PerdureModel
import PerdureValue

/// `perdure doctor sandbox`: what this machine can confine.
enum DoctorVerb {
  static let verb = Verb(
    name: "doctor sandbox",
    summary: "try each tier of the sandbox here, and say what it gives",
    options: [Option(name: "json", help: "write one JSON object")],
    notes: """
      Each tier is tried from its first stage to a command that does nothing. The exit
      status is 0 if the tier namespaces works, and 1 if it does not.
      """,
    body: { _, reporter in
      let checkup = try SandboxCheckup()
      if reporter.isJSON {
        reporter.printStyled(String(decoding: EventLine.bytes(checkup.json), as: UTF8.self))
      } else {
        reporter.print(text(checkup))
      }
      let isStrong = checkup.tiers.contains { $0.name == "namespaces" && $0.isAvailable }
      return isStrong ? .ok : .runFailed
    }
  )

  private static func text(_ checkup: SandboxCheckup) -> String {
    var lines = ["launcher \(checkup.launcher)"]
    lines += checkup.facts.map { "\($0.name) \($0.value)" }
    for tier in checkup.tiers {
      lines.append("")
      lines.append("tier \(tier.name): \(tier.isAvailable ? "works" : "does not work here")")
      lines.append("  \(meaning(tier.name))")
      if tier.isAvailable {
        let guarantees = tier.enforced.filter { !$0.hasPrefix("tier ") }
        if !guarantees.isEmpty { lines.append("  enforces: \(guarantees.joined(separator: ", "))") }
        if !tier.weakened.isEmpty {
          lines.append("  does without: \(tier.weakened.joined(separator: ", "))")
        }
      } else if let failure = tier.failure {
        lines.append("  why: \(failure.message)")
        if let hint = failure.hint { lines.append("  remedy: \(hint)") }
      }
    }
    return lines.joined(separator: "\n")
  }

  private static func meaning(_ tier: String) -> String {
    switch tier {
    case "namespaces":
      "--sandbox readonly, workspace and full: only what is shown exists for commands"
    case "landlock":
      "the same with --sandbox-tier landlock: weaker, because names and sizes of files, and command "
        + "lines, can be seen"
    default: "--sandbox none: nothing is confined"
    }
  }
}
