import Perdure
import PerdureModel
import PerdureValue

/// `perdure pending`, `approve` and `deny`: people decide about calls.
enum ApprovalVerbs {
  static let all = [pending, approve, deny]

  private static let pending = Verb(
    name: "pending",
    summary: "list the calls that wait for an approval",
    options: RunOptions.forOwnStores.filter { ["store", "json"].contains($0.name) },
    notes: "It reads stores that another process works on, and changes nothing.",
    hasEvents: true,
    body: { try await list($0, $1) }
  )

  private static let approve = Verb(
    name: "approve",
    summary: "let a call be made that waits for an approval",
    options: StoreChange.options + [
      choice, Option(name: "note", value: "TEXT", help: "kept with the decision"),
    ],
    positionals: ["ID"],
    notes: "A process that works on the store goes on at once, and else 'perdure resume' does.",
    body: { try await decide($0, $1, allows: true) }
  )

  private static let deny = Verb(
    name: "deny",
    summary: "refuse a call that waits for an approval",
    options: StoreChange.options + [
      choice, Option(name: "reason", value: "TEXT", help: "told to the model"),
    ],
    positionals: ["ID"],
    notes: "A process that works on the store goes on at once, and else 'perdure resume' does.",
    body: { try await decide($0, $1, allows: false) }
  )

  private static let choice = Option(
    name: "choice",
    value: "NAME",
    help: "one of the question's own answers"
  )

  private static func list(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let address = try StoreAddress(arguments)
    let reader = try await address.openReader(isNamed: arguments.has("store"))
    reporter.header(["store": .string(address.text)])
    for approval in try await reader.pendingApprovals() {
      if reporter.isJSON {
        reporter.event("approval", ApprovalText.members(approval))
        continue
      }
      var words = ["\(approval.id)", ApprovalText.sentence(approval)]
      if let at = approval.askedAt { words.append("asked \(HostText.localTime(at))") }
      if let at = approval.expiresAt { words.append("expires \(HostText.localTime(at))") }
      reporter.print(words.joined(separator: "  "))
    }
    await reader.close()
    reporter.end(.ok)
  }

  private static func decide(
    _ arguments: ParsedArguments,
    _ reporter: Reporter,
    allows: Bool
  ) async throws -> ExitStatus {
    let text = arguments.positionals.first ?? ""
    guard let value = Int64(text), let id = TaskID(value) else {
      throw UsageError.make(
        "'\(text)' is no approval",
        "give its number; 'perdure pending' lists it"
      )
    }
    let choice = arguments.value("choice")
    let by = HostText.variable("USER")
    var result = try await StoreChange.perform(
      allows
        ? .approve(id, choice: choice, note: arguments.value("note"), by: by)
        : .deny(id, choice: choice, reason: arguments.value("reason"), by: by),
      arguments
    )
    let sentence = result["sentence"]?.text ?? ""
    result["sentence"] = nil
    let word = allows ? "approved" : "denied"
    StoreChange.say(
      "\(word) \(id): \(sentence)",
      .object(result),
      reporter
    )
    return .ok
  }
}
