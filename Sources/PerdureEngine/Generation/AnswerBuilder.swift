import PerdureModel
import PerdureValue

/// Folds the events of a model's answer into the message that is stored.
struct AnswerBuilder: Sendable {
  private struct Block {
    var kind: AnswerBlock
    var text = ""
    var arguments: JSON?
    /// The arguments as far as they have arrived.
    var partial = PartialArguments()
    var shownArguments: JSON?
    var members = JSONObject()
  }

  private let model: ModelInfo
  private let timestamp: Int64
  private var blocks: [Block] = []
  private var usage = Usage()
  /// How the answer ended, once it has.
  private(set) var end: End?

  enum End: Sendable {
    case finished(StopReason)
    case failed(ProviderFailure)
    /// It is to be fetched later, with this handle.
    case deferred(handle: JSON)
  }

  init(model: ModelInfo, timestamp: Int64) {
    self.model = model
    self.timestamp = timestamp
  }

  /// Whether there is anything to show yet.
  var hasContent: Bool { !blocks.isEmpty }

  var tokens: Usage { usage }

  /// The tool calls in order.
  var calls: [(id: JSONString, name: JSONString)] {
    blocks.compactMap { block in
      if case .toolCall(let id, let name) = block.kind { return (id, name) }
      return nil
    }
  }

  /// Takes one event; what cannot belong to an answer ends it as failed.
  mutating func apply(_ event: ModelEvent) {
    guard end == nil else { return }
    switch event {
    case .blockStart(let index, let kind): start(index, kind)
    case .delta(let index, let text):
      guard blocks.indices.contains(index) else { return breakOff("text of an unknown block") }
      blocks[index].text += text
      if case .toolCall = blocks[index].kind { blocks[index].partial.append(text) }
    case .blockEnd(let index, let arguments, let members):
      guard blocks.indices.contains(index) else { return breakOff("end of an unknown block") }
      if let arguments { blocks[index].arguments = arguments }
      for (key, value) in members { blocks[index].members[key] = value }
    case .usage(let usage): self.usage = usage
    case .finished(let reason): finish(reason)
    case .deferred(let handle) where handle.object != nil: end = .deferred(handle: handle)
    case .deferred: breakOff("deferral of an answer without a handle")
    case .failed(let failure): end = .failed(failure)
    }
  }

  private mutating func breakOff(_ what: String) {
    end = .failed(ProviderFailure(.retry, "the provider sent the \(what)"))
  }

  private mutating func start(_ index: Int, _ kind: AnswerBlock) {
    guard index == blocks.count else { return breakOff("start of a block out of order") }
    guard case .toolCall(let id, let name) = kind else {
      blocks.append(Block(kind: kind))
      return
    }
    // Results are matched by id, so two calls of one answer may not share one.
    let isTaken = id.isEmpty || calls.contains { $0.id == id }
    let unique = isTaken ? JSONString("call_\(index)_\(timestamp)") : id
    blocks.append(Block(kind: .toolCall(id: unique, name: name)))
  }

  private mutating func finish(_ reason: StopReason) {
    for position in blocks.indices {
      guard case .toolCall = blocks[position].kind else { continue }
      switch Self.arguments(of: blocks[position]) {
      case .success(let arguments): blocks[position].arguments = arguments
      case .failure(let problem):
        // The model is told in the result of the call, and what it may have meant is not guessed.
        blocks[position].arguments = [:]
        blocks[position].members["argumentsError"] = .string(problem.text)
      }
    }
    end = .finished(reason)
  }

  /// Why the arguments of a call are no object.
  private struct ArgumentsProblem: Error {
    var text: String

    init(_ reason: String, received: String) {
      let start = received.prefix(4_000)
      text = "\(reason); received \(start)\(start.endIndex < received.endIndex ? "…" : "")"
    }
  }

  private static func arguments(of block: Block) -> Result<JSON, ArgumentsProblem> {
    let value: JSON
    if let arguments = block.arguments {
      value = arguments
    } else if block.text.utf8.allSatisfy({ " \n\r\t".utf8.contains($0) }) {
      value = [:]
    } else {
      do {
        value = try JSON(parsing: block.text)
      } catch {
        return .failure(ArgumentsProblem("they are no JSON: \(error)", received: block.text))
      }
    }
    guard StorageWrite.takes(value) else {
      let depth = StorageWrite.depth
      return .failure(
        ArgumentsProblem("they nest deeper than \(depth)", received: value.compactText)
      )
    }
    guard value.object == nil else { return .success(value) }
    return .failure(ArgumentsProblem("expected an object", received: value.compactText))
  }

  /// The message so far with the arguments that have arrived of calls that are not complete.
  mutating func partialMessage() -> JSON {
    for position in blocks.indices {
      guard case .toolCall = blocks[position].kind, blocks[position].arguments == nil else {
        continue
      }
      blocks[position].shownArguments = blocks[position].partial.value()
    }
    return message(.stop)
  }

  /// The message so far, in its persisted form.
  func message(_ stopReason: StopReason, errorMessage: String? = nil) -> JSON {
    var message: JSONObject = [
      "role": "assistant", "content": .array(blocks.map { content($0) }),
      "api": .string(model.api), "provider": .string(model.reference.provider),
      "model": .string(model.reference.modelId), "usage": usage.json,
      "stopReason": .string(stopReason.rawValue),
    ]
    if let errorMessage { message["errorMessage"] = .string(errorMessage) }
    message["timestamp"] = .int(timestamp)
    return .object(message)
  }

  private func content(_ block: Block) -> JSON {
    var item: JSONObject
    switch block.kind {
    case .text: item = ["type": "text", "text": .string(block.text)]
    case .thinking: item = ["type": "thinking", "thinking": .string(block.text)]
    case .toolCall(let id, let name):
      item = [
        "type": "toolCall", "id": .string(id), "name": .string(name),
        "arguments": block.arguments ?? block.shownArguments ?? [:],
      ]
    }
    for (key, value) in block.members where item[key] == nil { item[key] = value }
    return .object(item)
  }
}
