package import PerdureModel
package import PerdureValue

/// Turns the chunks of a Chat Completions stream into events; pure, and lenient where compatible
/// servers differ.
package struct ChatStreamDecoder {
  /// Where servers put reasoning; some send it in two fields at once.
  static let reasoningFields: [JSONString] = ["reasoning_content", "reasoning", "reasoning_text"]

  private enum Kind: Equatable {
    case text
    case thinking(field: JSONString)
  }

  /// Whether the last event has been given out.
  package private(set) var isOver = false
  /// Why the model stopped, in the server's words; absent until it says so.
  private(set) var finishReason: String?

  private let realNames: [String: JSONString]
  private var blocks = 0
  private var open: (index: Int, kind: Kind)?
  /// The first half of a character whose escape the server cut in two.
  private var half: UInt16?
  private var calls = ChatToolCalls()
  private var sawChunk = false

  /// Makes a decoder for an answer to a request that offered `tools`.
  package init(tools: [JSONString] = []) {
    realNames = Dictionary(
      tools.map { (WireNames.tool($0), $0) },
      uniquingKeysWith: { first, _ in first }
    )
  }

  /// Returns the events that one event of the stream means.
  package mutating func decode(_ event: ServerSentEventParser.Event) -> [ModelEvent] {
    if isOver { return [] }
    // Some servers name an error in this way only.
    if event.name == "error" {
      let text = String(decoding: event.data, as: UTF8.self)
      return fail(ErrorAnswer(inStream: Self.parse(text) ?? .string(text)).failure)
    }
    return decode(event.data)
  }

  /// Returns the events that the data of one event of the stream means.
  package mutating func decode(_ data: [UInt8]) -> [ModelEvent] {
    if isOver { return [] }
    if data.first == UInt8(ascii: "{"), let chunk = try? JSON(parsing: data) {
      return decode(chunk)
    }
    let text = String(decoding: data, as: UTF8.self).trimmed
    if text.isEmpty { return [] }
    if text == "[DONE]" { return finish(sawDone: true) }
    guard let chunk = Self.parse(text) else {
      return fail(ProviderFailure(.retry, "the provider sent a line that is not JSON"))
    }
    return decode(chunk)
  }

  /// Returns the last events of a stream that ended; `isCut` says that its last event was cut off.
  package mutating func end(cut data: [UInt8]? = nil) -> [ModelEvent] {
    if isOver { return [] }
    if let data {
      let text = String(decoding: data, as: UTF8.self).trimmed
      if text == "[DONE]" || text.isEmpty || Self.parse(text) != nil {
        let events = decode(data)
        return isOver ? events : events + finish(sawDone: false)
      }
      if finishReason == nil {
        return fail(ProviderFailure(.retry, "the stream ended early, inside a line of JSON"))
      }
    }
    return finish(sawDone: false)
  }

  /// Returns the failure as the last event.
  mutating func fail(_ failure: ProviderFailure) -> [ModelEvent] {
    if isOver { return [] }
    isOver = true
    return [.failed(failure)]
  }

  private static func parse(_ text: String) -> JSON? {
    if let value = try? JSON(parsing: text) { return value.object == nil ? nil : value }
    guard let object = JSONPrefix.object(in: Array(text.utf8)) else { return nil }
    return try? JSON(parsing: object)
  }

  // MARK: Chunks

  private mutating func decode(_ chunk: JSON) -> [ModelEvent] {
    var events: [ModelEvent] = []
    let choices = chunk["choices"]?.array ?? []
    // With several choices only the first one is the answer.
    let choice = choices.first { ($0["index"]?.int ?? 0) == 0 }
    if let choice { decode(choice, into: &events) }
    if let usage = chunk["usage"] ?? choice?["usage"], usage.object != nil {
      events.append(.usage(Usage(chatCompletions: usage)))
    }
    if let error = chunk["error"], !error.isNull {
      events += fail(ErrorAnswer(inStream: chunk).failure)
    }
    return events
  }

  private mutating func decode(_ choice: JSON, into events: inout [ModelEvent]) {
    sawChunk = true
    let delta = choice["delta"] ?? choice["message"] ?? [:]
    for field in Self.reasoningFields {
      guard let text = delta[field]?.string, !text.isEmpty else { continue }
      append(text, .thinking(field: field), into: &events)
      break
    }
    decodeContent(delta["content"], into: &events)
    if let refusal = delta["refusal"]?.string { append(refusal, .text, into: &events) }
    for piece in delta["tool_calls"]?.array ?? [] where piece.object != nil {
      closeOpenBlock(into: &events)
      calls.take(piece, realName: realName, blocks: &blocks, events: &events)
    }
    if let reason = choice["finish_reason"]?.text { finishReason = reason }
  }

  private mutating func decodeContent(_ content: JSON?, into events: inout [ModelEvent]) {
    if let text = content?.string { return append(text, .text, into: &events) }
    for part in content?.array ?? [] {
      if let text = part["text"]?.string { append(text, .text, into: &events) }
      for thought in part["thinking"]?.array ?? [] {
        append(thought["text"]?.string ?? "", .thinking(field: ""), into: &events)
      }
    }
  }

  private mutating func append(_ piece: JSONString, _ kind: Kind, into events: inout [ModelEvent]) {
    guard !piece.isEmpty else { return }
    if open?.kind != kind {
      closeOpenBlock(into: &events)
      events.append(.blockStart(index: blocks, kind == .text ? .text : .thinking))
      open = (blocks, kind)
      blocks += 1
    }
    let text = joined(piece)
    if !text.isEmpty { events.append(.delta(index: open?.index ?? 0, text)) }
  }

  /// Returns the text of a piece; a character that two events share is held back until it is whole.
  private mutating func joined(_ piece: JSONString) -> String {
    let whole = half.map { JSONString(utf16: [$0]).appending(piece) } ?? piece
    half = nil
    if let text = whole.unicode { return text }
    let units = whole.utf16
    guard let last = units.last, (0xD800...0xDBFF).contains(last) else { return whole.string }
    half = last
    return JSONString(utf16: units.dropLast()).string
  }

  private mutating func closeOpenBlock(into events: inout [ModelEvent]) {
    guard let block = open else { return }
    open = nil
    if half != nil {
      half = nil
      events.append(.delta(index: block.index, "\u{FFFD}"))
    }
    if case .thinking(let field) = block.kind, !field.isEmpty {
      events.append(
        .blockEnd(index: block.index, members: ["thinkingSignature": .string(field)])
      )
    } else {
      events.append(.blockEnd(index: block.index))
    }
  }

  private func realName(_ wireName: String) -> JSONString {
    realNames[wireName] ?? JSONString(wireName)
  }

  // MARK: The end

  private mutating func finish(sawDone: Bool) -> [ModelEvent] {
    guard finishReason != nil || sawDone else {
      return fail(
        ProviderFailure(
          .retry,
          sawChunk ? "the stream ended early" : "the stream ended without any event"
        )
      )
    }
    switch finishReason {
    case "content_filter":
      return fail(ProviderFailure(.stop, "the provider's content filter ended the answer"))
    case "model_context_window_exceeded":
      return fail(ProviderFailure(.overflow, "the answer outgrew the model's context window"))
    case "error":
      return fail(ProviderFailure(.retry, "the provider ended the answer with an error"))
    default: break
    }
    var events: [ModelEvent] = []
    closeOpenBlock(into: &events)
    calls.finish(realName: realName, blocks: &blocks, events: &events)
    let isLength = ["length", "max_tokens", "model_length"].contains(finishReason)
    guard blocks > 0 || isLength else {
      return fail(ProviderFailure(.retry, "the provider sent an empty answer"))
    }
    isOver = true
    events.append(.finished(isLength ? .length : calls.isEmpty ? .stop : .toolUse))
    return events
  }
}
