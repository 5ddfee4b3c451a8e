import PerdureValue

/// What real Chat Completions servers refuse, all of it together.
enum MockRules {
  private static let members: [JSONString] = [
    "model", "messages", "tools", "stream", "stream_options", "max_tokens",
    "max_completion_tokens", "reasoning_effort",
  ]

  /// Why the request is refused, or `nil`.
  static func refusal(of request: MockRequest) -> String? {
    if request.method != "POST" { return "method \(request.method) not allowed" }
    let path = request.target.prefix { $0 != "?" }
    if !path.hasSuffix("/chat/completions") { return "unknown path \(path)" }
    if request["content-type"] != "application/json" { return "content type must be JSON" }
    return refusal(of: request.json)
  }

  static func refusal(of body: JSON) -> String? {
    guard let object = body.object else { return "could not parse the JSON body" }
    if let key = object.keys.first(where: { !members.contains($0) }) {
      return "unrecognized request argument supplied: \(key.string)"
    }
    if (body["model"]?.text ?? "").isEmpty { return "you must provide a model parameter" }
    if body["stream_options"] != nil, body["stream"]?.bool != true {
      return "stream_options is only allowed when streaming"
    }
    if let count = object["max_tokens"]?.int, count < 1 { return "max_tokens is below 1" }
    if let tools = body["tools"], let refusal = refusal(ofTools: tools.array ?? []) {
      return refusal
    }
    guard let messages = body["messages"]?.array, !messages.isEmpty else {
      return "[] is too short - 'messages'"
    }
    return refusal(ofMessages: messages)
  }

  private static func isName(_ text: String, limit: Int) -> Bool {
    !text.isEmpty && text.utf8.count <= limit
      && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_" || $0 == "-") }
  }

  private static func refusal(ofTools tools: [JSON]) -> String? {
    if tools.isEmpty { return "[] is too short - 'tools'" }
    if tools.count > 128 { return "array too long - 'tools'" }
    var names: Set<String> = []
    for tool in tools {
      guard tool["type"]?.text == "function", let function = tool["function"] else {
        return "a tool is no function"
      }
      let name = function["name"]?.text ?? ""
      guard isName(name, limit: 64) else { return "tool name '\(name)' does not match pattern" }
      guard names.insert(name).inserted else { return "tool names must be unique" }
      if let text = function["description"], text.text == nil { return "bad description" }
      guard let schema = function["parameters"], schema["type"]?.text == "object",
        schema["properties"]?.object != nil
      else { return "invalid schema for function '\(name)'" }
    }
    return nil
  }

  private static func refusal(ofMessages messages: [JSON]) -> String? {
    var open: [String] = []
    for (position, message) in messages.enumerated() {
      let role = message["role"]?.text ?? ""
      if message.object?.values.contains(.null) ?? true { return "null in message \(position)" }
      if role != "tool", !open.isEmpty { return "tool calls without results: \(open)" }
      switch role {
      case "system":
        if position != 0 { return "a system message must come first" }
        if (message["content"]?.text ?? "").isEmpty { return "empty system message" }
      case "user":
        if let refusal = refusal(ofUser: message["content"]) { return refusal }
      case "assistant":
        let calls = message["tool_calls"]
        if let content = message["content"], (content.text ?? "").isEmpty {
          return "empty assistant content"
        }
        if message["content"] == nil, calls == nil { return "content or tool_calls is required" }
        if let calls {
          if let refusal = refusal(ofCalls: calls.array ?? []) { return refusal }
          open = (calls.array ?? []).compactMap { $0["id"]?.text }
        }
      case "tool":
        let id = message["tool_call_id"]?.text ?? ""
        guard let position = open.firstIndex(of: id) else { return "tool result for no call" }
        open.remove(at: position)
        if message["content"]?.text == nil { return "a tool result must be text" }
      default: return "unknown role '\(role)'"
      }
    }
    return open.isEmpty ? nil : "tool calls without results: \(open)"
  }

  private static func refusal(ofUser content: JSON?) -> String? {
    if content?.text != nil { return nil }
    guard let parts = content?.array, !parts.isEmpty else { return "invalid user content" }
    for part in parts {
      switch part["type"]?.text {
      case "text": if (part["text"]?.text ?? "").isEmpty { return "empty text part" }
      case "image_url":
        let url = part["image_url"]?["url"]?.text ?? ""
        let isImage = ["image/png", "image/jpeg", "image/gif", "image/webp"].contains {
          url.hasPrefix("data:\($0);base64,") && !url.hasSuffix(",")
        }
        if !isImage { return "invalid image" }
      default: return "unknown part"
      }
    }
    return nil
  }

  private static func refusal(ofCalls calls: [JSON]) -> String? {
    if calls.isEmpty { return "[] is too short - 'tool_calls'" }
    var ids: Set<String> = []
    for call in calls {
      let id = call["id"]?.text ?? ""
      guard isName(id, limit: 40) else { return "invalid tool call id '\(id)'" }
      guard ids.insert(id).inserted else { return "tool call ids must be unique" }
      guard call["type"]?.text == "function" else { return "a call is no function call" }
      let name = call["function"]?["name"]?.text ?? ""
      guard isName(name, limit: 64) else { return "invalid function name '\(name)'" }
      let text = call["function"]?["arguments"]?.text ?? ""
      guard (try? JSON(parsing: text))?.object != nil else { return "invalid arguments" }
    }
    return nil
  }
}
