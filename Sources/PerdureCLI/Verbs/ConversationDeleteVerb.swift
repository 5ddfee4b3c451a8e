import Perdure
import PerdureModel
import PerdureValue

/// `perdure conversation delete`: a conversation and all that belongs to it are gone.
enum ConversationDeleteVerb {
  static let verb = Verb(
    name: "conversation delete",
    summary: "delete a conversation with all that belongs to it",
    options: StoreChange.options + [
      Option(name: "forks", help: "delete its forks with it")
    ],
    positionals: ["ID"],
    notes: """
      There is no way back. Submissions with a request id stay as bare records, so that
      a repeated one is recognised. 'perdure store compact' gives the space back.
      """,
    body: { try await run($0, $1) }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let id = try StoreChange.conversation(arguments)
    let summary = try await StoreChange.run(on: id, arguments) {
      try await $0.delete(id, includingForks: arguments.has("forks"))
    }
    let others = summary.conversations.filter { $0 != id }
    let also =
      others.isEmpty ? "" : " and with it \(others.map { "\($0)" }.joined(separator: ", "))"
    StoreChange.say(
      "deleted conversation \(id)\(also): \(summary.entries) entries, \(summary.tasks) tasks",
      [
        "conversations": .array(summary.conversations.map { $0.json }),
        "entries": .int(summary.entries), "tasks": .int(summary.tasks),
        "submissions": .int(summary.submissions), "documents": .int(summary.documents),
        "keptSubmissions": .int(summary.keptSubmissions),
      ],
      reporter
    )
    return .ok
  }
}
