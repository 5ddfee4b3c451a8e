import PerdureModel
import PerdureValue

/// What is said of prompts that wait.
enum QueuedPrompts {
  /// For programs.
  static func json(_ records: [SubmissionRecord]) -> JSON {
    .array(
      records.map { ["submission": $0.id.json, "conversation": $0.conversationId.json] }
    )
  }

  /// For people; one sentence for each conversation, in order.
  static func sentences(_ records: [SubmissionRecord], afterRun isRunning: Bool) -> [String] {
    Set(records.map { $0.conversationId }).sorted().map { id in
      let ids = records.filter { $0.conversationId == id }.map { "\($0.id)" }
      let what = ids.count == 1 ? "a prompt waits" : "\(ids.count) prompts wait"
      let when = isRunning ? "behind the run" : "and goes on with the next prompt there"
      let submissions =
        (ids.count == 1 ? "submission " : "submissions ") + ids.joined(separator: ", ")
      return "\(what) in conversation \(id) \(when) (\(submissions))"
    }
  }
}
