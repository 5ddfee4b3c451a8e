import PerdureModel
import PerdureValue
import Synchronization

/// A model whose answers are made by a function of the request.
final class ScriptedModel: ModelProvider {
  typealias Answer = @Sendable (ModelRequest) -> [ModelEvent]

  private let answer: Answer
  private let requests = Mutex<[ModelRequest]>([])

  init(_ answer: @escaping Answer) { self.answer = answer }

  static let reference = ModelReference(provider: "scripted", modelId: "one")

  var seen: [ModelRequest] { requests.withLock { $0 } }

  func model(_ reference: ModelReference) -> ModelInfo? {
    guard reference == Self.reference else { return nil }
    return ModelInfo(reference: reference, api: "scripted", contextWindow: 1_000_000, maxTokens: 0)
  }

  func stream(_ request: ModelRequest) -> any ModelStream {
    requests.withLock { $0.append(request) }
    return Answered(answer(request))
  }

  private final class Answered: ModelStream {
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

  /// Events of an answer of one text.
  static func text(_ text: String) -> [ModelEvent] {
    [.blockStart(index: 0, .text), .delta(index: 0, text), .finished(.stop)]
  }

  /// Events of an answer that calls tools.
  static func calls(_ calls: [(id: String, name: String, arguments: JSON)]) -> [ModelEvent] {
    var events: [ModelEvent] = []
    for (index, call) in calls.enumerated() {
      let block = AnswerBlock.toolCall(id: JSONString(call.id), name: JSONString(call.name))
      events.append(.blockStart(index: index, block))
      events.append(.blockEnd(index: index, arguments: call.arguments))
    }
    return events + [.finished(.toolUse)]
  }

  /// How many assistant messages follow the last user message.
  static func turn(of request: ModelRequest) -> Int {
    var turn = 0
    for message in request.messages.reversed() {
      switch message["role"]?.text {
      case "assistant": turn += 1
      case "user": return turn
      default: break
      }
    }
    return turn
  }
}
