public import PerdureValue

/// A named bundle of contributions.
///
/// A Swift value and a plugin provide the same thing. What a conversation selects counts in it, in the order of the selection; task types count for every
/// conversation.
public struct Extension: Sendable {
  /// The name under which conversations select it.
  public var name: String
  /// What is shown of it.
  public var version: String
  public var tools: [Tool]
  public var sections: [PromptSection]
  public var hooks: [Hook]
  public var wraps: [Wrap]
  public var tasks: [any TaskContribution]
  /// The kinds of documents that a plugin keeps.
  package var documents: [DocumentDeclaration] = []
  /// The tools that may take the place of those of extensions before it; absent: all of them.
  package var replacing: Set<String>?
  /// Lives as long as anybody may still call its code.
  package var lease: ExtensionLease?

  /// Makes an extension.
  public init(
    name: String,
    version: String = "0",
    tools: [Tool] = [],
    sections: [PromptSection] = [],
    hooks: [Hook] = [],
    wraps: [Wrap] = [],
    tasks: [any TaskContribution] = []
  ) {
    self.name = name
    self.version = version
    self.tools = tools
    self.sections = sections
    self.hooks = hooks
    self.wraps = wraps
    self.tasks = tasks
  }
}

/// A kind of durable task as an extension carries it; `TaskType` makes one.
public protocol TaskContribution: Sendable {
  /// The kind of its tasks, as it is stored with them.
  var name: String { get }
}

/// Whether a call that was cut off may be run again.
public enum ReplayPolicy: String, Sendable {
  /// At most once: after a crash the model gets an `interrupted` result.
  case unsafe
  /// At least once: after a crash it runs again with the same arguments.
  case safe
}

/// Whether calls of one answer run beside each other.
public enum ExecutionMode: String, Sendable { case parallel, sequential }

/// How much of a tool's output the model sees.
public struct OutputLimits: Sendable, Equatable {
  /// Which end of the output is kept.
  public enum Retain: String, Sendable { case head, tail }

  public var maxBytes: Int
  public var maxLines: Int
  public var retain: Retain

  /// Makes limits; the defaults are 51,200 bytes and the first 2,000 lines.
  public init(maxBytes: Int = 51_200, maxLines: Int = 2_000, retain: Retain = .head) {
    self.maxBytes = maxBytes
    self.maxLines = maxLines
    self.retain = retain
  }
}

/// Who may call a tool.
public enum ToolCaller: String, Sendable, CaseIterable {
  case model
  /// Other tools, while they run.
  case tools
}

/// A function that a model can call.
public struct Tool: Sendable {
  /// Runs a call; what it throws becomes an error result for the model.
  public typealias Execute = @Sendable (ToolCall) async throws -> ToolResult
  /// Repairs arguments before they are checked; must be quick and always do the same.
  public typealias Prepare = @Sendable (JSON) throws -> JSON

  /// 1 to 64 of letters, digits, `_` and `-`, starting with a letter.
  public var name: String
  public var description: String
  /// A JSON Schema of an object.
  public var parameters: JSON
  public var replay: ReplayPolicy
  /// Absent: as the settings say.
  public var executionMode: ExecutionMode?
  public var outputLimits: OutputLimits
  /// How long a call may take before it is cancelled.
  public var deadline: Duration
  /// How long a cancelled call may take to answer before it is abandoned.
  public var grace: Duration
  /// Runs before the arguments are checked; if it throws, they are invalid.
  public var prepareArguments: Prepare?
  /// The same for code that lives outside and takes its time.
  package var prepareLater: (@Sendable (JSON) async throws -> JSON)?
  /// A JSON Schema of what results carry for programs beside their output; absent: nothing.
  public var structuredOutputSchema: JSON?
  public var callers: Set<ToolCaller>
  /// Whether the model is offered the tool only once its name has been added.
  public var isDeferred: Bool
  /// What the provider is told about how arguments are sampled, as part of the declaration.
  public var constrainedSampling: JSON?
  /// Which calls wait for somebody to say yes.
  public var approval: ToolApproval
  /// How many calls may be under way at a time, also such that were given up and may still run;
  /// absent: as many as there are.
  public var maxConcurrency: Int?
  public var execute: Execute
  /// The extension that brings it, or the last one that put something around it; for those who put
  /// something around it.
  package var owner: String?
  /// Shared by all copies of this tool.
  package let identity = ToolIdentity()

