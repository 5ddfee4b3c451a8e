import Glibc
import PerdureModel
import PerdureValue

/// The scenarios and tools that both implementations read from one file.
struct Scenarios {
  private let json: JSON

  init(at path: String) throws {
    guard let bytes = try readFile(path) else {
      throw PerdureError(.invalidInput, "cannot read \(path)")
    }
    json = try JSON(parsing: bytes)
  }

  /// The steps of a scenario.
  func steps(_ name: String) throws -> [JSON] {
    guard let steps = json["scenarios"]?[JSONString(name)]?.array else {
      throw PerdureError(.invalidInput, "there is no scenario '\(name)'")
    }
    return steps
  }

  /// The definitions of the documents.
  var documents: [JSON] { json["documents"]?.array ?? [] }

  /// The tools, whose effects are lines in the file `effects`.
  func tools(events: Events, effects: String) throws -> [Tool] {
    try (json["tools"]?.array ?? []).map { declaration in
      let name = declaration["name"]?.text ?? ""
      let limits = declaration["outputLimits"]
      return Tool(
        name: name,
        description: declaration["description"]?.text ?? "",
        parameters: declaration["parameters"] ?? [:],
        replay: declaration["replay"] == "safe" ? .safe : .unsafe,
        executionMode: declaration["executionMode"] == "sequential" ? .sequential : nil,
        outputLimits: limits.map { limits in
          OutputLimits(
            maxBytes: Int(limits["maxBytes"]?.int ?? 0),
            maxLines: Int(limits["maxLines"]?.int ?? 0),
            retain: limits["retain"] == "tail" ? .tail : .head
          )
        } ?? OutputLimits(),
        execute: try ToolBody(name: name, events: events, effects: effects).execute()
      )
    }
  }
}

/// What the tools do.
private struct ToolBody {
  let name: String
  let events: Events
  let effects: String

  func execute() throws -> Tool.Execute {
    switch name {
    case "note", "once", "step", "extra": return { try await append($0) }
    case "fails": return { _ in throw PerdureError(.invalidInput, "this tool fails") }
    case "terminates":
      return { _ in ToolResult.text("enough").asking(["terminate": true]) }
    case "controls":
      return { call in
        try call.host.output("enough", skipped: nil)
        if waits(call) { try call.host.details(["waits": true]) }
        try await wait(call)
        return ToolResult().asking(call.arguments["control"]?.object ?? [:])
      }
    case "nests":
      return { call in
        _ = try await call.executeTool("note", ["line": "nested", "wait": "yes"])
        return ToolResult()
      }
    case "asks", "hires": return { try await ScenarioCalls.ask($0) }
    case "chains", "binds": return { try await ScenarioCalls.chain($0, events) }
    case "grumbles": return { try grumble($0) }
    case "pours": return { try await pour($0) }
    case "dumps": return { ToolResult(output: [["type": "text", "text": .string(lines($0))]]) }
    default: throw PerdureError(.invalidInput, "nobody knows what the tool '\(name)' does")
    }
  }

  private func append(_ call: ToolCall) async throws -> ToolResult {
    let line = call.arguments["line"]?.text ?? ""
    try appendLine(line, to: effects)
    try call.host.output(JSONString("noted \(line)"), skipped: nil)
    if waits(call) { try call.host.details(["waits": true]) }
    try await wait(call)
    return ToolResult()
  }

  private func grumble(_ call: ToolCall) throws -> ToolResult {
    try call.host.output("not shown", skipped: nil)
    var usage = Usage()
    usage.input = 5
    usage.totalTokens = 5
    usage.reasoning = 2
    usage.cost.total = 0.5
    return ToolResult(
      output: [
        ["type": "text", "text": "no"],
        ["type": "image", "data": "AAAA", "mimeType": "image/png"],
      ],
      isError: true,
      details: ["deep": [1, .double(2.5), .null, ["x": "y"]]],
      diagnostics: [
        ToolDiagnostic(.info, "said", code: "said"), ToolDiagnostic(.warn, "line\nbreak"),
      ],
      usage: usage
    )
  }

  private func pour(_ call: ToolCall) async throws -> ToolResult {
    try call.host.details(["poured": call.arguments["lines"] ?? .null])
    try call.host.diagnostic(ToolDiagnostic(.warn, "pouring", code: "pour"))
    try call.host.output(JSONString(lines(call)), skipped: nil)
    try await wait(call)
    return ToolResult()
  }

  private func lines(_ call: ToolCall) -> String {
    (1...max(1, call.arguments["lines"]?.int ?? 1)).map { "line \($0) é 😀\n" }.joined()
  }

  private func waits(_ call: ToolCall) -> Bool {
    events.isWriting && call.arguments["wait"] != nil
  }

  /// Waits, once everything reported is on disk, until the call is released or cancelled.
  private func wait(_ call: ToolCall) async throws {
    guard waits(call) else { return }
    let releases = events.releases
    try await call.host.flushOutput()
    events.arrive()
    while events.releases == releases {
      do {
        try await call.host.sleep(milliseconds: 2)
      } catch  where call.arguments["wait"] == "deaf" {
        // Holds on until the process dies, which it does right after the abort.
        await Task.detached { try? await Task.sleep(for: .seconds(600)) }.value
      }
    }
  }
}

private func readFile(_ path: String) throws -> [UInt8]? {
  let file = unsafe open(path, O_RDONLY)
  guard file >= 0 else { return nil }
  defer { close(file) }
  var bytes: [UInt8] = []
  var buffer = [UInt8](repeating: 0, count: 65_536)
  while true {
    let count = unsafe read(file, &buffer, buffer.count)
    guard count > 0 else { return count == 0 ? bytes : nil }
    bytes += buffer.prefix(count)
  }
}

/// Appends a line, as an effect that cannot be taken back.
private func appendLine(_ line: String, to path: String) throws {
  let file = unsafe open(path, O_WRONLY | O_CREAT | O_APPEND, 0o644)
  guard file >= 0 else { throw PerdureError(.invalidInput, "cannot open \(path)") }
  defer { close(file) }
  let bytes = Array((line + "\n").utf8)
  guard unsafe write(file, bytes, bytes.count) == bytes.count else {
    throw PerdureError(.invalidInput, "cannot write \(path)")
  }
}

extension ToolResult {
  /// Returns the result with what it asks of its round.
  fileprivate func asking(_ control: JSONObject) -> ToolResult {
    var result = self
    result.control = control
    return result
  }
}
