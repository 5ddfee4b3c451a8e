import Perdure
import PerdureModel
import PerdureValue

/// `perdure conversation archive` and `unarchive`: a conversation is only read, or takes prompts
/// again.
enum ConversationArchiveVerb {
  static let archive = Verb(
    name: "conversation archive",
    summary: "let a conversation only be read",
    options: StoreChange.options,
    positionals: ["ID"],
    notes: "It can still be forked, and 'perdure conversation unarchive' opens it again.",
    body: { try await run($0, $1, archives: true) }
  )

  static let unarchive = Verb(
    name: "conversation unarchive",
    summary: "let an archived conversation take prompts again",
    options: StoreChange.options,
    positionals: ["ID"],
    body: { try await run($0, $1, archives: false) }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter,
    archives: Bool
  ) async throws -> ExitStatus {
    let id = try StoreChange.conversation(arguments)
    let result = try await StoreChange.perform(
      archives ? .archive(id) : .unarchive(id),
      arguments
    )
    let hasChanged = result["changed"] == true
    let state = archives ? "archived" : "open"
    let done = archives ? "archived conversation \(id)" : "opened conversation \(id) again"
    StoreChange.say(
      hasChanged ? done : "conversation \(id) is \(state) already; nothing changed",
      .object(result),
      reporter
    )
    return .ok
  }
}