  /// Makes a tool; by default it is not run again after a crash and has ten minutes.
  public init(
    name: String,
    description: String,
    parameters: JSON,
    replay: ReplayPolicy = .unsafe,
    executionMode: ExecutionMode? = nil,
    outputLimits: OutputLimits = OutputLimits(),
    deadline: Duration = .seconds(600),
    grace: Duration = .seconds(5),
    preparingArguments: Prepare? = nil,
    structuredOutputSchema: JSON? = nil,
    callers: Set<ToolCaller> = [.model, .tools],
    isDeferred: Bool = false,
    constrainedSampling: JSON? = nil,
    approval: ToolApproval = .never,
    maxConcurrency: Int? = nil,
    execute: @escaping Execute
  ) {
    self.name = name
    self.description = description
    self.parameters = parameters
    self.replay = replay
    self.executionMode = executionMode
    self.outputLimits = outputLimits
    self.deadline = deadline
    self.grace = grace
    prepareArguments = preparingArguments
    self.structuredOutputSchema = structuredOutputSchema
    self.callers = callers
    self.isDeferred = isDeferred
    self.constrainedSampling = constrainedSampling
    self.approval = approval
    self.maxConcurrency = maxConcurrency
    self.execute = execute
  }

  /// What the model is told: `name`, `description`, `parameters` and `constrainedSampling`.
  public var declaration: JSON {
    var declaration: JSONObject = [
      "name": .string(name), "description": .string(description), "parameters": parameters,
    ]
    declaration["constrainedSampling"] = constrainedSampling
    return .object(declaration)
  }
}

/// One remark for the model about a call.
public struct ToolDiagnostic: Sendable, Equatable {
  /// How serious it is.
  public enum Severity: String, Sendable { case info, warn, error }

  public var severity: Severity
  public var message: String
  public var code: String?

  /// Makes a diagnostic.
  public init(_ severity: Severity, _ message: String, code: String? = nil) {
    self.severity = severity
    self.message = message
    self.code = code
  }

  /// Reads the persisted form; an unknown severity reads as `info`.
  public init?(json: JSON) {
    guard let message = json["message"]?.text else { return nil }
    severity = json["severity"]?.text.flatMap(Severity.init(rawValue:)) ?? .info
    self.message = message
    code = json["code"]?.text
  }

  /// The persisted form.
  public var json: JSON {
    var object: JSONObject = [
      "severity": .string(severity.rawValue), "message": .string(message),
    ]
    if let code { object["code"] = .string(code) }
    return .object(object)
  }
}

/// What a call of a tool gives back.
public struct ToolResult: Sendable, Equatable {
  /// Content items (`text`, `image`) in their persisted form; absent: the output that was retained.
  public var output: [JSON]?
  public var structuredOutput: JSON?
  public var isError: Bool
  /// Details for applications; absent: those reported last.
  public var details: JSON?
  public var diagnostics: [ToolDiagnostic]
  public var usage: Usage?
  /// `addTools`, `terminate`, `handoff`.
  public var control: JSONObject?

  /// Makes a result.
  public init(
    output: [JSON]? = nil,
    structuredOutput: JSON? = nil,
    isError: Bool = false,
    details: JSON? = nil,
    diagnostics: [ToolDiagnostic] = [],
    usage: Usage? = nil,
    control: JSONObject? = nil
  ) {
    self.output = output
    self.structuredOutput = structuredOutput
    self.isError = isError
    self.details = details
    self.diagnostics = diagnostics
    self.usage = usage
    self.control = control
  }

  /// Returns the result with a request to offer the model these tools from now on.
  public func addingTools(_ names: [String]) -> ToolResult {
    asking("addTools", .array(names.map { .string($0) }))
  }

  /// Returns the result with the wish to end the run, which counts if all calls of the round have
  /// it.
  public func terminating() -> ToolResult { asking("terminate", true) }

  /// Returns the result with a request to begin the context anew with this text, which ends the run.
  public func handingOff(_ text: String) -> ToolResult { asking("handoff", .string(text)) }

  private func asking(_ key: JSONString, _ value: JSON) -> ToolResult {
    var result = self
    result.control = result.control ?? [:]
    result.control?[key] = value
    return result
  }

  /// Makes a result of one text.
  public static func text(_ text: String) -> ToolResult {
    ToolResult(output: [["type": "text", "text": .string(text)]])
  }
}
