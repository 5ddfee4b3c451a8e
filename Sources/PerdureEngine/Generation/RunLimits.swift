import PerdureModel
import PerdureValue

/// The limits that the settings put on a run and on its conversation.
///
/// Nothing is counted beside the transcript: what has been used is derived from the entries and
/// from `pi.usage`, so a restart forgets nothing.
struct RunLimits {
  /// A limit that has been reached.
  struct Excess {
    /// The reason with which inputs stay unanswered.
    var reason: String
    var text: String
  }

  private let runtime: TaskRuntime

  init(_ runtime: TaskRuntime) { self.runtime = runtime }

  /// Returns the limit that another request would go beyond, or `nil`.
  func excess() async throws -> Excess? {
    let settings = runtime.settings
    if settings.maxTurns != nil || !settings.runBudget.isUnlimited {
      let run = try await run()
      if let greatest = settings.maxTurns, run.turns >= greatest {
        return Excess(
          reason: "max_turns",
          text: "the run has had \(run.turns) answers of \(greatest)"
        )
      }
      if let text = Self.excess(run.usage, settings.runBudget, "the run") {
        return Excess(reason: "budget", text: text)
      }
    }
    if settings.conversationBudget.isUnlimited { return nil }
    return Self.excess(try await conversation(), settings.conversationBudget, "the conversation")
      .map { Excess(reason: "budget", text: $0) }
  }

  private static func excess(
    _ usage: Usage,
    _ budget: Settings.Budget,
    _ what: String
  ) -> String? {
    if let greatest = budget.tokens, usage.totalTokens >= greatest {
      return "\(what) has used \(usage.totalTokens) of \(greatest) tokens"
    }
    if let greatest = budget.cost, usage.cost.total >= greatest {
      return "\(what) has cost \(usage.cost.total) of \(greatest)"
    }
    return nil
  }

  /// The answers and the usage since the first input of the run.
  private func run() async throws -> (turns: Int, usage: Usage) {
    let input = SubmissionID(try await runtime.value(.live)["run"]?["inputs"]?.array?.first)
    var turns = 0
    var usage = Usage()
    let entries = try await entries(since: input)
    for message in entries.flatMap({ $0.model ?? [] }) {
      let role = MessageRole(message)
      guard role == .assistant || role == .toolResult else { continue }
      if let spent = message["usage"] { usage.add(Self.total(spent)) }
      guard role == .assistant else { continue }
      switch message["stopReason"]?.string {
      case "error", "aborted", "deferred": break
      default: turns += 1
      }
    }
    return (turns, usage)
  }

  private func entries(since input: SubmissionID?) async throws -> [EntryRecord] {
    let store = runtime.scheduler.session.store
    guard let input, let start = try await store.submission(input)?.entry else { return [] }
    let conversation = runtime.conversationId
    // The context in memory reaches back far enough unless its beginning was cut off in this run.
    let held = try await runtime.surroundings.contexts.read(conversation) { context in
      context.range.first.map { $0.id <= start } ?? false
        ? context.range.filter { $0.id > start } : nil
    }
    if let held { return held }
    var entries: [EntryRecord] = []
    var cursor: Cursor?
    repeat {
      let page = try await store.scanEntries(
        EntryQuery(conversationId: conversation, minEntry: start),
        PageRequest(limit: 256, cursor: cursor, order: .ascending)
      )
      entries += page.items.filter { $0.id > start }
      cursor = page.next
    } while cursor != nil
    return entries
  }

  private func conversation() async throws -> Usage {
    let document = try await runtime.value(.usage)
    var usage = Usage()
    for bucket in ["models", "tools"] as [JSONString] {
      for (_, spent) in document[bucket]?.object ?? [:] { usage.add(Self.total(spent)) }
    }
    return usage
  }

  /// A usage with its total, which not every provider reports.
  private static func total(_ json: JSON) -> Usage {
    var usage = Usage(json: json)
    if usage.totalTokens == 0 {
      usage.totalTokens = usage.input.addingSaturated(usage.output)
        .addingSaturated(usage.cacheRead).addingSaturated(usage.cacheWrite)
    }
    return usage
  }
}
