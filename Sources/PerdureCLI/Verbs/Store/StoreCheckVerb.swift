import Perdure
import PerdureModel
import PerdureValue

/// `perdure store check`: what is broken in a store.
enum StoreCheckVerb {
  static let verb = Verb(
    name: "store check",
    summary: "find what is broken in a store, and change nothing",
    options: StoreVerbs.storeOption + [
      Option(name: "json", help: "write findings as JSON, one a line")
    ],
    notes: """
      It reads the files and tables, then checks the records against each other, and goes on
      behind each finding. It needs no right to write, and can run beside the process that
      owns the store. Lines that begin with 'note:' say what is no damage.

      Exit status: 0 nothing is broken, 1 something is, 3 the store cannot be read at all.
      """,
    hasEvents: true,
    body: { try await run($0, $1) }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let address = try StoreAddress(arguments)
    let site = try address.existingSite(isNamed: arguments.has("store"))
    reporter.header(["store": .string(address.text)])
    let checkup = try await StoreCheckup.run(site) { finding in
      if reporter.isJSON {
        reporter.event(
          "finding",
          [
            "code": .string(finding.code), "object": .string(finding.object),
            "message": .string(finding.message), "damage": .bool(finding.isDamage),
          ]
        )
      } else {
        let line = TerminalText.line(finding.description, limit: 1_000)
        reporter.print(finding.isDamage ? line : "note: " + line)
      }
    }
    let status: ExitStatus = checkup.damages == 0 ? .ok : .runFailed
    var members: JSONObject = ["findings": .int(checkup.damages), "notes": .int(checkup.notes)]
    if let visited = checkup.visited {
      members["conversations"] = .int(visited.conversations)
      members["tasks"] = .int(visited.tasks)
    }
    if !reporter.isJSON { reporter.print(summary(checkup, address)) }
    reporter.end(status, members)
  }

  private static func summary(_ checkup: StoreCheckup, _ address: StoreAddress) -> String {
    guard checkup.damages == 0 else {
      let count = checkup.damages == 1 ? "1 thing is" : "\(checkup.damages) things are"
      return "\(count) broken in \(address.text)"
    }
    let visited = checkup.visited.map {
      " (\(Counted.text($0.conversations, "conversation")), \(Counted.text($0.tasks, "task")))"
    }
    return "nothing is broken in \(address.text)\(visited ?? "")"
  }
}
