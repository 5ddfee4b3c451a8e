import Perdure
import PerdureModel
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
    let hasChanged = try await StoreChange.run(on: id, arguments) {
      if case .open = try await $0.reader.status(of: id) { return false }
      try await $0.unarchive(id)
      return true
    }
    StoreChange.say(
      hasChanged
        ? "opened conversation \(id) again" : "conversation \(id) is open already; nothing changed",
      ["conversation": id.json, "status": "open", "changed": .bool(hasChanged)],
      reporter
    )
    return .ok
  }
}
