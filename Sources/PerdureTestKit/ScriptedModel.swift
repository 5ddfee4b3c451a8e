public import PerdureModel
public import PerdureValue
import Synchronization

/// A model whose answers are made by a function of the request; it remembers what it was asked.
public final class ScriptedModel: ModelProvider {
  /// Makes the events of an answer, in the batches in which they arrive.
  public typealias Answer = @Sendable (ModelRequest) -> [[ModelEvent]]

  /// The only model that it serves.
  public static let reference = ModelReference(provider: "scripted", modelId: "one")

  /// Makes the events of an answer that was deferred under a handle.
  public typealias Fetch = @Sendable (_ handle: JSON) -> [[ModelEvent]]

  private let answer: Answer
  private let fetch: Fetch
  private let contextWindow: Int
  private let maxTokens: Int
  private let requests = Mutex<[ModelRequest]>([])
  private let fetches = Mutex<[JSON]>([])
  private let cancellations = Mutex<[JSON]>([])

  /// Makes a model that answers with what `answer` returns, and later with what `fetch` returns.
  public init(
    contextWindow: Int = 1_000_000,
    maxTokens: Int = 0,
    fetch: @escaping Fetch = { _ in [] },
    _ answer: @escaping Answer
  ) {
    self.contextWindow = contextWindow
    self.maxTokens = maxTokens
    self.fetch = fetch
    self.answer = answer
  }

  /// The requests so far.
  public var seen: [ModelRequest] { requests.withLock { $0 } }

  public func model(_ reference: ModelReference) -> ModelInfo? {
    guard reference == Self.reference else { return nil }
    return ModelInfo(
      reference: reference,
      api: "scripted",
      contextWindow: contextWindow,
      maxTokens: maxTokens
    )
  }

  public func stream(_ request: ModelRequest) -> any ModelStream {
    requests.withLock { $0.append(request) }
    return Arriving(answer(request))
  }

  /// The handles of the deferred answers that were asked for so far.
  public var fetched: [JSON] { fetches.withLock { $0 } }

  /// The handles of the deferred answers that were cancelled so far.
  public var cancelled: [JSON] { cancellations.withLock { $0 } }

  public func fetchDeferred(_ handle: JSON, of model: ModelInfo) -> any ModelStream {
    fetches.withLock { $0.append(handle) }
    return Arriving(fetch(handle))
  }

  public func cancelDeferred(_ handle: JSON, of model: ModelInfo) async throws {
    cancellations.withLock { $0.append(handle) }
  }

  private final class Arriving: ModelStream {
    private let batches: Mutex<[[ModelEvent]]>

    init(_ batches: [[ModelEvent]]) { self.batches = Mutex(batches) }

    func next() async -> [ModelEvent] {
      batches.withLock { $0.isEmpty ? [] : $0.removeFirst() }
    }

    func cancel() { batches.withLock { $0 = [] } }
  }

  /// The events of an answer of one text, each piece in a batch of its own.
  public static func text(_ pieces: String...) -> [[ModelEvent]] {
    var batches = pieces.map { [ModelEvent.delta(index: 0, $0)] }
    batches.insert([.blockStart(index: 0, .text)], at: 0)
    return batches + [[.finished(.stop)]]
  }

  /// The events of an answer that calls tools.
  public static func calls(
    _ calls: (id: String, name: String, arguments: JSON)...
  ) -> [[ModelEvent]] { self.calls(calls) }

  /// The events of an answer that calls these tools.
  public static func calls(
    _ calls: [(id: String, name: String, arguments: JSON)]
  ) -> [[ModelEvent]] {
    var events: [ModelEvent] = []
    for (index, call) in calls.enumerated() {
      let block = AnswerBlock.toolCall(id: JSONString(call.id), name: JSONString(call.name))
      events.append(.blockStart(index: index, block))
      events.append(.blockEnd(index: index, arguments: call.arguments))
    }
    return [events + [.finished(.toolUse)]]
  }

  /// The events of a failed request.
  public static func failure(_ failure: ProviderFailure) -> [[ModelEvent]] {
    [[.failed(failure)]]
  }

  /// How many assistant messages follow the last user message; a script chooses its turn by it.
  public static func turn(of request: ModelRequest) -> Int {
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
