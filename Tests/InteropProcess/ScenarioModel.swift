import PerdureModel
import PerdureTestKit
import PerdureValue
import Synchronization

/// A model that does what the last user message says: a JSON array of turns.
struct ScenarioModel: ModelProvider {
  /// Whether answers hang where the scenario says so.
  let hangs: Bool

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
      return Answer(ScriptedModel.text("a summary"), hangs: false)
    }
    let turns = Self.turns(of: request)
    let position = ScriptedModel.turn(of: request)
    guard turns.indices.contains(position) else {
      return Answer(
        [[.failed(ProviderFailure(.stop, "the scenario has no such turn"))]],
        hangs: false
      )
    }
    return Answer(
      Self.events(turns[position], attempt: request.attempt),
      hangs: hangs && turns[position]["hang"] == true
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

/// An answer whose pieces arrive one by one; one that hangs leaves out its end until cancelled.
private final class Answer: ModelStream {
  private struct State {
    var batches: [[ModelEvent]]
    var isCancelled = false
    var waiting: CheckedContinuation<Void, Never>?
  }

  private let state: Mutex<State>
  private let hangs: Bool

  init(_ batches: [[ModelEvent]], hangs: Bool) {
    state = Mutex(State(batches: hangs ? batches.dropLast() : batches))
    self.hangs = hangs
  }

  func next() async -> [ModelEvent] {
    let batch = state.withLock { $0.batches.isEmpty ? nil : $0.batches.removeFirst() }
    if let batch { return batch }
    guard hangs else { return [] }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isCancelled = state.withLock { state in
          if !state.isCancelled { state.waiting = continuation }
          return state.isCancelled
        }
        if isCancelled { continuation.resume() }
      }
    } onCancel: {
      cancel()
    }
    return []
  }

  func cancel() {
    let waiting = state.withLock { state in
      state.isCancelled = true
      defer { state.waiting = nil }
      return state.waiting
    }
    waiting?.resume()
  }
}
