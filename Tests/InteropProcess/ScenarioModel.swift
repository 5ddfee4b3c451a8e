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
    if request.purpose == .summary {
      return Answer(ScriptedModel.text("a summary"), until: nil)
    }
    let turns = Self.turns(of: request)
    let position = ScriptedModel.turn(of: request)
    guard turns.indices.contains(position) else {
      return Answer(
        [[.failed(ProviderFailure(.stop, "the scenario has no such turn"))]],
        until: nil
      )
    }
    return Answer(
      Self.events(turns[position], attempt: request.attempt),
      until: events.isWriting && turns[position]["hang"] == true ? events : nil
    )
  }

  private static func turns(of request: ModelRequest) -> [JSON] {
    let message = request.messages.last { $0["role"] == "user" }
    guard let text = message?["content"]?.text else { return [] }
    return (try? JSON(parsing: text))?.array ?? []
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
