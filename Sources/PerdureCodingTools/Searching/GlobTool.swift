import PerdureModel
import PerdureValue

/// The tool `glob`.
struct GlobTool: CodingTool {
  let options: CodingToolOptions

  private static let usual = 1_000

  var tool: Tool {
    Tool(
      name: "glob",
      description: """
        Finds files and folders by a pattern such as *.swift, src/**/*.{c,h} or docs/*. Leaves out \
        what git ignores. A pattern without / fits names in all folders.
        """,
      parameters: [
        "type": "object",
        "additionalProperties": false,
        "required": ["pattern"],
        "properties": [
          "pattern": ["type": "string", "description": "With *, ?, [a-z], ** and {a,b}."],
          "path": ["type": "string", "description": "The folder; absent: the working folder."],
          "limit": [
            "type": "integer", "minimum": 1, "description": "How many to show; 1000 if absent.",
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
    let pattern = call.arguments["pattern"]?.text ?? ""
    guard limit > 0, !pattern.isEmpty else {
      throw PerdureError(.invalidInput, "a pattern and a limit of at least 1 are needed")
    }
    let path = try await ToolPaths(env, options).resolve(call.arguments["path"]?.text ?? ".")
    let filter = try PathFilter(pattern)
    let walk = try await FileWalk(env, path)
    var found: [FileListing.Entry] = []
    for entry in walk.listing.entries where filter.fits(entry.path) {
      if Task.isCancelled { throw FileError.aborted(path) }
      found.append(entry)
    }
    var result = ToolResult.text(
      found.isEmpty
        ? "Nothing fits."
        : found.prefix(limit)
          .map { Wording.listed($0.kind == .directory ? "\($0.path)/" : $0.path) }
          .joined(separator: "\n")
    )
    if found.count > limit {
      result.diagnostics.append(
        ToolDiagnostic(
          .info,
          "Showing \(limit) of \(found.count)" + (asked == nil ? " (the default limit)" : "")
            + ". Use limit or a narrower pattern.",
          code: "truncated"
        )
      )
    }
    if let remark = walk.remark { result.diagnostics.append(remark) }
    if PathFilter.hasOpenSet(pattern) {
      result.diagnostics.append(
        ToolDiagnostic(
          .info,
          "A [ without its ] stands for itself in the pattern.",
          code: "pattern"
        )
      )
    }
    return result
  }
}
