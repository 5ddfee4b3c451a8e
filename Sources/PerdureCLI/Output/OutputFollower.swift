import Perdure
import PerdureModel

/// Finds what is new in the output of running tools.
struct OutputFollower: Sendable {
  /// What one tool has put out since it was last looked at.
  struct News: Sendable {
    var output: RunningOutput
    /// The end of what is new, at most `limit` bytes.
    var text: String
    /// Bytes that are new, too, and stand before `text`.
    var skipped: Int
  }

  /// How much is shown at once; the rest of a flood is left out.
  static let limit = 4_096

  private struct Seen {
    var bytes: [UInt8]
    var dropped: Int64
  }

  private var seen: [TaskID: Seen] = [:]

  /// Returns the news in a commit, and forgets calls that are over.
  mutating func take(_ summary: CommitSummary) -> [News] {
    for task in summary.tasks where task.state.status == .terminal { seen[task.id] = nil }
    return summary.outputs.compactMap { news(of: $0) }
  }

  private mutating func news(of output: RunningOutput) -> News? {
    let now = Seen(bytes: Array(output.text.utf8), dropped: output.droppedBytes)
    let before = seen.updateValue(now, forKey: output.task)
    let (start, lost) = before.map { Self.start(of: now, after: $0) } ?? (0, 0)
    var fresh = now.bytes[start...]
    guard !fresh.isEmpty else { return nil }
    let count = fresh.count
    if count > Self.limit {
      // A character that is cut is left out whole.
      fresh = fresh.suffix(Self.limit).drop { $0 & 0xC0 == 0x80 }
    }
    return News(
      output: output,
      text: String(decoding: fresh, as: UTF8.self),
      skipped: lost + count - fresh.count
    )
  }

  /// Where the new bytes begin, and how many came and went unseen.
  private static func start(of now: Seen, after before: Seen) -> (Int, Int) {
    if now.bytes.starts(with: before.bytes) { return (before.bytes.count, 0) }
    // A window that keeps the end has moved on.
    let moved = Int(clamping: max(0, now.dropped.subtractingReportingOverflow(before.dropped).0))
    let kept = before.bytes.dropFirst(moved)
    guard now.bytes.starts(with: kept) else { return (0, 0) }
    return (kept.count, max(0, moved - before.bytes.count))
  }
}
