package import PerdureModel
package import PerdureValue

/// The tools with which a model works on the files and commands of its environment.
///
/// The extension of the library and the plugin `Plugins/coding-tools` are made of these same ones.
package enum CodingTools {
  private static func all(
    _ options: CodingToolOptions,
    sessions: Bool = false
  ) -> [any CodingTool] {
    let tools: [any CodingTool] = [
      ReadTool(options: options), WriteTool(options: options), EditTool(options: options),
      ListTool(options: options), GrepTool(options: options), GlobTool(options: options),
      BashTool(options: options, sessions: sessions),
    ]
    return sessions ? tools + [BashSessionTool(options: options)] : tools
  }

  /// The tools for an extension; `bash` is among them with `shell`, and `bash_session` with `sessions`
  /// besides.
  package static func tools(
    shell: Bool,
    sessions: Bool = false,
    _ options: CodingToolOptions = CodingToolOptions()
  ) -> [Tool] {
    all(options, sessions: shell && sessions).map { $0.tool }
      .filter { shell || $0.name != "bash" }
  }

  /// Runs one call of a tool, whose arguments have been prepared and checked.
  package static func run(
    _ name: String,
    _ call: CodingCall,
    _ options: CodingToolOptions
  ) async throws -> ToolResult {
    guard let tool = all(options).first(where: { $0.tool.name == name }) else {
      throw PerdureError(.notFound, "there is no coding tool \(name)")
    }
    return try await tool.run(call)
  }

  /// Repairs the arguments of a tool as its declaration does.
  package static func prepared(_ name: String, _ arguments: JSON) throws -> JSON {
    let tool = tools(shell: true).first { $0.name == name }
    return try tool?.prepareArguments?(arguments) ?? arguments
  }
}

/// One of the tools.
protocol CodingTool: Sendable {
  /// The tool of the extension.
  var tool: Tool { get }

  func run(_ call: CodingCall) async throws -> ToolResult
}

/// What a tool knows of its call.
package struct CodingCall: Sendable {
  /// How a command is run, with its output put into that of the call.
  package struct Commands: Sendable {
    /// Changes a command before it runs, or refuses it by throwing.
    package var prepare:
      @Sendable (CodingToolOptions.Execution) async throws -> CodingToolOptions.Execution
    /// Returns how a command ended once its output has been taken.
    package var run:
      @Sendable (EnvironmentCommand, ExecutionOptions) async throws -> ExecutionResult
    /// Returns what the model would see of the output, and whether some was dropped.
    package var retained: @Sendable () async throws -> (text: String, truncated: Bool)
    /// Adds a remark to a call that fails.
    package var remark: @Sendable (ToolDiagnostic) async throws -> Void
    /// Puts output of a session into that of the call.
    package var show: @Sendable (OutputChunk) throws -> Void

    /// Makes a way to run commands.
    package init(
      prepare:
        @escaping @Sendable (CodingToolOptions.Execution) async throws ->
        CodingToolOptions.Execution = { $0 },
      run:
        @escaping @Sendable (EnvironmentCommand, ExecutionOptions) async throws ->
        ExecutionResult,
      retained: @escaping @Sendable () async throws -> (text: String, truncated: Bool),
      remark: @escaping @Sendable (ToolDiagnostic) async throws -> Void,
      show: @escaping @Sendable (OutputChunk) throws -> Void = { _ in }
    ) {
      self.prepare = prepare
      self.run = run
      self.retained = retained
      self.remark = remark
      self.show = show
    }
  }

  package var arguments: JSON
  package var env: any Environment
  package var outputWindow: OutputWindowHint?
  package var commands: Commands

  /// Makes a call.
  package init(
    arguments: JSON,
    env: any Environment,
    outputWindow: OutputWindowHint?,
    commands: Commands
  ) {
    self.arguments = arguments
    self.env = env
    self.outputWindow = outputWindow
    self.commands = commands
  }

  /// What is said where there is no environment.
  package static let noEnvironment = PerdureError(
    .invalidConfiguration,
    "this conversation has no environment, so there are no files to work with",
    hint: "open the store with one"
  )

  init(_ call: ToolCall, _ options: CodingToolOptions) throws {
    guard let env = call.env else { throw Self.noEnvironment }
    self.init(
      arguments: call.arguments,
      env: env,
      outputWindow: call.outputWindow,
      commands: Commands(
        prepare: { try await options.prepareCommand?($0, call) ?? $0 },
        run: { command, options in
          try await env.execute(command, options) { chunk in
            try call.host.output(JSONString(chunk.text), skipped: chunk.skipped)
          }
        },
        retained: { try call.host.retainedOutput() },
        remark: { try call.host.diagnostic($0) },
        show: { try call.host.output(JSONString($0.text), skipped: $0.skipped) }
      )
    )
  }
}

/// The most that a call shows of a file or an output.
enum ShownLimits {
  static let maxBytes = 51_200
  static let maxLines = 2_000
}
