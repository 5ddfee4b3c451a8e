import PerdureModel
import PerdureValue

/// The tool `grep`.
struct GrepTool: CodingTool {
  let options: CodingToolOptions

  var tool: Tool {
    Tool(
      name: "grep",
      description: """
        Finds lines of text files by a regular expression. Leaves out what git ignores and binary \
        files. Lines are shown as path:number:text, those around them as path-number-text.
        """,
      parameters: [
        "type": "object",
        "additionalProperties": false,
        "required": ["pattern"],
        "properties": [
          "pattern": ["type": "string", "description": "A regular expression of JavaScript."],
          "path": [
            "type": "string", "description": "A file or folder; absent: the working folder.",
          ],
          "glob": ["type": "string", "description": "Only files that fit, such as *.ts."],
          "ignoreCase": ["type": "boolean"],
          "literal": ["type": "boolean", "description": "Whether the pattern is plain text."],
          "context": [
            "type": "integer", "minimum": 0, "description": "How many lines to show around each.",
          ],
          "limit": [
            "type": "integer", "minimum": 1,
            "description": "How many lines to find; 100 if absent.",
          ],
        ],
      ],
      replay: .safe
    ) { call in try await run(CodingCall(call, options)) }
  }

  func run(_ call: CodingCall) async throws -> ToolResult {
    let env = call.env
    let arguments = call.arguments
    let path = try await ToolPaths(env, options).resolve(arguments["path"]?.text ?? ".")
    let limit = arguments["limit"]?.int
    var search = try GrepSearch(
      pattern: arguments["pattern"]?.text ?? "",
      isLiteral: arguments["literal"] == true,
      ignoresCase: arguments["ignoreCase"] == true,
      context: Int(clamping: min(max(arguments["context"]?.int ?? 0, 0), 50)),
      limit: Int(clamping: max(limit ?? 100, 1)),
      isDefaultLimit: limit == nil
    )
    var remark: ToolDiagnostic?
    if try await isFile(env, path) {
      let name = Wording.listed(arguments["path"]?.text ?? path)
      try await search.look(into: path, shownAs: name, env)
    } else {
      let filter = try arguments["glob"]?.text.map { try PathFilter($0) }
      let walk = try await FileWalk(env, path)
      remark = walk.remark
      var files = walk.listing.entries.filter { $0.kind == .file }.map(\.path)
        .filter { filter?.fits($0) ?? true }[...]
      var ripgrep = Ripgrep(env, path)
      while !files.isEmpty, !search.isOver {
        for file in try await ripgrep.candidates(among: &files, for: search.outline) {
          if search.isOver { break }
          let full = path == "/" ? "/\(file)" : "\(path)/\(file)"
          try await search.look(into: full, shownAs: Wording.listed(file), env)
        }
      }
    }
    var result = ToolResult.text(search.lines.isEmpty ? "Nothing fits." : search.text)
    result.diagnostics = search.remarks + (remark.map { [$0] } ?? [])
    return result
  }

  /// Whether a path leads to a file, also over links.
  private func isFile(_ env: any Environment, _ path: String) async throws -> Bool {
    do {
      let reader = try await env.openFile(path)
      await reader.close()
      return true
    } catch {
      guard error.code == .isDirectory else { throw error }
      return false
    }
  }
}
