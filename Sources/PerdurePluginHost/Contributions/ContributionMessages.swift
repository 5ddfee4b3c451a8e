import PerdureModel
import PerdureValue

/// What contributions are told, as docs/plugins.md has it.
enum ContributionMessage {
  /// The member `ctx` of every call.
  static func context(
    _ core: PluginCore,
    now: Int64,
    conversation: ConversationID? = nil,
    task: TaskID? = nil,
    kind: String? = nil
  ) -> JSON {
    var context = JSONObject()
    if let conversation { context["conversation"] = conversation.json }
    if let task { context["task"] = task.json }
    if let kind { context["kind"] = .string(kind) }
    context["now"] = .int(now)
    context["settings"] = .int(Int64(core.settingsRevision))
    return .object(context)
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

  static func names(_ names: [String]) -> JSON { .array(names.map { .string($0) }) }

  /// A call of a tool, as hooks see it.
  static func call(_ call: HookedCall, _ images: ImageTable) -> JSON {
    var object: JSONObject = [
      "id": .string(call.id), "name": .string(call.name),
      "arguments": images.elided(call.arguments),
    ]
    if let parent = call.parent {
      object["parent"] = ["task": parent.taskId.json, "callId": .string(parent.callId)]
    }
    return .object(object)
  }

  static func tool(_ call: HookedCall) -> JSON {
    var object: JSONObject = ["replay": .string(call.replay.rawValue)]
    if let name = call.extensionName { object["extension"] = .string(name) }
    return .object(object)
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
    JSON.object([
      "ctx": context(
        core,
        now: input.read.now(),
        conversation: input.conversationId,
        task: (input.read as? any HookContext)?.taskId,
        kind: "pi.generation"
      ),
      "agent": agent(input.agent),
      "shown": .object(
        JSONObject(
          input.shown.sorted { $0.key < $1.key }.map {
            (JSONString($0.key), JSON.string($0.value))
          }
        )
      ),
    ]).encoded
  }

  /// What the wrap of a tool is called with.
  static func wrappedCall(_ core: PluginCore, _ call: ToolCall, _ tool: Tool) -> [UInt8] {
    var message: JSONObject = [
      "ctx": context(
        core,
        now: call.host.clock().now,
        conversation: call.conversationId,
        task: call.taskId,
        kind: "pi.tool"
      ),
      "callId": .string(call.callId), "arguments": call.arguments,
      "replay": .string(call.replay.rawValue),
    ]
    if call.recovered { message["recovered"] = true }
    if let window = call.outputWindow {
      message["outputWindow"] = [
        "maxBytes": .int(window.maxBytes), "maxLines": .int(window.maxLines),
        "minIntervalMs": .int(window.minIntervalMs),
        "bytesPerSecond": .int(window.bytesPerSecond),
      ]
    }
    var described: JSONObject = ["name": .string(tool.name)]
    if let owner = tool.owner { described["extension"] = .string(owner) }
    message["tool"] = .object(described)
    return JSON.object(message).encoded
  }
}
