import PerdureModel
import PerdureProviders
import PerdureValue
import Testing

@Suite struct ChatRequestEncoderTests {
  private func body(_ messages: [JSON]) -> JSON { ChatRequestEncoder(ModelRequest(messages)).body }

  private func assistant(_ content: [JSON], stopReason: String = "stop") -> JSON {
    [
      "role": "assistant", "content": .array(content), "api": "openai-completions",
      "provider": "openai", "model": "test-model", "stopReason": .string(stopReason),
    ]
  }

  private func call(_ id: JSON, _ name: JSON = "f", _ arguments: JSON = [:]) -> JSON {
    ["type": "toolCall", "id": id, "name": name, "arguments": arguments]
  }

  private func result(_ id: JSON, _ content: [JSON]) -> JSON {
    ["role": "toolResult", "toolCallId": id, "toolName": "f", "content": .array(content)]
  }

  private static let user: JSON = ["role": "user", "content": "hi"]
  private static let text: JSON = ["type": "text", "text": "a"]

  @Test func `system messages are folded into one at the front`() {
    let body = body([
      ["role": "system", "content": "", "sections": ["a": "A", "b": "B"]], Self.user,
      ["role": "system", "content": "", "sections": ["a": .null, "c": "C"]],
    ])
    #expect(
      body["messages"] == [
        ["role": "system", "content": "B\n\nC"], ["role": "user", "content": "hi"],
      ]
    )
  }

  @Test func `nothing is said where there is nothing to say`() {
    #expect(
      body([Self.user]).compactText
        == #"{"model":"test-model","messages":[{"role":"user","content":"hi"}],"#
        + #""stream":true,"stream_options":{"include_usage":true}}"#
    )
  }

  @Test func `tools keep the order of their declaration`() {
    let tools: [JSON] = ["b", "a"].map { ["name": $0, "description": "d"] }
    let body = body([["role": "system", "content": "", "toolsAdded": .array(tools)], Self.user])
    let functions = body["tools"]?.array?.map { $0["function"]?.compactText ?? "" }
    let end = #""description":"d","parameters":{"type":"object","properties":{}}}"#
    #expect(functions == [#"{"name":"b",\#(end)"#, #"{"name":"a",\#(end)"#])
  }

  @Test func `a limit of tokens is sent only when it is known`() {
    var request = ModelRequest([Self.user])
    #expect(ChatRequestEncoder(request).body["max_tokens"] == nil)
    request.model.maxTokens = 100
    #expect(ChatRequestEncoder(request).body["max_tokens"] == 100)
    // A request for a summary has a limit of its own.
    request.streamOptions["maxTokens"] = 7
    #expect(ChatRequestEncoder(request).body["max_tokens"] == 7)
  }

  @Test func `calls and results pair up`() {
    let body = body([
      Self.user, assistant([Self.text, call("c1", "f", ["x": 1])]), result("c1", [Self.text]),
    ])
    #expect(
      body["messages"]?.array?.dropFirst().map(\.compactText) == [
        #"{"role":"assistant","content":"a","tool_calls":[{"id":"c1","type":"function","#
          + #""function":{"name":"f","arguments":"{\"x\":1}"}}]}"#,
        #"{"role":"tool","tool_call_id":"c1","content":"a"}"#,
      ]
    )
  }

  @Test func `an image of a user is sent and one of a tool is named`() {
    let image: JSON = ["type": "image", "data": "AAAA", "mimeType": "image/png"]
    let body = body([
      ["role": "user", "content": [Self.text, image]], assistant([call("c1")]),
      result("c1", [Self.text, image]),
    ])
    let messages = body["messages"]?.array ?? []
    #expect(
      messages.first?["content"]?.array?.last?["image_url"]?["url"]
        == "data:image/png;base64,AAAA"
    )
    #expect(messages.last?["content"] == "a\n[an image (image/png) that cannot be shown]")
  }

  @Test func `reasoning goes back into the field it came in`() {
    let thinking: JSON = [
      "type": "thinking", "thinking": "t", "thinkingSignature": "reasoning_content",
    ]
    let messages = [Self.user, assistant([thinking, call("c1")]), result("c1", [])]
    #expect(body(messages)["messages"]?.array?[1]["reasoning_content"] == "t")
    var other = ModelRequest(messages)
    other.model.reference.modelId = "other"
    #expect(ChatRequestEncoder(other).body["messages"]?.array?[1]["reasoning_content"] == nil)
  }

  @Test(arguments: [40, 41, 300])
  func `an id of any length fits and still pairs up`(length: Int) {
    let id = JSON.string(String(repeating: "é|", count: length))
    let body = body([Self.user, assistant([call(id)]), result(id, [])])
    #expect(MockRules.refusal(of: body) == nil)
  }

  @Test func `whatever a history holds, a strict server takes it`() {
    let seed = UInt64.random(in: 0 ... .max)
    print("seed of the random histories: \(seed)")
    var random = SeededGenerator(seed: seed)
    for _ in 0..<500 {
      var messages: [JSON] = [Self.user]
      for _ in 0..<Int.random(in: 0...6, using: &random) {
        messages += round(using: &random)
      }
      let body = body(messages)
      let refusal = MockRules.refusal(of: body)
      #expect(refusal == nil, "seed \(seed): \(body.compactText)")
    }
  }

  /// An assistant message of any kind with one result per call, and perhaps a user message.
  private func round(using random: inout SeededGenerator) -> [JSON] {
    let blocks: [JSON] = [
      Self.text, ["type": "text", "text": ""], ["type": "thinking", "thinking": "t"],
      ["type": "thinking", "thinking": "", "thinkingSignature": "reasoning"], ["type": "odd"],
      call("a b", "weather.get"), call("c1", "f", "text"),
      call(.string(String(repeating: "x", count: 64))),
    ]
    let chosen = blocks.filter { _ in Bool.random(using: &random) }
    let reason = ["stop", "toolUse", "error", "aborted", "length"].randomElement(using: &random)
    let results = chosen.filter { $0["type"] == "toolCall" }.map { block in
      result(block["id"] ?? "", Bool.random(using: &random) ? [Self.text] : [])
    }
    let users: [JSON] = [
      Self.user, ["role": "user", "content": []], ["role": "user", "content": [Self.text]],
      [
        "role": "system", "content": "", "sections": ["s": "text"], "toolsAdded": [["name": "ä.b"]],
      ],
    ]
    return [assistant(chosen, stopReason: reason ?? "stop")] + results
      + users.filter { _ in Bool.random(using: &random) }
  }
}
