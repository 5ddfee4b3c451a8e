import PerdureValue

/// One call that a plugin must be able to answer.
struct CheckTarget {
  var name: String
  /// The members of its input besides `ctx`.
  var members: JSONObject
  /// Whether it is the call of a tool or of the wrap of one.
  var hasOutput = false
  var isBlocking: Bool
  var graceMs: Int
  var maxConcurrency: Int

  /// The whole input, with members that no version knows.
  func input(conversation: Bool = true) -> JSON {
    var context: JSONObject = ["now": 1_700_000_000_000, "settings": 1, "x-check-later": true]
    if conversation {
      context["conversation"] = 1
      context["task"] = 2
    }
    var object: JSONObject = ["ctx": .object(context)]
    for (key, value) in members { object[key] = value }
    object["x-check-later"] = ["more": [1, 2, 3]]
    return .object(object)
  }
}

/// The calls that a manifest promises to answer.
struct CheckTargets {
  let manifest: Manifest
  let seed: UInt64

  private static let agent: JSON = [
    "thinkingLevel": "off", "extensions": [], "tools": [], "deferred": [], "callable": [],
    "instructions": "Be brief.",
  ]

  /// One call of each target, tools with arguments that fit.
  var all: [CheckTarget] {
    manifest.tools.compactMap { tool($0, arguments: nil) } + sections + hooks + wraps + tasks + pure
  }

  /// The names of all targets that the plugin may answer.
  var declared: Set<String> {
    var names = Set((all + migrations).map { $0.name })
    names.formUnion(["settings.changed", "selftest"])
    names.formUnion(manifest.tools.map { "tool:\($0.name)" })
    names.formUnion(manifest.tools.filter { $0.prepare }.map { "tool.prepare:\($0.name)" })
    if manifest.state != nil { names.formUnion(["snapshot", "restore"]) }
    if !manifest.health.isEmpty { names.insert("health") }
    return names
  }

  /// The call of a target that the manifest does not name, with what any call may have.
  func unnamed(_ name: String) -> CheckTarget {
    var members = call([:], "unsafe")
    members["agent"] = Self.agent
    members["shown"] = [:]
    members["call"] = ["id": "check-1", "name": "read", "arguments": [:]]
    members["task"] = ["id": 2, "input": [:], "state": ["status": "running", "checkpoint": [:]]]
    return target(name, nil, output: name.contains("tool:"), members)
  }

  /// The call of a tool; without arguments, such that fit are made; `nil` if none were found.
  func tool(_ tool: ManifestTool, arguments: JSON?) -> CheckTarget? {
    guard let arguments = arguments ?? samples(of: tool) else { return nil }
    return target(
      "tool:\(tool.name)",
      tool.options,
      output: true,
      call(arguments, tool.replay.rawValue)
    )
  }

  private func samples(of tool: ManifestTool) -> JSON? {
    guard var samples = try? SchemaSamples(tool.parameters, seed: seed) else { return nil }
    return samples.valid()
  }

  private func call(_ arguments: JSON, _ replay: String) -> JSONObject {
    [
      "callId": "check-1", "arguments": arguments, "replay": .string(replay),
      "outputWindow": [
        "maxBytes": 51_200, "maxLines": 2_000, "minIntervalMs": 200, "bytesPerSecond": 65_536,
      ],
    ]
  }

  private func target(
    _ name: String,
    _ options: CallOptions?,
    output: Bool = false,
    _ members: JSONObject
  ) -> CheckTarget {
    let execution = manifest.execution
    return CheckTarget(
      name: name,
      members: members,
      hasOutput: output,
      isBlocking: options?.blocking ?? execution.blocking,
      graceMs: options?.graceMs ?? execution.graceMs,
      maxConcurrency: min(options?.maxConcurrency ?? 1_024, execution.maxConcurrency)
    )
  }

  private var sections: [CheckTarget] {
    manifest.sections.filter { $0.text == nil }.map {
      target("section:\($0.key)", $0.options, ["agent": Self.agent, "shown": [:]])
    }
  }

