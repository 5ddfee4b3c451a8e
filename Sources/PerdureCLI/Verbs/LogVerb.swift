import Perdure
import PerdureModel
import PerdureValue

/// `perdure log`: what a conversation holds.
enum LogVerb {
  static let verb = Verb(
    name: "log",
    summary: "show a conversation, for people or as JSON",
    options: RunOptions.forOwnStores.filter { ["store", "json"].contains($0.name) },
    positionals: ["[CONVERSATION]"],
    notes: """
      It reads stores that another process works on, and stores of other versions, and
      changes nothing.
      """,
    hasEvents: true,
    body: { try await run($0, $1) }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let id = try conversation(arguments)
    let address = try StoreAddress(arguments)
    let reader = try await address.openReader(isNamed: arguments.has("store"))
    guard let record = try await reader.reads.conversation(id) else {
      let known = try await reader.conversations().map { "\($0.id)" }
      throw PerdureError(
        .notFound,
        "the store \(address.text) has no conversation \(id)",
        hint: known.isEmpty
          ? "it has none at all yet" : "it has \(known.prefix(20).joined(separator: ", "))"
      )
    }
    if case .deleted = try await reader.status(of: id) {
      throw PerdureError(.conversationDeleted, "conversation \(id) was deleted")
    }
    reporter.header(["store": .string(address.text), "conversation": record.id.json])
    for entry in try await reader.entries(of: id) {
      let time = try await reader.time(ofEntry: entry.id)
      if reporter.isJSON {
        reporter.event("entry", EventReport.members(of: entry, at: time))
      } else {
        show(entry, time, reporter)
      }
    }
    let live = try await reader.liveTasks().filter { $0.conversationId == id }
    let owner = address.owner
    if !reporter.isJSON, !live.isEmpty {
      let how =
        owner.map { "process \($0) works on it" }
        ?? "`\(address.resumeCommand)` continues it"
      reporter.print("[unfinished work; \(how)]")
    }
    await reader.close()
    var members: JSONObject = ["unfinished": .bool(!live.isEmpty)]
    if let owner { members["owner"] = .int(owner) }
    reporter.end(.ok, members)
  }

  private static func conversation(_ arguments: ParsedArguments) throws -> ConversationID {
    guard let text = arguments.positionals.first else { return .root }
    guard let value = Int64(text), let id = ConversationID(value) else {
      throw UsageError.make("'\(text)' is no conversation", "give its number")
    }
    return id
  }

  private static func show(_ entry: EntryRecord, _ time: Int64?, _ reporter: Reporter) {
    let (heading, body) = Transcript.section(of: entry)
    let when = time.map { "  " + HostText.localTime($0) } ?? ""
    let title = TerminalText.line("[\(entry.id)] \(heading)") + when
    reporter.printStyled(reporter.usesStyle ? "\u{1B}[1m\(title)\u{1B}[0m\n" : title + "\n")
    if !body.isEmpty { reporter.print(body) }
    reporter.printStyled("\n")
  }
}
