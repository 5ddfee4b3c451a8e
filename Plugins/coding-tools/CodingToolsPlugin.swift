// The coding tools of Perdure as a plugin: the tools themselves are those of the Swift library, and
// all that is here is how they reach the files and commands of the conversation.
import PerdureCodingTools
import PerdureModel
import PerdurePluginKit

@main struct CodingToolsPlugin: Plugin {
  private static let names = ["read", "write", "edit", "ls", "grep", "glob", "bash"]

  var contributions: [Contribution] {
    Self.names.map { name in Contribution.tool(name) { call in try await Self.run(name, call) } }
      + [.prepare("edit") { try CodingTools.prepared("edit", $0) }]
  }

  private static func run(
    _ name: String,
    _ call: PerdurePluginKit.ToolCall
  ) async throws -> PerdurePluginKit.ToolResult {
    do {
      guard let env = try await PluginEnvironment(call) else { throw CodingCall.noEnvironment }
      let coding = CodingCall(
        arguments: call.arguments,
        env: env,
        outputWindow: window(call.call.input["outputWindow"]),
        commands: CodingCall.Commands(
          run: { try await env.run($0, $1) },
          retained: {
            let retained = try await call.retainedOutput()
            return (retained.text, retained.isTruncated)
          },
          remark: { diagnostic in
            try await call.diagnostic(
              PerdurePluginKit.ToolDiagnostic(
                PerdurePluginKit.ToolDiagnostic.Severity(rawValue: diagnostic.severity.rawValue)
                  ?? .info,
                diagnostic.message,
                code: diagnostic.code
              )
            )
          }
        )
      )
      return PerdurePluginKit.ToolResult(
        members: members(of: try await CodingTools.run(name, coding, CodingToolOptions()))
      )
    } catch let error as PluginError {
      throw error
    } catch {
      // Whoever gives a call up drops its answer.
      if Task.isCancelled { throw CancellationError() }
      throw PluginError("\(error)")
    }
  }

  private static func window(_ json: JSON?) -> OutputWindowHint? {
    guard let json else { return nil }
    func number(_ name: JSONString) -> Int { Int(clamping: json[name]?.int ?? 0) }
    return OutputWindowHint(
      maxBytes: number("maxBytes"),
      maxLines: number("maxLines"),
      minIntervalMs: number("minIntervalMs"),
      bytesPerSecond: number("bytesPerSecond")
    )
  }

  private static func members(of result: PerdureModel.ToolResult) -> JSONObject {
    var members = JSONObject()
    members["output"] = result.output.map { .array($0) }
    members["structuredOutput"] = result.structuredOutput
    if result.isError { members["isError"] = true }
    members["details"] = result.details
    if !result.diagnostics.isEmpty {
      members["diagnostics"] = .array(result.diagnostics.map { $0.json })
    }
    return members
  }
}
