import Perdure
import PerdureModel
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
    let hasChanged = try await StoreChange.run(on: id, arguments) {
      if case .archived = try await $0.reader.status(of: id) { return false }
      try await $0.archive(id)
      return true
    }
    StoreChange.say(
      hasChanged
        ? "archived conversation \(id)" : "conversation \(id) is archived already; nothing changed",
      ["conversation": id.json, "status": "archived", "changed": .bool(hasChanged)],
      reporter
    )
    return .ok
  }
}
