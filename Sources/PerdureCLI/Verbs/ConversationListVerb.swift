import Perdure
import PerdureModel
import PerdureValue

/// `perdure conversation list`: which conversations a store holds.
enum ConversationListVerb {
  static let verb = Verb(
    name: "conversation list",
    summary: "list the conversations of a store",
    options: RunOptions.forOwnStores.filter { ["store", "json"].contains($0.name) },
    notes: "It reads stores that another process works on, and changes nothing.",
    hasEvents: true,
    body: { try await run($0, $1) }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let address = try StoreAddress(arguments)
    let reader = try await address.openReader(isNamed: arguments.has("store"))
    reporter.header(["store": .string(address.text)])
    for record in try await reader.conversations() {
      let status = try await reader.status(of: record.id)
      // What is left of a deleted conversation is no conversation.
      if case .deleted = status { continue }
      let newest = try await reader.reads.scanEntries(
        EntryQuery(conversationId: record.id),
        PageRequest(limit: 1)
      ).items.first
      var time: Int64?
      if let newest { time = try await reader.time(ofEntry: newest.id) }
      show(record, status, time, reporter)
    }
    await reader.close()
    reporter.end(.ok)
  }

  private static func show(
    _ record: ConversationRecord,
    _ status: ConversationStatus,
    _ time: Int64?,
    _ reporter: Reporter
  ) {
    var members = record.json.object ?? [:]
    var words = ["\(record.id)"]
    if let time {
      members["newestAt"] = .int(time)
      words.append(HostText.localTime(time))
    }
    if case .archived(let since) = status {
      members["archivedAt"] = .int(since)
      words.append("archived")
    }
    if let parent = record.parent { words.append("fork of \(parent.conversationId)") }
    if let owner = record.owner { words.append("owned by task \(owner.taskId)") }
    if reporter.isJSON {
      reporter.event("conversation", members)
    } else {
      reporter.print(words.joined(separator: "  "))
    }
  }
}
