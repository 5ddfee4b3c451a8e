public import PerdureValue

/// What one element of the manifest does.
public struct Contribution: Sendable {
  /// Answers a call; no payload means that the output of a tool is its result.
  typealias Handler = @Sendable (PluginCall) async throws -> Payload?

  var handlers: [(target: String, handler: Handler)]
  /// Whether the manifest need not name it.
  var isRaw = false

  init(_ target: String, isRaw: Bool = false, _ handler: @escaping Handler) {
    handlers = [(target, handler)]
    self.isRaw = isRaw
  }

  init(_ handlers: [(target: String, handler: Handler)]) { self.handlers = handlers }
}

extension Contribution {
  /// A tool; what it throws becomes an error result.
  public static func tool(
    _ name: String,
    _ execute: @escaping @concurrent @Sendable (ToolCall) async throws -> ToolResult
  ) -> Contribution {
    Contribution("tool:\(name)") { call in try await execute(ToolCall(call)).payload }
  }

  /// What makes arguments out of those that a model wrote, for a tool with `"prepare": true`.
  ///
  /// It may ask the host for nothing.
  public static func prepare(
    _ tool: String,
    _ body: @escaping @Sendable (_ arguments: JSON) throws -> JSON
  ) -> Contribution {
    Contribution("tool.prepare:\(tool)") { call in
      Payload(["arguments": try body(call.input["arguments"] ?? [:])])
    }
  }

  /// A section of the prompt; without a text it is left out.
  public static func section(
    _ key: String,
    _ body: @escaping @concurrent @Sendable (SectionCall) async throws -> String?
  ) -> Contribution {
    Contribution("section:\(key)") { call in
      try await body(SectionCall(call)).map { .text($0) } ?? Payload([:])
    }
  }

  /// Code that is called at a point of a task, as a guard or an observer.
  ///
  /// A guard that throws denies; an observer that throws is reported.
  public static func hook(
    _ point: HookPoint,
    _ body: @escaping @concurrent @Sendable (HookCall) async throws -> HookDecision
  ) -> Contribution {
    Contribution("hook:\(point.name)") { call in
      Payload(.object(try await body(HookCall(call)).json))
    }
  }

  /// Something around a tool, which answers as the tool would.
  public static func wrap(
    tool: String,
    _ body: @escaping @concurrent @Sendable (ToolWrapCall) async throws -> ToolResult
  ) -> Contribution {
    Contribution("wrap:tool:\(tool)") { call in try await body(ToolWrapCall(call)).payload }
  }

  /// Something around a section, which answers as the section would.
  public static func wrap(
    section: String,
    _ body: @escaping @concurrent @Sendable (SectionWrapCall) async throws -> String?
  ) -> Contribution {
    Contribution("wrap:section:\(section)") { call in
      try await body(SectionWrapCall(call)).map { .text($0) } ?? Payload([:])
    }
  }

  /// A kind of durable task.
  public static func task<Input, Checkpoint, Outcome>(
    _ type: TaskType<Input, Checkpoint, Outcome>
  ) -> Contribution {
    Contribution(type.handlers)
  }

  /// What leads the value of a document of an older version to this one.
  ///
  /// It may ask the host for nothing.
  public static func migrateDocument(
    _ kind: String,
    _ body: @escaping @Sendable (_ value: JSON, _ from: Int) throws -> JSON
  ) -> Contribution {
    Contribution("document.migrate:\(kind)") { call in
      let version = Int(call.input["fromVersion"]?.int ?? 0)
      return Payload(["value": try body(call.input["value"] ?? [:], version)])
    }
  }

  /// What is told the settings before they count; it throws to refuse them.
  public static func settings(
    _ body: @escaping @concurrent @Sendable (_ settings: JSON) async throws -> Void
  ) -> Contribution {
    Contribution("settings.changed", isRaw: true) { call in
      try await body(call.input["settings"] ?? [:])
      return Payload([:])
    }
  }

  /// What hands the state of this version to the next one.
  public static func snapshot(
    version: Int,
    _ body: @escaping @concurrent @Sendable () async throws -> JSON
  ) -> Contribution {
    Contribution("snapshot") { _ in
      Payload(["version": .int(version), "state": try await body()])
    }
  }

  /// What takes the state of another version; it throws to refuse the upgrade.
  public static func restore(
    _ body: @escaping @concurrent @Sendable (_ state: JSON, _ version: Int) async throws -> Void
  ) -> Contribution {
    Contribution("restore") { call in
      try await body(call.input["state"] ?? .null, Int(call.input["version"]?.int ?? 0))
      return Payload([:])
    }
  }

  /// What says whether the plugin works; each check is `{"name", "ok", "message"?}`.
  public static func selfTest(
    _ body: @escaping @concurrent @Sendable (PluginCall) async throws -> [JSON]
  ) -> Contribution {
    Contribution("selftest", isRaw: true) { call in
      Payload(["checks": .array(try await body(call))])
    }
  }

  /// What says how well one of the manifest's `health` is: `{"status": "ok"}`.
  public static func health(
    _ body: @escaping @concurrent @Sendable (_ check: String, PluginCall) async throws -> JSON
  ) -> Contribution {
    Contribution("health") { call in
      Payload(try await body(call.input["check"]?.text ?? "", call))
    }
  }

  /// Any target, also one that is registered while the plugin runs; the answer is its completion.
  public static func target(
    _ name: String,
    _ body: @escaping @concurrent @Sendable (PluginCall) async throws -> Payload
  ) -> Contribution {
    Contribution(name, isRaw: true) { call in try await body(call) }
  }
}
