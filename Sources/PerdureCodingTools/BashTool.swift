import PerdureModel
import PerdureValue

/// The tool `bash`.
struct BashTool: CodingTool {
  let options: CodingToolOptions
  /// Whether it can leave commands in the background.
  var sessions = false

  private static let description = """
    Runs a command with the shell in the working folder. Of its output the last 2000 lines or 50 \
    KB are shown; all of it is kept in a file if there is more. Standard input is empty.
    """

  private static let sessionDescription = """
     A command that is to go on, such as a server, or that asks for input, is run in the background: it \
    becomes a session, which bash_session reads, writes and stops.
    """

  private static let properties: JSONObject = [
    "command": ["type": "string", "description": "What the shell runs."],
    "timeout": [
      "type": "number", "exclusiveMinimum": 0,
      "description": "After how many seconds it is killed; absent: when the environment says so.",
    ],
  ]

  private static let sessionProperties: JSONObject = [
    "background": [
      "type": "boolean",
      "description": "Returns soon with the id of a session, while the command goes on.",
    ],
    "pty": [
      "type": "boolean",
      "description": "In the background, with a terminal, for programs that want one.",
    ],
  ]

  var tool: Tool {
    var properties = Self.properties
    if sessions { for (name, value) in Self.sessionProperties { properties[name] = value } }
    return Tool(
      name: "bash",
      description: Self.description + (sessions ? Self.sessionDescription : ""),
      parameters: [
        "type": "object",
        "additionalProperties": false,
        "required": ["command"],
        "properties": .object(properties),
      ],
      outputLimits: OutputLimits(retain: .tail),
      deadline: .seconds(3_600),
      structuredOutputSchema: sessions
        ? SessionReading.schema
        : [
          "type": "object",
          "required": ["output", "truncated", "exitCode"],
          "properties": [
            "output": ["type": "string"], "truncated": ["type": "boolean"],
            "fullOutputPath": ["type": "string"], "exitCode": ["type": "integer"],
          ],
        ]
    ) { call in try await run(CodingCall(call, options)) }
  }

  func run(_ call: CodingCall) async throws -> ToolResult {
    guard call.env.runsCommands else {
      throw ExecutionError(
        .shellUnavailable,
        "this environment runs no commands, only its files can be worked with",
        hint: "use the other tools"
      )
    }
    var command = call.arguments["command"]?.text ?? ""
    if let prefix = options.commandPrefix { command = "\(prefix)\n\(command)" }
    var execution = CodingToolOptions.Execution(command: command)
    execution = try await call.commands.prepare(execution)
    if call.arguments["background"]?.bool == true || call.arguments["pty"]?.bool == true {
      return try await start(execution, call)
    }
    let choices = ExecutionOptions(
      cwd: execution.cwd,
      variables: execution.variables,
      inheritsVariables: execution.inheritsVariables,
      timeout: call.arguments["timeout"]?.double,
      spill: ExecutionOptions.Spill(
        afterBytes: ShownLimits.maxBytes,
        afterLines: ShownLimits.maxLines
      ),
      window: call.outputWindow
    )
    do {
      let result = try await call.commands.run(.shell(execution.command), choices)
      if let path = result.spillPath { KeptOutputs.shared.add(path, of: call.env.id) }
      return try await shown(result, call)
    } catch let error as ExecutionError {
      if let path = error.spillPath {
        KeptOutputs.shared.add(path, of: call.env.id)
        try? await call.commands.remark(Self.kept(path))
      }
      for remark in error.confinement?.remarks ?? [] { try? await call.commands.remark(remark) }
      throw error
    }
  }

  /// Leaves a command in the background, and shows how it begins.
  private func start(
    _ execution: CodingToolOptions.Execution,
    _ call: CodingCall
  ) async throws -> ToolResult {
    let session = try await call.env.startSession(
      .shell(execution.command),
      SessionOptions(
        cwd: execution.cwd,
        variables: execution.variables,
        inheritsVariables: execution.inheritsVariables,
        timeout: call.arguments["timeout"]?.double,
        terminal: call.arguments["pty"]?.bool == true ? TerminalSize() : nil
      )
    )
    do {
      return try await SessionReading(session, call).shown(within: 1)
    } catch {
      // Nobody has learnt its id.
      _ = await session.stop()
      throw error
    }
  }

  private static func kept(_ path: String, isTruncated: Bool = false) -> ToolDiagnostic {
    let what = isTruncated ? "The first part of the output" : "The whole output"
    return ToolDiagnostic(.info, "\(what) is in \(path)", code: "full_output")
  }

  private func shown(_ result: ExecutionResult, _ call: CodingCall) async throws -> ToolResult {
    let retained = try await call.commands.retained()
    var output: JSONObject = [
      "output": .string(retained.text), "truncated": .bool(retained.truncated),
      "exitCode": .int(Int64(result.exitCode)),
    ]
    var answer = ToolResult()
    if let path = result.spillPath {
      output["fullOutputPath"] = .string(path)
      answer.diagnostics.append(Self.kept(path, isTruncated: result.spillTruncated))
    }
    answer.structuredOutput = .object(output)
    if let confinement = result.confinement {
      answer.details = ["confinement": confinement.json]
      answer.diagnostics += confinement.remarks
    }
    if result.exitCode != 0 {
      answer.isError = true
      answer.diagnostics.append(
        ToolDiagnostic(
          .error,
          "The command exited with code \(result.exitCode)",
          code: "exit_code"
        )
      )
    }
    return answer
  }
}
