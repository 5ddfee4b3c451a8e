import PerdureModel
import PerdureValue

/// The tool `edit`.
struct EditTool: CodingTool {
  let options: CodingToolOptions

  private static let mostBytes = 64 << 20

  var tool: Tool {
    Tool(
      name: "edit",
      description: """
        Replaces parts of a text file. Each oldText must be in the file exactly once, and all of them \
        refer to the file as it is before the call; they must not overlap.
        """,
      parameters: [
        "type": "object",
        "additionalProperties": false,
        "required": ["path", "edits"],
        "properties": [
          "path": ["type": "string", "description": "The file, relative or absolute."],
          "edits": [
            "type": "array",
            "description": "What is replaced.",
            "items": [
              "type": "object",
              "required": ["oldText", "newText"],
              "properties": [
                "oldText": ["type": "string", "description": "A text that is there only once."],
                "newText": ["type": "string", "description": "What takes its place."],
              ],
            ],
          ],
        ],
      ],
      preparingArguments: { try Self.prepared($0) },
      execute: { call in try await run(CodingCall(call, options)) }
    )
  }

  /// Takes the forms that models send: the list as text, one edit, or its texts beside the path.
  static func prepared(_ arguments: JSON) throws -> JSON {
    guard var object = arguments.object else { return arguments }
    if let text = object["edits"]?.text, let parsed = try? JSON(parsing: text) {
      object["edits"] = parsed
    }
    if object["edits"]?.object != nil, let edit = object["edits"] { object["edits"] = [edit] }
    if let old = object["oldText"], let new = object["newText"] {
      let listed = object["edits"]?.array ?? []
      object["edits"] = .array(listed + [["oldText": old, "newText": new]])
      object["oldText"] = nil
      object["newText"] = nil
    }
    return .object(object)
  }

  func run(_ call: CodingCall) async throws -> ToolResult {
    let env = call.env
    let edits = (call.arguments["edits"]?.array ?? []).map { edit in
      TextEdit(oldText: edit["oldText"]?.text ?? "", newText: edit["newText"]?.text ?? "")
    }
    let path = try await existing(env, call.arguments["path"]?.text ?? "")
    return try await FileLanes.shared.run(env, path) {
      let (bytes, version) = try await read(env, path)
      let source = try EditableText(bytes, path, hasShell: env.runsCommands)
      let plan = try EditPlan(edits, in: source, path)
      let changed = source.file(replacing: plan.changes)
      try await env.writeFile(path, changed, expecting: version)
      let diff = EditDiff(source.text, plan.changes, path: path)
      var result = ToolResult.text("Replaced \(Wording.count(edits.count, "text")) in \(path)")
      var details: JSONObject = ["diff": .string(diff.display), "patch": .string(diff.patch)]
      if let line = diff.firstChangedLine { details["firstChangedLine"] = .int(Int64(line)) }
      result.details = .object(details)
      return result
    }
  }

  /// The path of the file that is meant, which may only look like the one that was given.
  private func existing(_ env: any Environment, _ argument: String) async throws -> String {
    let (path, reader) = try await ToolPaths(env, options).openFile(argument)
    await reader.close()
    return path
  }

  /// Returns what the file holds, and which state of it that is.
  private func read(
    _ env: any Environment,
    _ path: String
  ) async throws -> (bytes: [UInt8], version: FileVersion?) {
    let reader = try await env.openFile(path)
    do {
      let version = try await reader.info().version
      var bytes: [UInt8] = []
      while true {
        let piece = try await reader.read(offset: Int64(bytes.count), length: 1 << 20)
        if piece.isEmpty { break }
        bytes += piece
        guard bytes.count <= Self.mostBytes else {
          throw FileError(
            .invalid,
            "\(path.quotedForMessage) has more than \(Self.mostBytes) bytes",
            path: path,
            reason: .tooLarge,
            hint: Wording.withShell(env, "change it with a program of the shell")
          )
        }
      }
      await reader.close()
      return (bytes, version)
    } catch {
      await reader.close()
      throw error
    }
  }
}
