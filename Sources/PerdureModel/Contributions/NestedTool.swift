public import PerdureValue

/// How one tool calls another.
public struct NestedCallOptions: Sendable, Equatable {
  /// Names the call among those of its caller; absent: its number, from 1.
  public var key: String?
  /// Whether what the call reports is shown while it runs.
  public var showsProgress: Bool

  /// Makes options.
  public init(key: String? = nil, showsProgress: Bool = true) {
    self.key = key
    self.showsProgress = showsProgress
  }
}

/// What a call that a tool made of another one gives back.
public struct NestedToolResult: Sendable, Equatable {
  /// The task of the call.
  public var taskId: TaskID
  /// What the called tool means for programs.
  ///
  /// A tool without a schema for it gives its output: one text as a string, one image as its item,
  /// nothing as `""`, more as the list.
  public var structuredOutput: JSON?
  public var isError: Bool
  public var details: JSON?
  public var diagnostics: [ToolDiagnostic]
  public var usage: Usage?
  public var durationMs: Int64?

  /// Makes a result.
  public init(
    taskId: TaskID,
    structuredOutput: JSON? = nil,
    isError: Bool = false,
    details: JSON? = nil,
    diagnostics: [ToolDiagnostic] = [],
    usage: Usage? = nil,
    durationMs: Int64? = nil
  ) {
    self.taskId = taskId
    self.structuredOutput = structuredOutput
    self.isError = isError
    self.details = details
    self.diagnostics = diagnostics
    self.usage = usage
    self.durationMs = durationMs
  }

  /// Reads the persisted form.
  public init?(json: JSON) {
    guard let taskId = TaskID(json["taskId"]) else { return nil }
    self.taskId = taskId
    structuredOutput = json["structuredOutput"]
    isError = json["isError"] == true
    details = json["details"]
    diagnostics = (json["diagnostics"]?.array ?? []).compactMap { ToolDiagnostic(json: $0) }
    usage = json["usage"].map { Usage(json: $0) }
    durationMs = json["durationMs"]?.int
  }

  /// The persisted form.
  public var json: JSON {
    var object: JSONObject = ["taskId": taskId.json]
    if let structuredOutput { object["structuredOutput"] = structuredOutput }
    object["isError"] = .bool(isError)
    if let details { object["details"] = details }
    object["diagnostics"] = .array(diagnostics.map { $0.json })
    if let usage { object["usage"] = usage.json }
    if let durationMs { object["durationMs"] = .int(durationMs) }
    return .object(object)
  }

  /// What went wrong, one line per error.
  public var errorText: String {
    diagnostics.filter { $0.severity == .error }.map { $0.message }.joined(separator: "\n")
  }
}

extension ToolCallHost {
  /// Refuses: only calls that the engine itself makes can call other tools.
  public func executeTool(
    _ name: String,
    _ arguments: JSON,
    _ options: NestedCallOptions
  ) async throws -> NestedToolResult {
    throw PerdureError(
      .unsupportedFeature,
      "the tool '\(name)' cannot be called from here",
      hint: "call tools only from a tool that the engine runs"
    )
  }
}

extension ToolCall {
  /// Calls another tool and returns its result, an error as a result too.
  ///
  /// The call is durable: a tool that runs again after a crash, and makes it again under the same
  /// `key`, gets the call that there is, and throws if it then names another tool or other
  /// arguments. Without a key it is the number of the call, so give keys to calls that are made
  /// beside each other. Cancelling the calling task ends the wait, not the call; the end of the
  /// calling tool does end it.
  ///
  /// Throws `invalidInput` for a key that is empty, a positive integer or `__proto__`, or that
  /// holds a `/`.
  public func executeTool(
    _ name: String,
    _ arguments: JSON = [:],
    key: String? = nil,
    showsProgress: Bool = true
  ) async throws -> NestedToolResult {
    try await host.executeTool(
      name,
      arguments,
      NestedCallOptions(key: key, showsProgress: showsProgress)
    )
  }

  /// Milliseconds since 1970, by the clock of the host: a time with which a later run may compare.
  public var now: Int64 { host.clock().now }

  /// Adds text to the output; returns at once.
  public func output(_ text: String) throws { try host.output(JSONString(text), skipped: nil) }

  /// Returns the text that the model would see now, and whether some was dropped.
  public func retainedOutput() throws -> (text: String, truncated: Bool) {
    try host.retainedOutput()
  }
}

/// What the engine keeps for a running call beyond what any host serves.
package protocol ToolCallInvocation: OffersOperations {}
