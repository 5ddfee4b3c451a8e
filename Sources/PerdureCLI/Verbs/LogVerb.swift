import Perdure
import PerdureModel
import PerdureValue

/// `perdure log`: what a conversation holds.
enum LogVerb {
  static let verb = Verb(
    name: "log",
    summary: "show a conversation, for people or as JSON",
    options: RunOptions.forOwnStores.filter { ["store", "json"].contains($0.name) } + [
      Option(name: "last", value: "N", help: "show only the newest N entries")
    ],
    positionals: ["[CONVERSATION]"],
    notes: """
      With --last the time it takes does not depend on how long the conversation is.
      It reads stores that another process works on, and stores of other versions, and
      changes nothing. What is damaged is named at the end, and the rest is shown.
      """,
    hasEvents: true,
    body: { try await run($0, $1) }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let id = try conversation(arguments)
    let last = try arguments.number("last", in: 1...Int64(Int32.max))
    let address = try StoreAddress(arguments)
    let reader = try await address.openReader(isNamed: arguments.has("store"))
    guard let record = try await reader.reads.conversation(id) else {
      if let damage = reader.damages.first { throw damage }
      throw try await address.missing(id, reader)
    }
    if case .deleted = try await reader.status(of: id) {
      throw PerdureError(.conversationDeleted, "conversation \(id) was deleted")
    }
    // A store that is damaged there is shown all the same.
    let environment = (try? await reader.extra(scope: WorkingFolder.scope, id: 0)) ?? nil
    var header: JSONObject = ["store": .string(address.text), "conversation": record.id.json]
    if let environment, environment != .null { header["environment"] = environment }
    reporter.header(header)
    if !reporter.isJSON, let sentence = WorkingFolder.sentence(environment) {
      reporter.print("[\(sentence)]\n")
    }
    var damages = reader.damages
    damages += try await reader.forEachReadableEntry(of: id, last: last) { entry in
      let time = try await reader.time(ofEntry: entry.id)
      if reporter.isJSON {
        reporter.event("entry", EventReport.members(of: entry, at: time))
      } else {
        show(entry, time, reporter)
      }
      return HostText.waitForOutput()
    }
    var live: [TaskRecord] = []
    var queued: [SubmissionRecord] = []
    do {
      live = try await reader.liveTasks(of: id)
      queued = try await reader.queuedPrompts(of: id)
    } catch let error as PerdureError where error.code == .storeCorrupt {
      damages.append(error)
    }
    let owner = address.owner
    if !reporter.isJSON, !live.isEmpty {
      let how =
        owner.map { "process \($0) works on it" }
        ?? "`\(address.resumeCommand)` continues it"
      reporter.print("[unfinished work; \(how)]")
    }
    if !reporter.isJSON {
      for sentence in QueuedPrompts.sentences(queued, afterRun: !live.isEmpty) {
        reporter.print("[\(sentence)]")
      }
    }
    await reader.close()
    var members: JSONObject = ["unfinished": .bool(!live.isEmpty)]
    if !queued.isEmpty { members["queued"] = QueuedPrompts.json(queued) }
    if let owner { members["owner"] = .int(owner) }
    for damage in damages.dropFirst() { reporter.warn("\(damage)") }
    guard let first = damages.first else { reporter.end(.ok, members) }
    reporter.end(ExitStatus(first), members, error: first)
  }

  /// The conversation that is named, or the first one.
  static func conversation(_ arguments: ParsedArguments) throws -> ConversationID {
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
