import Perdure
import PerdureModel
import PerdureValue

/// Turns commits into events for programs, or into progress for people.
enum EventReport {
  /// Writes one line for each entry and one for the commit.
  static func write(_ summary: CommitSummary, to reporter: Reporter) {
    guard reporter.isJSON else {
      if reporter.showsProgress { show(summary, reporter) }
      return
    }
    for entry in summary.entries { reporter.event("entry", members(of: entry, at: summary.at)) }
    reporter.event("commit", members(of: summary))
  }

  /// Writes what a running tool has put out.
  static func write(_ news: OutputFollower.News, to reporter: Reporter) {
    guard reporter.isJSON else { return reporter.output(news.output.task, news.text) }
    reporter.event("output", members(of: news))
  }

  /// Returns what a running tool has put out.
  static func members(of news: OutputFollower.News) -> JSONObject {
    var members: JSONObject = [
      "task": news.output.task.json, "conversation": news.output.conversation.json,
      "tool": .string(news.output.tool), "text": .string(news.text),
    ]
    if news.skipped > 0 { members["skipped"] = .int(news.skipped) }
    return members
  }

  /// Returns an entry with its time, if that is known.
  static func members(of entry: EntryRecord, at time: Int64?) -> JSONObject {
    var members = entry.json.object ?? [:]
    if let time { members["at"] = .int(time) }
    return members
  }

  /// Returns what a commit changed, without what is in it.
  static func members(of summary: CommitSummary) -> JSONObject {
    [
      "sequence": .int(summary.sequence), "at": .int(summary.at),
      "conversations": .array(summary.conversations.map { $0.id.json }),
      "entries": .array(summary.entries.map { $0.id.json }),
      "tasks": .array(
        summary.tasks.map {
          [
            "id": $0.id.json, "kind": .string($0.kind), "status": .string($0.state.status.rawValue),
          ]
        }
      ),
      "submissions": .array(
        summary.submissions.map { ["id": $0.id.json, "status": .string($0.status.rawValue)] }
      ),
      "documents": .array(summary.documents.map { .string($0.address.kind) }),
    ]
  }

  /// Shows calls and results to a person who watches.
  static func show(_ entry: EntryRecord, _ reporter: Reporter) {
    for call in Transcript.calls(of: entry) { reporter.progress("→ \(call)") }
    if let result = Transcript.result(of: entry) { reporter.progress("← \(result)") }
  }

  private static func show(_ summary: CommitSummary, _ reporter: Reporter) {
    for entry in summary.entries { show(entry, reporter) }
    for task in summary.tasks {
      guard case .sleeping(let checkpoint, let until) = task.state,
        checkpoint["phase"] == "retry"
      else { continue }
      let seconds = max(0, (until - summary.at + 999) / 1_000)
      reporter.progress("the model did not answer; trying again in \(seconds) s")
    }
  }
}
