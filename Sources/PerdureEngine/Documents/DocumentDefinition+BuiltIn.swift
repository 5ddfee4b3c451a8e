import PerdureModel
import PerdureValue

extension DocumentDefinition {
  /// A document of each conversation that the engine itself keeps.
  private static func builtIn(
    _ kind: JSONString,
    _ history: DocumentHistory,
    _ fork: DocumentFork,
    initial: @escaping @Sendable (_ now: Int64) -> JSON,
    storesBase: @escaping @Sendable (_ value: JSON) -> Bool
  ) -> DocumentDefinition {
    DocumentDefinition(
      kind: kind,
      scope: .conversation(history, fork),
      initial: { _, now in initial(now) },
      storesBase: { storesBase($0.value) }
    )
  }

  /// A conversation's choice of model, extensions and tools.
  package static let agent = builtIn(
    "pi.agent",
    .rewindable,
    .asOf,
    initial: { _ in [:] },
    storesBase: { _ in true }
  )

  /// A conversation's run and what is going on in it.
  package static let live = builtIn(
    "pi.live",
    .latest,
    .initial,
    initial: { _ in [:] },
    storesBase: { value in
      if value["generation"] != nil { return false }
      func isRunning(_ slots: JSON?) -> Bool {
        (slots?.array ?? []).contains { $0["status"] == "running" }
      }
      return !isRunning(value["tools"]) && !isRunning(value["nestedTools"])
    }
  )

  /// A conversation's queued submissions.
  package static let inbox = builtIn(
    "pi.inbox",
    .latest,
    .initial,
    initial: { _ in ["items": []] },
    storesBase: { ($0["items"]?.array ?? []).isEmpty }
  )

  /// A conversation's identity towards model providers.
  package static let provider = builtIn(
    "pi.provider",
    .latest,
    .initial,
    initial: { now in ["sessionId": .string(UUIDv7.make(at: now))] },
    storesBase: { _ in true }
  )

  /// What a conversation has spent.
  package static let usage = builtIn(
    "pi.usage",
    .latest,
    .initial,
    initial: { _ in ["models": [:], "tools": [:]] },
    storesBase: { _ in true }
  )

  /// The calls that a tool call makes of other tools, one document for each, by its key.
  package static let nestedCall = DocumentDefinition(
    kind: "pi.tool.nested-call",
    scope: .task,
    isFamily: true,
    initial: { _, _ in [:] },
    // It goes with its task.
    storesBase: { _ in false }
  )
}
