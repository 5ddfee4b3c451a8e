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
    let result = try await StoreChange.perform(
      .delete(id, forks: arguments.has("forks")),
      arguments
    )
    let others = (result["conversations"]?.array ?? []).compactMap { $0.int }
      .filter { $0 != id.value }
    let also =
      others.isEmpty ? "" : " and with it \(others.map { "\($0)" }.joined(separator: ", "))"
    let (entries, tasks) = (result["entries"]?.int ?? 0, result["tasks"]?.int ?? 0)
    StoreChange.say(
      "deleted conversation \(id)\(also): \(entries) entries, \(tasks) tasks",
      .object(result),
      reporter
    )
    return .ok
  }
}
