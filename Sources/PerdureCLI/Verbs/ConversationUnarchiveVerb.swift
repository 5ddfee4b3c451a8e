import Perdure
import PerdureValue

/// `perdure conversation unarchive`: an archived conversation takes prompts again.
enum ConversationUnarchiveVerb {
  static let verb = Verb(
    name: "conversation unarchive",
    summary: "let an archived conversation take prompts again",
    options: StoreChange.options,
    positionals: ["ID"],
    body: { try await run($0, $1) }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let id = try StoreChange.conversation(arguments)
    try await StoreChange.run(arguments) { try await $0.unarchive(id) }
    let object: JSON = ["conversation": id.json, "status": "open"]
    StoreChange.say("opened conversation \(id) again", object, reporter)
    return .ok
  }
}
