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
    let hasChanged = try await StoreChange.run(on: id, arguments) { store in
      switch (try await store.reader.status(of: id), archives) {
      case (.archived, true), (.open, false): return false
      case (_, true): try await store.archive(id)
      case (_, false): try await store.unarchive(id)
      }
      return true
    }
    let state = archives ? "archived" : "open"
    let done = archives ? "archived conversation \(id)" : "opened conversation \(id) again"
    StoreChange.say(
      hasChanged ? done : "conversation \(id) is \(state) already; nothing changed",
      ["conversation": id.json, "status": .string(state), "changed": .bool(hasChanged)],
      reporter
    )
    return .ok
  }
}
