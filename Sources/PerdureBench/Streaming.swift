import Perdure
import PerdureModel
import Synchronization

/// W4: one answer of many small pieces, until a subscriber to the events holds all of it.
enum Streaming {
  private static let pieces = 50
  private static let text = "abcd "

  static func run(_ arguments: Arguments) async throws {
    guard ["", "paced", "unread"].contains(arguments.mode) else {
      throw Arguments.wrong("w4 has the modes paced, unread and none, not '\(arguments.mode)'")
    }
    if arguments.mode == "unread" { return try await leaveUnread(arguments) }
    let calibration = try Calibration(in: arguments.folder)
    let source = Source(count: arguments.count ?? 20_000, isPaced: arguments.mode == "paced")
    let harness = try await Harness.open(
      .sqliteFile(
        at: arguments.folder + "/perdure.db",
        durability: arguments.sync == "full" ? .full : .normal
      ),
      models: StreamingModel(source: source)
    )
    let conversation = try await harness.root()
    try await conversation.configure(Conversation.AgentChange(model: BenchModel.reference))
    let events = try await conversation.events()
    let reading = Task { try await read(events, source) }
    let written = Machine.writtenBytes
    _ = try await conversation.submit(BenchHost.prompt).wait()
    let bytes = Machine.writtenBytes - written
    let result = try await reading.value
    try await harness.close()
    var line = ResultLine("w4")
    result.add(to: &line, source)
    line["mode"] = .string(arguments.mode.isEmpty ? "unpaced" : arguments.mode)
    line["sync"] = .string(arguments.sync)
    line["written_bytes"] = .int(bytes)
    line.print(calibration)
  }

  /// Measures what a subscriber costs who never reads, over many commits of 1 KB each.
  private static func leaveUnread(_ arguments: Arguments) async throws {
    let calibration = try Calibration(in: arguments.folder)
    let count = arguments.count ?? 20_000
    let harness = try await Harness.open(
      .sqliteFile(at: arguments.folder + "/perdure.db", durability: .normal),
      models: BenchModel(calls: 0, stamps: nil)
    )
    let conversation = try await harness.root()
    let text = String(repeating: "x", count: 1_000)
    let events = try await conversation.events()
    var peaks: [Double] = []
    for number in 0..<count {
      try await conversation.configure(
        Conversation.AgentChange(instructions: "\(number) \(text)")
      )
      // The first commits fill what may wait, and every cache.
      if number == count / 10 || number == count - 1 { peaks.append(Machine.peakMegabytes) }
    }
    try await harness.close()
    var waiting = 0
    for try await batch in events { waiting += batch.count }
    var line = ResultLine("w4")
    line["mode"] = "unread"
    line["n"] = .int(Int64(count))
    line["events_left"] = .int(Int64(waiting))
    line.set("rss_after_tenth_mb", peaks.first ?? 0)
    line.set("rss_after_all_mb", peaks.last ?? 0)
    line.print(calibration)
  }

  /// Follows the events until the whole text is there.
  private static func read(_ events: Updates<[AgentEvent]>, _ source: Source) async throws -> Result
  {
    var state: AgentState?
    var result = Result()
    for try await batch in events {
      let now = Machine.now
      for event in batch {
        if case .snapshot(let snapshot) = event {
          state = snapshot
        } else {
          try state?.apply(event)
        }
      }
      if batch.contains(where: isOfAnswer) { result.commits += 1 }
      let length = length(of: state)
      result.note(length / text.utf8.count, at: now, source)
      if length >= source.count * text.utf8.count {
        result.end = now
        return result
      }
    }
    throw PerdureError(.invalidInput, "the events ended before the answer")
  }

  /// Whether an event tells of the answer, a part of it or the whole.
  private static func isOfAnswer(_ event: AgentEvent) -> Bool {
    switch event {
    case .messageUpdate: true
    case .messageStart(let message): message["role"] == "assistant"
    case .messageEnd(let entry): entry.kind == "pi.assistant"
    default: false
    }
  }

  /// The bytes of the answer that the subscriber holds.
  private static func length(of state: AgentState?) -> Int {
    let last = state?.entries.last?.model?.first
    let message = state?.message ?? (last?["role"] == "assistant" ? last : nil)
    let blocks = message?["content"]?.array ?? []
    return blocks.reduce(0) { $0 + ($1["text"]?.string?.string.utf8.count ?? 0) }
  }

  /// What the subscriber saw.
  private struct Result {
    /// The commits that had a part of the answer, or all of it.
    var commits = 0
    var end: Int64 = 0
    private var seen = 0
    private var lags: [Double] = []

    /// Notes that so many pieces are there; what lies between was seen now.
    mutating func note(_ pieces: Int, at time: Int64, _ source: Source) {
      guard pieces > seen else { return }
      for number in seen..<pieces { lags.append(milliseconds(time - source.time(of: number))) }
      seen = pieces
    }

    func add(to line: inout ResultLine, _ source: Source) {
      let seconds = milliseconds(end - source.time(of: 0)) / 1_000
      line["n"] = .int(Int64(source.count))
      line.set("s", seconds)
      line.set("deltas_per_s", Double(source.count) / max(seconds, 0.000_001))
      line["commits"] = .int(Int64(commits))
      line.set("commits_per_s", Double(commits) / max(seconds, 0.000_001))
      line.set("lag_p50_ms", percentile(lags, 50))
      line.set("lag_p99_ms", percentile(lags, 99))
      line.set("lag_max_ms", lags.max() ?? 0)
    }
  }

  /// Says when each piece was sent.
  final class Source: Sendable {
    let count: Int
    let isPaced: Bool
    private let times = Mutex<[Int64]>([])

    init(count: Int, isPaced: Bool) {
      self.count = count
      self.isPaced = isPaced
    }

    /// When a piece was sent; pieces of one batch were sent at once.
    func time(of number: Int) -> Int64 {
      times.withLock { times in
        let batch = number / Streaming.pieces
        return times.indices.contains(batch) ? times[batch] : 0
      }
    }

    /// Returns the events of the next batch, and the end after the last.
    func next() async -> [ModelEvent] {
      let batch = times.withLock { $0.count }
      if batch > 0 {
        if isPaced { await pause(to: batch) } else { await giveWay() }
      }
      let sent = batch * Streaming.pieces
      let number = min(Streaming.pieces, count - sent)
      times.withLock { $0.append(Machine.now) }
      guard number > 0 else { return [.blockEnd(index: 0), .finished(.stop)] }
      let start: [ModelEvent] = batch == 0 ? [.blockStart(index: 0, .text)] : []
      return start + Array(repeating: .delta(index: 0, Streaming.text), count: number)
    }

    /// Waits until a batch is due: each 12.5 ms after the one before.
    private func pause(to batch: Int) async {
      let start = times.withLock { $0.first ?? 0 }
      let due = start + Int64(batch) * 12_500_000
      let rest = due - Machine.now
      await SystemClock().sleep(nanoseconds: rest)
    }
  }
}

/// A model that sends one long answer.
private struct StreamingModel: ModelProvider {
  let source: Streaming.Source

  func model(_ reference: ModelReference) -> ModelInfo? {
    guard reference == BenchModel.reference else { return nil }
    return ModelInfo(reference: reference, api: "bench", contextWindow: 0, maxTokens: 0)
  }

  func stream(_ request: ModelRequest) -> any ModelStream { Answer(source: source) }

  private struct Answer: ModelStream {
    let source: Streaming.Source

    func next() async -> [ModelEvent] { await source.next() }

    func cancel() {}
  }
}
