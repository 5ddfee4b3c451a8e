package import PerdureModel
package import PerdureValue

/// Writes persisted messages as the body of a Chat Completions request.
package struct ChatRequestEncoder {
  private let request: ModelRequest
  /// `max_tokens` almost everywhere; OpenAI itself has retired that name.
  var maxTokensField: JSONString = "max_tokens"

  /// Makes an encoder for `request`.
  package init(_ request: ModelRequest) { self.request = request }

  /// The body.
  package var body: JSON {
    let prompt = PromptState(replaying: request.messages)
    var object: JSONObject = [
      "model": .string(request.model.reference.modelId),
      "messages": .array(messages(prompt)),
    ]
    if !prompt.tools.isEmpty { object["tools"] = .array(prompt.tools.map(Self.tool)) }
    if let limit = request.streamOptions["maxTokens"]?.int, limit > 0 {
      object[maxTokensField] = .int(limit)
    } else if request.model.maxTokens > 0 {
      object[maxTokensField] = .int(request.model.maxTokens)
    }
    if let reasoning = request.reasoning { object["reasoning_effort"] = .string(reasoning) }
    object["stream"] = true
    object["stream_options"] = ["include_usage": true]
    return .object(object)
  }

  private static func tool(_ declaration: JSON) -> JSON {
    var function: JSONObject = [
      "name": .string(WireNames.tool(declaration["name"]?.string ?? ""))
    ]
    if let description = declaration["description"]?.text {
      function["description"] = .string(description)
    }
    function["parameters"] = declaration["parameters"] ?? ["type": "object", "properties": [:]]
    return ["type": "function", "function": .object(function)]
  }

  private func messages(_ prompt: PromptState) -> [JSON] {
    var messages: [JSON] = []
    let system = systemText(prompt)
    if !system.isEmpty { messages.append(["role": "system", "content": .string(system)]) }
    // The calls that wait for their results; a result without one would be refused.
    var openCalls: Set<JSONString> = []
    for message in request.messages {
      switch message["role"]?.text {
      case "user":
        openCalls = []
        messages.append(["role": "user", "content": Self.userContent(message["content"])])
      case "assistant":
        openCalls = []
        guard let encoded = assistant(message, openCalls: &openCalls) else { continue }
        messages.append(encoded)
      case "toolResult":
        guard let id = message["toolCallId"]?.string, openCalls.remove(id) != nil else { continue }
        messages.append([
          "role": "tool", "tool_call_id": .string(WireNames.call(id)),
          "content": .string(Self.resultText(message["content"])),
        ])
      default: continue
      }
    }
    return messages
  }

  private func systemText(_ prompt: PromptState) -> String {
    let contents = request.messages.lazy.filter { $0["role"]?.text == "system" }
      .compactMap { $0["content"]?.text }
    let sections = prompt.sections.values.compactMap { $0.text }
    return (contents + sections).filter { !$0.isEmpty }.joined(separator: "\n\n")
  }

  // MARK: User messages and results

  private static func userContent(_ content: JSON?) -> JSON {
    guard let blocks = content?.array else { return .string(content?.text ?? "") }
    // Many servers take plain strings only, so parts are used where an image needs them.
    guard blocks.contains(where: { $0["type"]?.text == "image" }) else {
      return .string(blocks.compactMap { $0["text"]?.text }.joined(separator: "\n"))
    }
    return .array(blocks.compactMap(userPart))
  }

  private static func userPart(_ block: JSON) -> JSON? {
    switch block["type"]?.text {
    case "text":
      guard let text = block["text"]?.text, !text.isEmpty else { return nil }
      return ["type": "text", "text": .string(text)]
    case "image":
      let url = "data:\(block["mimeType"]?.text ?? "image/png");base64,\(block["data"]?.text ?? "")"
      return ["type": "image_url", "image_url": ["url": .string(url)]]
    default: return nil
    }
  }

  private static func resultText(_ content: JSON?) -> String {
    guard let blocks = content?.array else { return content?.text ?? "" }
    let lines = blocks.compactMap { block in
      switch block["type"]?.text {
      case "text": block["text"]?.text
      case "image": "[an image (\(block["mimeType"]?.text ?? "unknown type")) that cannot be shown]"
      default: nil
      }
    }
    return lines.joined(separator: "\n")
  }

  // MARK: Assistant messages

  private func assistant(_ message: JSON, openCalls: inout Set<JSONString>) -> JSON? {
    // Partial answers may end inside a call; the context leaves them out, and so does a request.
    if ["error", "aborted", "deferred"].contains(message["stopReason"]?.text) { return nil }
    let blocks = message["content"]?.array ?? []
    let text = blocks.filter { $0["type"]?.text == "text" }
      .compactMap { $0["text"]?.text }.joined(separator: "")
    let calls = blocks.filter { $0["type"]?.text == "toolCall" }
    // Without text and calls there is nothing that all servers would accept.
    guard !text.isEmpty || !calls.isEmpty else { return nil }
    var encoded: JSONObject = ["role": "assistant"]
    if !text.isEmpty { encoded["content"] = .string(text) }
    replayThinking(blocks, of: message, into: &encoded)
    if !calls.isEmpty { encoded["tool_calls"] = .array(calls.map(Self.call)) }
    openCalls = Set(calls.compactMap { $0["id"]?.string })
    return .object(encoded)
  }

  private static func call(_ block: JSON) -> JSON {
    let arguments = block["arguments"] ?? [:]
    return [
      "id": .string(WireNames.call(block["id"]?.string ?? "")), "type": "function",
      "function": [
        "name": .string(WireNames.tool(block["name"]?.string ?? "")),
        "arguments": .string(arguments.object == nil ? "{}" : arguments.compactText),
      ],
    ]
  }

  /// Some servers refuse a call whose reasoning does not come back in the field it came in.
  private func replayThinking(_ blocks: [JSON], of message: JSON, into encoded: inout JSONObject) {
    let model = request.model
    guard message["api"]?.text == model.api, message["model"]?.text == model.reference.modelId,
      message["provider"]?.text == model.reference.provider
    else { return }
    let thinking = blocks.filter {
      $0["type"]?.text == "thinking" && !($0["thinking"]?.text ?? "").isEmpty
    }
    guard let field = thinking.first?["thinkingSignature"]?.text,
      ChatStreamDecoder.reasoningFields.contains(JSONString(field))
    else { return }
    let text = thinking.compactMap { $0["thinking"]?.text }.joined(separator: "\n")
    encoded[JSONString(field)] = .string(text)
  }
}
