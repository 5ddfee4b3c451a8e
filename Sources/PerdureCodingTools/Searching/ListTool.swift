import PerdureModel
import PerdureValue

/// The tool `ls`.
struct ListTool: CodingTool {
  let options: CodingToolOptions

  private static let usual = 500
  private static let most = 100_000

  var tool: Tool {
    Tool(
      name: "ls",
      description: """
        Lists a folder in the order of names. Folders end with /, links show what they lead to.
        """,
      parameters: [
        "type": "object",
        "additionalProperties": false,
        "properties": [
          "path": ["type": "string", "description": "The folder; absent: the working folder."],
          "limit": [
            "type": "integer", "minimum": 1,
            "description": "How many entries to show; 500 if absent.",
          ],
        ],
      ],
      replay: .safe
    ) { call in try await run(CodingCall(call, options)) }
  }

  func run(_ call: CodingCall) async throws -> ToolResult {
    let env = call.env
    let asked = call.arguments["limit"]?.int.map { Int(clamping: $0) }
    let limit = asked ?? Self.usual
    guard limit > 0 else { throw PerdureError(.invalidInput, "the limit \(limit) shows nothing") }
    let path = try await ToolPaths(env, options).resolve(call.arguments["path"]?.text ?? ".")
    let (entries, isWhole) = try await entries(env, path)
    let shown = entries.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
      .prefix(limit)
    var result = ToolResult.text(
      shown.isEmpty ? "The folder is empty." : shown.map(Self.line).joined(separator: "\n")
    )
    if entries.count > shown.count || !isWhole {
      let all = isWhole ? "\(entries.count)" : "more than \(entries.count)"
      result.diagnostics.append(
        ToolDiagnostic(
          .info,
          "Showing \(shown.count) of \(all) entries"
            + (asked == nil ? " (the default limit)" : "") + ". Use limit to see more.",
          code: "truncated"
        )
      )
    }
    return result
  }

  private func entries(
    _ env: any Environment,
    _ path: String
  ) async throws -> (entries: [FileInfo], isWhole: Bool) {
    let reader = try await env.openFolder(path)
    var entries: [FileInfo] = []
    do {
      while entries.count < Self.most {
        let page = try await reader.next(1_000)
        entries += page.entries
        if page.isLast {
          await reader.close()
          return (entries, true)
        }
      }
      await reader.close()
      return (entries, false)
    } catch {
      await reader.close()
      throw error
    }
  }

  private static func line(_ entry: FileInfo) -> String {
    switch entry.kind {
    case .file: Wording.listed(entry.name)
    case .directory: Wording.listed("\(entry.name)/")
    case .symlink: "\(Wording.listed(entry.name)) -> \(Wording.listed(entry.target ?? "?"))"
    }
  }
}
