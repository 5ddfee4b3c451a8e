import Perdure
import PerdureValue

/// `perdure conversation archive`: a conversation is only read from then on.
enum ConversationArchiveVerb {
  static let verb = Verb(
    name: "conversation archive",
    summary: "let a conversation only be read",
    options: StoreChange.options,
    positionals: ["ID"],
    notes: "It can still be forked, and 'perdure conversation unarchive' opens it again.",
    body: { try await run($0, $1) }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let id = try StoreChange.conversation(arguments)
    try await StoreChange.run(arguments) { try await $0.archive(id) }
    let object: JSON = ["conversation": id.json, "status": "archived"]
    StoreChange.say("archived conversation \(id)", object, reporter)
    return .ok
  }
}