  private var wraps: [CheckTarget] {
    manifest.wraps.map { wrap in
      if let section = wrap.section {
        return target(
          "wrap:section:\(section)",
          wrap.options,
          ["agent": Self.agent, "shown": [:]]
        )
      }
      let tool = wrap.tool ?? ""
      var members = call([:], "unsafe")
      members["tool"] = ["name": .string(tool), "extension": "example.other"]
      return target("wrap:tool:\(tool)", wrap.options, output: true, members)
    }
  }

  private var tasks: [CheckTarget] {
    manifest.tasks.flatMap { task -> [CheckTarget] in
      var made = task.phases.map { phase in
        target(
          "task:\(task.type)@\(task.version)/\(phase)",
          task.options,
          ["task": record(task, phase), "phase": .string(phase)]
        )
      }
      made.append(
        target(
          "task.abort:\(task.type)@\(task.version)",
          task.options,
          ["task": record(task, task.phases.first ?? "")]
        )
      )
      return made
    }
  }

  private func record(_ task: ManifestTask, _ phase: String) -> JSON {
    [
      "id": 2, "conversationId": 1, "type": .string(task.type),
      "version": .int(task.version), "input": input(of: task),
      "state": ["status": "running", "checkpoint": ["phase": .string(phase)]],
    ]
  }

  private func input(of task: ManifestTask) -> JSON {
    guard let schema = task.inputSchema, var samples = try? SchemaSamples(schema, seed: seed)
    else { return [:] }
    return samples.valid() ?? [:]
  }

  /// Calls that compute and ask nothing of the host.
  private var pure: [CheckTarget] {
    var made: [CheckTarget] = []
    for tool in manifest.tools where tool.prepare {
      guard let arguments = samples(of: tool) else { continue }
      made.append(target("tool.prepare:\(tool.name)", tool.options, ["arguments": arguments]))
    }
    for task in manifest.tasks where task.initial.text == "call" {
      made.append(
        target(
          "task.initial:\(task.type)",
          nil,
          ["version": .int(task.version), "input": input(of: task)]
        )
      )
    }
    return made + migrations
  }

  /// The migrations of what older versions left.
  var migrations: [CheckTarget] {
    let tasks = manifest.tasks.flatMap { task in
      task.migrates.map { version in
        target(
          "task.migrate:\(task.type)",
          nil,
          [
            "fromVersion": .int(version), "toVersion": .int(task.version), "input": input(of: task),
            "checkpoint": ["phase": .string(task.phases.first ?? "")],
          ]
        )
      }
    }
    let documents = manifest.documents.flatMap { document in
      document.migrates.map { version in
        target(
          "document.migrate:\(document.kind)",
          nil,
          [
            "fromVersion": .int(version), "toVersion": .int(document.version),
            "value": .object(document.initial),
          ]
        )
      }
    }
    return tasks + documents
  }

  private var hooks: [CheckTarget] {
    manifest.hooks.map { hook in
      target("hook:\(hook.point)", hook.options, Self.hookInput(hook.point, tool: hook.tools.first))
    }
  }

  private static func hookInput(_ point: String, tool: String?) -> JSONObject {
    let name = JSON.string(tool.map { String($0.filter { $0 != "*" }) } ?? "read")
    let call: JSON = ["id": "check-1", "name": name, "arguments": ["path": "notes.txt"]]
    let result: JSON = ["output": [["type": "text", "text": "done"]], "isError": false]
    let answer: JSON = ["role": "assistant", "content": [["type": "text", "text": "Hello."]]]
    switch point {
    case "beforeRequest":
      return [
        "attempt": 1, "model": ["provider": "check", "modelId": "none"], "thinkingLevel": "off",
        "tools": [], "messages": [["role": "user", "content": "Hello?"]],
      ]
    case "afterResponse": return ["attempt": 1, "message": answer]
    case "onYield": return ["message": answer]
    case "afterTools": return ["assistant": 3, "results": [4, 5]]
    case "beforeTool":
      return [
        "call": call, "tool": ["extension": "example.other", "replay": "unsafe"], "approvals": [],
      ]
    case "afterTool": return ["call": call, "durationMs": 5, "result": result]
    case "onAbort": return ["call": call, "result": result]
    case "beforeCompact":
      return ["reason": "threshold", "firstKept": 3, "entries": [], "messages": []]
    case "conversationCreated": return ["record": ["id": 1], "agent": agent]
    default: return ["arguments": [:]]
    }
  }
}
