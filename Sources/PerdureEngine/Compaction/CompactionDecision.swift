package import PerdureModel
package import PerdureValue

/// What is about to be summarized.
package struct CompactionPlan: Sendable {
  package var conversation: ConversationID
  package var task: TaskID
  package var reason: CompactionReason
  /// The entries that the summary replaces, the head marker first.
  package var entries: [EntryRecord]
  /// The messages of these entries, results behind their calls.
  package var messages: [JSON]
  /// The first entry that stays.
  package var firstKept: EntryID
  package var instructions: JSONString?
}

/// What an extension makes of a summary before the model is asked for one.
package enum CompactionDecision: Sendable, Equatable {
  /// There is none.
  case decline
  /// This is the summary.
  case summary(JSONString)
}

extension CompactionTask {
  /// Decides about a summary, or returns `nil` to let the model write it.
  package typealias Decide = @Sendable (CompactionPlan) async throws -> CompactionDecision?

  /// Asks those who may decide before the model is asked.
  ///
  /// One that throws is reported and passed over, unless the task is cancelled.
  static func decide(
    _ runtime: TaskRuntime,
    before plan: CompactionPlan
  ) async throws -> CompactionDecision? {
    guard let decide = runtime.surroundings.decideCompaction else { return nil }
    do {
      return try await decide(plan)
    } catch {
      try runtime.checkSignal()
      runtime.report("a decision before a summary failed: \(error)", type: "hook_failed")
      return nil
    }
  }
}
