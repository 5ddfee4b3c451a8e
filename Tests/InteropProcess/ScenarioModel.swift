import PerdureModel
import PerdureTestKit
import PerdureValue
import Synchronization

/// A model that does what the last user message says: a JSON array of turns.
struct ScenarioModel: ModelProvider {
  /// Answers hang where the scenario says so while it is written.
  let events: Events

  func model(_ reference: ModelReference) -> ModelInfo? {
    guard reference == ScriptedModel.reference else { return nil }
    return ModelInfo(
      reference: reference,
      api: "scripted",
      contextWindow: 1_000_000,
      maxTokens: 1_000
    )
  }

  func stream(_ request: ModelRequest) -> any ModelStream {
    // The request for a summary is no scenario.
    if request.purpose == .summary { return summary(events.nextSummary()) }
    guard let turns = Self.turns(of: request) else { return summary(events.nextSummary()) }
    let position = ScriptedModel.turn(of: request)
    guard turns.indices.contains(position) else {
      return Answer(
        [[.failed(ProviderFailure(.stop, "the scenario has no such turn"))]],
        until: nil
      )
    }
    return answer(turns[position], attempt: attempt(of: request, turns[position]))
  }

  func fetchDeferred(_ handle: JSON, of model: ModelInfo) -> any ModelStream {
    answer(handle["turn"] ?? [:], attempt: Int(handle["attempt"]?.int ?? 0))
  }

  private func answer(_ turn: JSON, attempt: Int) -> Answer {
    Answer(
      Self.deferral(of: turn, attempt: attempt).map { [[$0]] }
        ?? Self.events(turn, attempt: attempt),
      until: events.isWriting && turn["hang"] == true ? events : nil
    )
  }

  /// A summary; one that hangs says so.
  private func summary(_ turn: JSON) -> Answer {
    let hangs = events.isWriting && turn["hang"] == true
    if hangs { events.arrive() }
    return Answer(Self.events(turn, attempt: 0), until: hangs ? events : nil)
  }

  /// How often the turn was asked for.
  ///
  /// A request that a summary follows is sent again as the same attempt.
  private func attempt(of request: ModelRequest, _ turn: JSON) -> Int {
    let text = request.messages.last { $0["role"] == "user" }?["content"]?.string ?? ""
    let times = events.ask(text, turn: ScriptedModel.turn(of: request))
    // A process that goes on with a run was asked once before it.
    let before = events.isWriting ? 0 : 1
    return turn["fail"]?["action"] == "overflow" ? times + before : request.attempt
  }

  /// The end of a turn that is to be fetched later, any number of times.
  private static func deferral(of turn: JSON, attempt: Int) -> ModelEvent? {
    guard var rest = turn["defer"]?.object, var later = turn.object else { return nil }
    let times = (rest["times"]?.int ?? 0) - 1
    rest["times"] = .int(times)
    later["defer"] = times > 0 ? .object(rest) : nil
    return .deferred(handle: [
      "pollAfterMs": rest["pollAfterMs"] ?? 1, "attempt": .int(Int64(attempt)),
      "turn": .object(later),
    ])
  }

  /// The turns that the last user asks for; `nil` if that is a summary.
  private static func turns(of request: ModelRequest) -> [JSON]? {
    let message = request.messages.last { $0["role"] == "user" }
    guard let text = message?["content"]?.text else { return nil }
    return (try? JSON(parsing: text))?.array
  }

  private static func events(_ turn: JSON, attempt: Int) -> [[ModelEvent]] {
    var batches: [[ModelEvent]] = []
    var index = 0
    if let thought = turn["think"]?.text {
      batches.append([.blockStart(index: index, .thinking), .delta(index: index, thought)])
      batches.append([.blockEnd(index: index, members: ["thinkingSignature": "signed"])])
      index += 1
    }
    if let pieces = turn["say"]?.array {
      batches.append([.blockStart(index: index, .text)])
      for piece in pieces { batches.append([.delta(index: index, piece.text ?? "")]) }
      index += 1
    }
    if let usage = turn["usage"] { batches.append([.usage(Usage(json: usage))]) }
    if let failure = turn["fail"], attempt <= Int(failure["attempts"]?.int ?? 0) {
      let action = ProviderFailure.Action(rawValue: failure["action"]?.text ?? "") ?? .stop
      return batches + [[.failed(ProviderFailure(action, failure["message"]?.text ?? ""))]]
    }
    let calls = turn["calls"]?.array ?? []
    for call in calls {
      let block = AnswerBlock.toolCall(
        id: call["id"]?.string ?? "",
        name: call["name"]?.string ?? ""
      )
      batches.append([
        .blockStart(index: index, block), .blockEnd(index: index, arguments: call["arguments"]),
      ])
      index += 1
    }
    return batches + [[.finished(calls.isEmpty ? .stop : .toolUse)]]
  }
}

/// An answer whose pieces arrive one by one; the last waits for a release if there is to be one.
private final class Answer: ModelStream {
  private let batches: Mutex<[[ModelEvent]]>
  private let isCancelled = Mutex(false)
  private let events: Events?
  private let releases: Int

  init(_ batches: [[ModelEvent]], until events: Events?) {
    self.batches = Mutex(batches)
    self.events = events
    releases = events?.releases ?? 0
  }

  func next() async -> [ModelEvent] {
    if let events, batches.withLock({ $0.count }) == 1 {
      while events.releases == releases, !isCancelled.withLock({ $0 }), !Task.isCancelled {
        try? await Task.sleep(for: .milliseconds(2))
      }
      if events.releases == releases { return [] }
    }
    return batches.withLock { $0.isEmpty ? [] : $0.removeFirst() }
  }

  func cancel() { isCancelled.withLock { $0 = true } }
}
