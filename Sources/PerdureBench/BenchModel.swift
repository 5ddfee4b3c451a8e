import Perdure
import Synchronization

/// A model in the process that answers at once.
///
/// It calls the tool until there are enough results behind the last user message, then says
/// `done`; so a run that was cut off goes on where it was.
struct BenchModel: ModelProvider {
  static let reference = ModelReference(provider: "bench", modelId: "bench")

  let calls: Int
  let stamps: Stamps?
  /// The tool that it calls.
  var tool: JSONString = "noop"

  func model(_ reference: ModelReference) -> ModelInfo? {
    guard reference == Self.reference else { return nil }
    return ModelInfo(
      reference: reference,
      api: "bench",
      contextWindow: 1_000_000_000,
      maxTokens: 1_000_000
    )
  }

  func stream(_ request: ModelRequest) -> any ModelStream {
    stamps?.hit()
    return BenchStream(events(for: Self.results(in: request.messages)))
  }

  /// How many tool results follow the last user message.
  ///
  /// The ids of the calls count them, so that the model's own work does not grow with the history.
  private static func results(in messages: [JSON]) -> Int {
    for message in messages.reversed() {
      switch message["role"]?.string {
      case "toolResult":
        let id = message["toolCallId"]?.string?.string ?? ""
        return Int(id.drop { $0 != "_" }.dropFirst()).map { $0 + 1 } ?? 0
      case "user": return 0
      default: break
      }
    }
    return 0
  }

  private func events(for results: Int) -> [ModelEvent] {
    guard results < calls else {
      return [
        .blockStart(index: 0, .text), .delta(index: 0, "done"), .blockEnd(index: 0),
        .finished(.stop),
      ]
    }
    let id = JSONString("call_\(results)")
    return [
      .blockStart(index: 0, .toolCall(id: id, name: tool)),
      .blockEnd(index: 0, arguments: ["i": .int(Int64(results))]),
      .finished(.toolUse),
    ]
  }
}

/// An answer that is there already.
private final class BenchStream: ModelStream {
  private let events: Mutex<[ModelEvent]>

  init(_ events: [ModelEvent]) { self.events = Mutex(events) }

  func next() async -> [ModelEvent] {
    events.withLock { events in
      defer { events = [] }
      return events
    }
  }

  func cancel() {}
}
