import PerdureModel
import PerdureValue

/// The tool `write`.
struct WriteTool: CodingTool {
  let options: CodingToolOptions

  var tool: Tool {
    Tool(
      name: "write",
      description: """
        Writes a file. Creates it and the folders above it, or replaces what it holds. Use edit to \
        change a part of a file.
        """,
      parameters: [
        "type": "object",
        "additionalProperties": false,
        "required": ["path", "content"],
        "properties": [
          "path": ["type": "string", "description": "The file, relative or absolute."],
          "content": ["type": "string", "description": "All that the file shall hold."],
        ],
      ]
    ) { call in try await run(CodingCall(call, options)) }
  }

  func run(_ call: CodingCall) async throws -> ToolResult {
    let env = call.env
    let path = try await ToolPaths(env, options).resolve(call.arguments["path"]?.text ?? "")
    let bytes = Array((call.arguments["content"]?.text ?? "").utf8)
    try await FileLanes.shared.run(env, path) { try await env.writeFile(path, bytes) }
    return .text("Wrote \(Wording.count(bytes.count, "byte")) to \(path)")
  }
}
