import PerdureModel
import PerdureValue

/// The tool `bash`.
struct BashTool: CodingTool {
  let options: CodingToolOptions

  var tool: Tool {
    Tool(
      name: "bash",
      description: """
        Runs a command with the shell in the working folder. Of its output the last 2000 lines or 50 \
        KB are shown; all of it is kept in a file if there is more. Standard input is empty.
        """,
      parameters: [
        "type": "object",
        "additionalProperties": false,
        "required": ["command"],
        "properties": [
          "command": ["type": "string", "description": "What the shell runs."],
          "timeout": [
            "type": "number", "exclusiveMinimum": 0,
            "description": "After how many seconds it is killed; absent: not by itself.",
          ],
        ],
      ],
      outputLimits: OutputLimits(retain: .tail),
      deadline: .seconds(3_600),
      structuredOutputSchema: [
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
