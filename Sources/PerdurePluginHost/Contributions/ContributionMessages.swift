import PerdureModel
import PerdureValue

/// The members of messages.
extension JSONKey {
  static let agent = JSONKey("agent")
  static let approvals = JSONKey("approvals")
  static let arguments = JSONKey("arguments")
  static let assistant = JSONKey("assistant")
  static let bytesPerSecond = JSONKey("bytesPerSecond")
  static let call = JSONKey("call")
  static let callId = JSONKey("callId")
  static let conversation = JSONKey("conversation")
  static let ctx = JSONKey("ctx")
  static let durationMs = JSONKey("durationMs")
  static let env = JSONKey("env")
  static let extensionName = JSONKey("extension")
  static let fromVersion = JSONKey("fromVersion")
  static let id = JSONKey("id")
  static let key = JSONKey("key")
  static let kind = JSONKey("kind")
  static let maxBytes = JSONKey("maxBytes")
  static let maxLines = JSONKey("maxLines")
  static let message = JSONKey("message")
  static let minIntervalMs = JSONKey("minIntervalMs")
  static let name = JSONKey("name")
  static let now = JSONKey("now")
  static let outputWindow = JSONKey("outputWindow")
  static let parent = JSONKey("parent")
  static let phase = JSONKey("phase")
  static let record = JSONKey("record")
  static let recovered = JSONKey("recovered")
  static let replay = JSONKey("replay")
  static let result = JSONKey("result")
  static let results = JSONKey("results")
  static let settings = JSONKey("settings")
  static let shown = JSONKey("shown")
  static let task = JSONKey("task")
  static let toVersion = JSONKey("toVersion")
  static let tool = JSONKey("tool")
  static let value = JSONKey("value")
}

/// What contributions are told, as docs/plugins.md has it.
enum ContributionMessage {
  /// The text of a message: the member `ctx` that every call has, and what `body` writes.
  static func encoded(
    _ core: PluginCore,
    now: Int64,
    conversation: ConversationID? = nil,
    task: TaskID? = nil,
    kind: String? = nil,
    _ body: (inout JSONWriter) -> Void = { _ in }
  ) -> [UInt8] {
    var writer = JSONWriter()
    writer.begin(.ctx)
    if let conversation { writer.member(.conversation, conversation.value) }
    if let task { writer.member(.task, task.value) }
    if let kind { writer.member(.kind, JSONString(kind)) }
    writer.member(.now, now)
    writer.member(.settings, Int64(core.settingsRevision))
    writer.end()
    body(&writer)
    return writer.finished()
  }

  /// What a conversation's choices come to.
  static func agent(_ info: AgentInfo) -> JSON {
    var agent = JSONObject()
    if let model = info.model { agent["model"] = model.json }
    agent["thinkingLevel"] = .string(info.thinkingLevel)
    agent["extensions"] = names(info.extensions)
    agent["tools"] = names(info.tools)
    agent["deferred"] = names(info.deferred)
    agent["callable"] = names(info.callable)
    if let instructions = info.instructions { agent["instructions"] = .string(instructions) }
    if let cwd = info.cwd { agent["cwd"] = .string(cwd) }
    return .object(agent)
  }

  /// Which environment a call may use.
  static func environment(_ env: any Environment) -> JSON {
    ["id": .string(env.id), "cwd": .string(env.cwd)]
  }

  static func names(_ names: [String]) -> JSON { .array(names.map { .string($0) }) }

  /// Writes a call of a tool, as hooks see it.
  static func write(
    _ call: HookedCall,
    _ images: ImageTable,
    to writer: inout JSONWriter
  ) {
    writer.begin(.call)
    writer.member(.id, call.id)
    writer.member(.name, call.name)
    writer.member(.arguments, images.elided(call.arguments))
    if let parent = call.parent { write(parent, to: &writer) }
    writer.end()
  }

  /// Writes the call within which another one is made.
  static func write(_ parent: HookedCall.Parent, to writer: inout JSONWriter) {
    writer.begin(.parent)
    writer.member(.task, parent.taskId.value)
    writer.member(.callId, parent.callId)
    writer.end()
  }

  /// Writes how much output is shown.
  static func write(_ window: OutputWindowHint, to writer: inout JSONWriter) {
    writer.begin(.outputWindow)
    writer.member(.maxBytes, Int64(window.maxBytes))
    writer.member(.maxLines, Int64(window.maxLines))
    writer.member(.minIntervalMs, Int64(window.minIntervalMs))
    writer.member(.bytesPerSecond, Int64(window.bytesPerSecond))
    writer.end()
  }

  static func consent(_ consent: HookedCall.Consent) -> JSON {
    var object: JSONObject = [
      "key": .string(consent.key), "task": consent.taskId.json, "answer": "allow",
      "choice": .string(consent.choice),
    ]
    if let note = consent.note { object["note"] = .string(note) }
    return .object(object)
  }

  /// A result of a tool.
  static func result(_ result: ToolResult, _ images: ImageTable) -> JSONObject {
    var object = JSONObject()
    if let output = result.output { object["output"] = images.elided(.array(output)) }
    if let structured = result.structuredOutput {
      object["structuredOutput"] = images.elided(structured)
    }
    object["isError"] = .bool(result.isError)
    if let details = result.details { object["details"] = images.elided(details) }
    object["diagnostics"] = .array(result.diagnostics.map(\.json))
    if let usage = result.usage { object["usage"] = usage.json }
    if let control = result.control { object["control"] = .object(control) }
    return object
  }

  /// What a section is made from.
  static func section(_ core: PluginCore, _ input: PromptInput) -> [UInt8] {
    encoded(
      core,
      now: input.read.now(),
      conversation: input.conversationId,
      task: (input.read as? any HookContext)?.taskId,
      kind: "pi.generation"
    ) { writer in
      writer.member(.agent, agent(input.agent))
      writer.begin(.shown)
      writer.members(
        of: JSONObject(
          input.shown.sorted { $0.key < $1.key }.map {
            (JSONString($0.key), JSON.string($0.value))
          }
        )
      )
      writer.end()
      if let env = input.env { writer.member(.env, environment(env)) }
    }
  }

  /// Writes what a tool and its wraps get of a call.
  static func write(_ call: ToolCall, to writer: inout JSONWriter) {
    writer.member(.callId, call.callId)
    writer.member(.arguments, call.arguments)
    writer.member(.replay, JSONString(call.replay.rawValue))
    if call.recovered { writer.member(.recovered, .bool(true)) }
    if let env = call.env { writer.member(.env, environment(env)) }
  }

  /// What the wrap of a tool is called with.
  static func wrappedCall(_ core: PluginCore, _ call: ToolCall, _ tool: Tool) -> [UInt8] {
    encoded(
      core,
      now: call.host.clock().now,
      conversation: call.conversationId,
      task: call.taskId,
      kind: "pi.tool"
    ) { writer in
      write(call, to: &writer)
      if let window = call.outputWindow { write(window, to: &writer) }
      writer.begin(.tool)
      writer.member(.name, JSONString(tool.name))
      if let owner = tool.owner { writer.member(.extensionName, JSONString(owner)) }
      writer.end()
    }
  }
}
