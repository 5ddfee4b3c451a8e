import PerdureModel
import PerdureValue

/// Plays one attempt of a script.
struct FauxPlayer: Sendable {
  let attempt: FauxScript.Attempt
  let messages: [JSON]
  let limits: ProviderLimits
  let clock: any HostClock

  /// Sends the events of the attempt; returns early when the task is cancelled.
  func play(_ send: ([ModelEvent]) -> Void) async {
    var run = Run(player: self)
    for step in attempt.steps {
      guard await run.play(step, send) else { return }
    }
    await run.end(send)
  }

  /// What has been played so far.
  fileprivate struct Run {
    let player: FauxPlayer
    /// Events that wait for the next pause.
    var events: [ModelEvent] = []
    var blocks = 0
    var open: AnswerBlock?
    var hasSent = false
    var outputCharacters = 0

    init(player: FauxPlayer) { self.player = player }
  }
}

extension FauxPlayer.Run {
  /// Plays a step; `false` ends the answer here.
  mutating func play(_ step: FauxScript.Step, _ send: ([ModelEvent]) -> Void) async -> Bool {
    switch step {
    case .text(let text): return await write(text, in: .text, send)
    case .thinking(let text): return await write(text, in: .thinking, send)
    case .toolResult(let id):
      if let text = player.result(of: id) { return await write(text, in: .text, send) }
      fail("the faux script wants the result of '\(id)', which the request does not hold", send)
      return false
    case .toolCall(let id, let name, let text, let arguments):
      let block = AnswerBlock.toolCall(id: id, name: name)
      guard await write(text, in: block, send) else { return false }
      close(arguments: arguments)
      return true
    case .delay(let milliseconds): return await wait(milliseconds, send)
    }
  }

  /// Ends the answer as the script says.
  mutating func end(_ send: ([ModelEvent]) -> Void) async {
    switch player.attempt.ending {
    case .finished(let reason):
      close()
      events.append(.usage(player.attempt.usage ?? estimate))
      events.append(.finished(reason))
    case .failed(let failure): events.append(.failed(failure))
    case .truncated: events.append(.failed(ProviderFailure(.retry, "the stream ended early")))
    case .stall: if await !wait(.max, send) { return }
    }
    flush(send)
  }

  private mutating func write(
    _ text: String,
    in block: AnswerBlock,
    _ send: ([ModelEvent]) -> Void
  ) async -> Bool {
    if open != block {
      close()
      events.append(.blockStart(index: blocks, block))
      open = block
    }
    outputCharacters += text.count
    var rest = text[...]
    var isFirst = true
    while !rest.isEmpty {
      if !isFirst, player.attempt.chunkDelayMs > 0 {
        guard await wait(player.attempt.chunkDelayMs, send) else { return false }
      }
      isFirst = false
      let piece = rest.prefix(player.attempt.chunk)
      events.append(.delta(index: blocks, String(piece)))
      rest = rest[piece.endIndex...]
    }
    return true
  }

  private mutating func close(arguments: JSON? = nil) {
    guard open != nil else { return }
    events.append(.blockEnd(index: blocks, arguments: arguments))
    open = nil
    blocks += 1
  }

  /// Waits, but no longer than a real provider would be waited for; `false` ends the answer.
  private mutating func wait(_ milliseconds: Int64, _ send: ([ModelEvent]) -> Void) async -> Bool {
    flush(send)
    let limit = hasSent ? player.limits.betweenEventsMs : player.limits.firstByteMs
    await player.clock.sleep(
      nanoseconds: ProviderLimits.nanoseconds(min(milliseconds, limit))
    )
    if Task.isCancelled { return false }
    if milliseconds < limit { return true }
    let what = hasSent ? "no event" : "no answer"
    events.append(
      .failed(ProviderFailure(.retry, "\(what) for \(ProviderLimits.seconds(limit))"))
    )
    flush(send)
    return false
  }

  private mutating func fail(_ message: String, _ send: ([ModelEvent]) -> Void) {
    events.append(.failed(ProviderFailure(.stop, message)))
    flush(send)
  }

  private mutating func flush(_ send: ([ModelEvent]) -> Void) {
    guard !events.isEmpty else { return }
    send(events)
    events = []
    hasSent = true
  }

  /// A quarter of the characters since the last user message, and of the answer.
  private var estimate: Usage {
    var usage = Usage()
    var characters = 0
    for message in player.messages.reversed() {
      characters += message["content"]?.compactText.utf8.count ?? 0
      if message["role"]?.text == "user" { break }
    }
    usage.input = Int64((characters + 3) / 4)
    usage.output = Int64((outputCharacters + 3) / 4)
    usage.totalTokens = usage.input + usage.output
    return usage
  }
}

extension FauxPlayer {
  /// Returns the text of the newest result of that call.
  fileprivate func result(of id: JSONString) -> String? {
    let message = messages.last {
      $0["role"]?.text == "toolResult" && $0["toolCallId"]?.string == id
    }
    guard let content = message?["content"] else { return nil }
    return content.text
      ?? content.array?.compactMap { $0["text"]?.text }.joined(separator: "\n")
  }
}
