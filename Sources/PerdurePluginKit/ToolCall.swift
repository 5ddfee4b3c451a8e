public import PerdureValue

/// What a tool, and what stands around one, sends before its answer.
public protocol OutputOperations: HostOperations {}

extension OutputOperations {
  /// The arguments, which the host has checked against the schema.
  public var arguments: JSON { call.input["arguments"] ?? [:] }
  /// The provider's id of the call; not unique in a store.
  public var callId: String { call.input["callId"]?.text ?? "" }
  /// Whether a crash cut off an earlier run of this call.
  public var isRecovered: Bool { call.input["recovered"]?.bool ?? false }

  /// Sends text of any length; waits while the host has no room for it.
  public func output(_ text: String) async throws {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      var end = min(rest.count, Self.frameSize)
      // Not in the middle of a character.
      while end < rest.count, end > 1, rest[rest.startIndex + end] & 0xC0 == 0x80 { end -= 1 }
      try await send(Payload(mediaType: "text/plain", bytes: Array(rest.prefix(end))))
      rest = rest.dropFirst(end)
    }
  }

  /// Sends bytes of any length, which the host decodes.
  public func output(bytes: [UInt8]) async throws {
    var rest = bytes[...]
    while !rest.isEmpty {
      let frame = Array(rest.prefix(Self.frameSize))
      try await send(Payload(mediaType: "application/octet-stream", bytes: frame))
      rest = rest.dropFirst(frame.count)
    }
  }

  /// Says what the details of the call are by now; `null` removes them.
  public func details(_ details: JSON) async throws {
    try await send(Payload(["details": details]))
  }

  /// Sends a remark for the model.
  public func diagnostic(_ diagnostic: ToolDiagnostic) async throws {
    try await send(Payload(["diagnostic": diagnostic.json]))
  }

  /// Returns once all that was sent so far is committed.
  public func flush() async throws { try await invoke("output.flush") }

  /// Returns what the model would see of the output now, and whether some is left out.
  public func retainedOutput() async throws -> (text: String, isTruncated: Bool) {
    let result = try await invoke("output.retained")
    return (result["text"]?.text ?? "", result["truncated"]?.bool ?? false)
  }

  private static var frameSize: Int { 65_536 }

  private func send(_ payload: Payload) async throws {
    while let code = call.core.tables.emit(call.id, payload) {
      guard code == .wouldBlock else {
        throw PluginError(code, "the host refuses a frame of output")
      }
      try await flush()
    }
  }
}

/// One call of a tool.
public struct ToolCall: OutputOperations, CommitOperations {
  public let call: PluginCall

  init(_ call: PluginCall) { self.call = call }
}

/// One call of a tool of this or another plugin, seen from around it.
public struct ToolWrapCall: OutputOperations, CommitOperations {
  public let call: PluginCall

  init(_ call: PluginCall) { self.call = call }

  /// The name of the tool.
  public var name: String { call.input["tool"]?["name"]?.text ?? "" }

  /// Runs what is wrapped and returns its result; may be called several times, or not at all.
  ///
  /// Other arguments than those of the call are checked against the schema again. What the tool
  /// throws is an error with the reason `tool_error`.
  public func next(_ arguments: JSON? = nil) async throws -> ToolResult {
    var input = JSONObject()
    input["arguments"] = arguments
    let payload = try await request("next", Payload(.object(input)))
    return ToolResult(members: try payload.json().object ?? [:])
  }

  /// Runs what is wrapped and gives what it sends; the end of the stream is the result.
  public func capture(_ arguments: JSON? = nil) async throws -> HostStream {
    var input: JSONObject = ["capture": true]
    input["arguments"] = arguments
    return try await stream("next", .object(input))
  }
}

/// One call for a section of the prompt.
public struct SectionCall: HostOperations {
  public let call: PluginCall

  init(_ call: PluginCall) { self.call = call }

  /// What the choices of the conversation come to.
  public var agent: JSON { call.input["agent"] ?? [:] }
  /// The texts of all sections as the model was shown them last, by key.
  public var shown: JSONObject { call.input["shown"]?.object ?? [:] }
}

/// One call for a section, seen from around it.
public struct SectionWrapCall: HostOperations {
  public let call: PluginCall

  init(_ call: PluginCall) { self.call = call }

  /// What the choices of the conversation come to.
  public var agent: JSON { call.input["agent"] ?? [:] }
  /// The texts of all sections as the model was shown them last, by key.
  public var shown: JSONObject { call.input["shown"]?.object ?? [:] }

  /// Runs what is wrapped and returns its text.
  public func next() async throws -> String? { try await invoke("next")["text"]?.text }
}
