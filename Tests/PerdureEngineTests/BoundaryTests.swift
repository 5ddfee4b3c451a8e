import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

@Suite(.timeLimit(.minutes(5))) struct BoundaryTests {
  /// One row of the table: what is queued, and what a boundary makes of it.
  struct Row: Sendable, CustomTestStringConvertible {
    var testDescription: String
    /// `w`: a write, `r`: a reset, `s`: steer, `f`: follow up; each with its number as text.
    var queued: String
    var point: Boundary.Point
    var modes = QueueModes()
    /// The entries that are placed, in order.
    var placed: String
    var rest = ""
    var hasReset = false

    init(
      _ name: String,
      _ queued: String,
      _ point: Boundary.Point,
      _ modes: QueueModes = QueueModes(),
      placed: String,
      rest: String = "",
      reset: Bool = false
    ) {
      testDescription = name
      self.queued = queued
      self.point = point
      self.modes = modes
      self.placed = placed
      self.rest = rest
      hasReset = reset
    }
  }

  private static let all = QueueModes(steering: .all, followUp: .all)

  static let rows: [Row] = [
    Row("nothing is queued", "", .final, placed: ""),
    Row(
      "between rounds: writes and the first steer",
      "w s s f w",
      .postTools,
      placed: "0 4 1",
      rest: "2 3"
    ),
    Row("between rounds: all steers", "w s s f w", .postTools, all, placed: "0 4 1 2", rest: "3"),
    Row("between rounds: nothing for a follow-up", "f f", .postTools, placed: "", rest: "0 1"),
    Row("at the end: one of each", "w s s f f w", .final, placed: "0 5 1 3", rest: "2 4"),
    Row("at the end: all", "f s w f s", .final, all, placed: "2 0 1 3 4"),
    Row("at the end: steers and follow-ups by position", "f s", .final, placed: "0 1"),
    Row(
      "at the end: all steers, one follow-up",
      "s f s f",
      .final,
      QueueModes(steering: .all),
      placed: "0 1 2",
      rest: "3"
    ),
    Row(
      "at the end: one steer, all follow-ups",
      "s f s f",
      .final,
      QueueModes(followUp: .all),
      placed: "0 1 3",
      rest: "2"
    ),
    Row("writes alone", "w w", .final, placed: "0 1"),
    Row("between rounds: writes alone", "w w", .postTools, placed: "0 1"),
    Row("between rounds: nothing is queued", "", .postTools, placed: ""),
    Row("at the end: a steer alone", "s", .final, placed: "0"),
    Row("at the end: a follow-up alone", "f", .final, placed: "0"),
    Row("a reset alone", "r", .final, placed: "0", reset: true),
    Row("between rounds: a reset alone", "r", .postTools, placed: "0", reset: true),
    Row(
      "a reset between rounds with all",
      "f s r w f",
      .postTools,
      all,
      placed: "2 3 0 1 4",
      reset: true
    ),
    Row(
      "a reset makes the end of a round the end of the run",
      "f r s",
      .postTools,
      placed: "1 0 2",
      reset: true
    ),
    Row(
      "inputs from before a reset land behind it",
      "s f w r",
      .final,
      placed: "2 3 0 1",
      reset: true
    ),
    Row(
      "a reset with many inputs takes one of each",
      "r s s f f",
      .postTools,
      placed: "0 1 3",
      rest: "2 4",
      reset: true
    ),
  ]

  @Test(arguments: rows)
  func `a boundary places what its point selects and keeps the order of the rest`(
    _ row: Row
  ) async throws {
    let still = try await StillConversation()
    _ = try await still.makeBusy()
    var ids: [SubmissionID] = []
    for (index, letter) in row.queued.split(separator: " ").enumerated() {
      let text = JSONString("\(index)")
      let draft: SubmissionDraft =
        switch letter {
        case "w": .message(text)
        case "r": .message(text, head: .itself)
        case "s": .input(content: .string(text), whenBusy: .steer)
        default: .input(content: .string(text))
        }
      ids.append(try await still.admit(draft))
    }
    let placed = try await still.session.commit { tx in
      var boundary = try await tx.prepareBoundary(.root, row.modes)
      return try await boundary.apply(row.point, tx)
    }
    let texts = try await still.transcript.map { $0.split(separator: " ").last.map(String.init) }
    #expect(texts == row.placed.split(separator: " ").map(String.init))
    let rest = row.rest.split(separator: " ").compactMap { Int($0) }
    #expect(try await still.queue.map { SubmissionID($0["id"]) } == rest.map { ids[$0] })
    #expect(placed.hasReset == row.hasReset)
    let letters = row.queued.split(separator: " ")
    let users = row.placed.split(separator: " ").compactMap { Int($0) }
      .filter { letters[$0] == "s" || letters[$0] == "f" }
    #expect(placed.users == users.map { ids[$0] })
    for (index, id) in ids.enumerated() {
      let isWrite = letters[index] == "w" || letters[index] == "r"
      let expected: SubmissionRecord.Status =
        rest.contains(index) ? .queued : isWrite ? .done : .placed
      #expect(try await still.status(id) == expected)
    }
    try await still.session.close()
  }

  // MARK: Staleness

  /// Heads of writes, with the entries 0 to 3 there before and a marker at 2.
  struct StaleRow: Sendable, CustomTestStringConvertible {
    var testDescription: String
    /// Entry numbers, `self`, or `-` for a write without a head.
    var heads: [String]
    /// Whether each is stale.
    var stale: [Bool]
  }

  static let staleRows: [StaleRow] = [
    StaleRow(testDescription: "no head", heads: ["-"], stale: [false]),
    StaleRow(testDescription: "before the start", heads: ["1"], stale: [true]),
    StaleRow(testDescription: "the start itself", heads: ["2"], stale: [false]),
    StaleRow(testDescription: "behind the start", heads: ["3"], stale: [false]),
    StaleRow(testDescription: "itself", heads: ["self"], stale: [false]),
    StaleRow(testDescription: "twice itself", heads: ["self", "self"], stale: [false, false]),
    StaleRow(
      testDescription: "an earlier head of the same boundary",
      heads: ["3", "2"],
      stale: [false, true]
    ),
    StaleRow(
      testDescription: "behind a reset of the same boundary",
      heads: ["self", "3", "-"],
      stale: [false, true, false]
    ),
    StaleRow(
      testDescription: "a stale head moves nothing",
      heads: ["0", "2"],
      stale: [true, false]
    ),
  ]

  private func still(marker: Bool = true) async throws -> (StillConversation, [EntryID]) {
    let still = try await StillConversation()
    let entries = try await still.session.commit { tx in
      var entries: [EntryID] = []
      for _ in 0..<4 {
        entries.append(try await tx.append(EntryDraft(kind: "old"), to: .root).id)
      }
      if marker {
        try await tx.append(EntryDraft(kind: "mark", head: .entry(entries[2])), to: .root)
      }
      return entries
    }
    return (still, entries)
  }

  private func draft(_ head: String, _ entries: [EntryID]) -> SubmissionDraft {
    switch head {
    case "-": .message("m")
    case "self": .message("m", head: .itself)
    default: .message("m", head: .entry(entries[Int(head) ?? 0]))
    }
  }

  @Test(arguments: staleRows)
  func `a head before the active range is stale at a boundary`(_ row: StaleRow) async throws {
    let (still, entries) = try await still()
    _ = try await still.makeBusy()
    var ids: [SubmissionID] = []
    for head in row.heads { ids.append(try await still.admit(draft(head, entries))) }
    try await still.session.commit { tx in
      var boundary = try await tx.prepareBoundary(.root, QueueModes())
      _ = try await boundary.apply(.final, tx)
    }
    for (id, isStale) in zip(ids, row.stale) {
      #expect(try await still.status(id) == (isStale ? .unanswered : .done))
      if isStale { #expect(try await still.reason(id) == "stale") }
    }
    #expect(try await still.queue.isEmpty)
    try await still.end()
  }

  @Test(arguments: staleRows)
  func `a head before the active range is stale in an idle conversation`(
    _ row: StaleRow
  ) async throws {
    let (still, entries) = try await still()
    for (head, isStale) in zip(row.heads, row.stale) {
      let id = try await still.admit(draft(head, entries))
      #expect(try await still.status(id) == (isStale ? .unanswered : .done))
      if isStale { #expect(try await still.reason(id) == "stale") }
    }
    try await still.end()
  }

  @Test func `without a marker no head is stale`() async throws {
    let (still, entries) = try await still(marker: false)
    let id = try await still.admit(draft("0", entries))
    #expect(try await still.status(id) == .done)
    try await still.end()
  }
}
