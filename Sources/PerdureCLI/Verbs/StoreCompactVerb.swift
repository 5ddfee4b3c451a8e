import Perdure
import PerdureModel
import PerdureValue

/// `perdure store compact`: a store becomes as small as what it holds.
enum StoreCompactVerb {
  static let verb = Verb(
    name: "store compact",
    summary: "remove what is long over, and give the space of what was removed back",
    options: StoreChange.options + [
      Option(
        name: "older-than",
        value: "AGE",
        help: "remove ended tasks and settled submissions of this age,\nas 30d or 12h",
        standard: "nothing is removed"
      )
    ],
    notes: """
      Entries stay, and so does what unfinished work, a request id or an owned
      conversation needs. Conversations go with 'perdure conversation delete'.
      """,
    body: { try await run($0, $1) }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) async throws -> ExitStatus {
    let age = try Age.value("older-than", arguments)
    let result = try await StoreChange.perform(
      .compact(olderThan: age?.components.seconds),
      arguments
    )
    let (tasks, submissions) = (result["tasks"]?.int ?? 0, result["submissions"]?.int ?? 0)
    StoreChange.say(
      "removed \(tasks) tasks and \(submissions) submissions; compacted",
      .object(result),
      reporter
    )
    return .ok
  }
}
