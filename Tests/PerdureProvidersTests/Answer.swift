import PerdureModel
import PerdureValue

/// All events of an answer, put together for expectations.
struct Answer: Sendable {
  var events: [ModelEvent] = []

  init(_ events: [ModelEvent]) { self.events = events }

  init(reading stream: any ModelStream) async {
    while true {
      let batch = await stream.next()
      if batch.isEmpty { break }
      events += batch
    }
  }

  /// The blocks as persisted messages hold them, arguments as compact text.
  var blocks: [String] {
    var blocks: [String] = []
    var kinds: [AnswerBlock] = []
    for event in events {
      switch event {
      case .blockStart(let index, let kind):
        guard index == kinds.count else { return ["block \(index) is out of order"] }
        kinds.append(kind)
        switch kind {
        case .text: blocks.append("text:")
        case .thinking: blocks.append("thinking:")
        case .toolCall(_, let name): blocks.append("\(name.string):")
        }
      case .delta(let index, let text): blocks[index] += text
      case .blockEnd(let index, let arguments?, _):
        let start = blocks[index].firstIndex(of: ":") ?? blocks[index].endIndex
        blocks[index] = "\(blocks[index][..<start]):\(arguments.compactText)"
      default: break
      }
    }
    return blocks
  }

  var callIds: [String] {
    events.compactMap {
      if case .blockStart(_, .toolCall(let id, _)) = $0 { return id.string }
      return nil
    }
  }

  var usage: Usage? {
    events.compactMap { if case .usage(let usage) = $0 { usage } else { nil } }.last
  }

  var stopReason: StopReason? {
    if case .finished(let reason)? = events.last { return reason }
    return nil
  }

  var failure: ProviderFailure? {
    if case .failed(let failure)? = events.last { return failure }
    return nil
  }
}

extension ModelRequest {
  /// A request to a model nobody knows anything about.
  init(
    _ messages: [JSON],
    provider: String = "openai",
    attempt: Int = 1,
    streamOptions: JSONObject = [:]
  ) {
    let reference = ModelReference(provider: provider, modelId: "test-model")
    let api = provider == "openai" ? "openai-completions" : provider
    self.init(
      model: ModelInfo(reference: reference, api: api, contextWindow: 0, maxTokens: 0),
      messages: messages,
      attempt: attempt,
      streamOptions: streamOptions
    )
  }
}
