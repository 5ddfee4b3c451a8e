public import PerdureValue

/// One remark for the model about a call.
public struct ToolDiagnostic: Sendable, Equatable {
  /// How serious it is.
  public enum Severity: String, Sendable { case info, warn, error }

  public var severity: Severity
  public var message: String
  public var code: String?

  /// Makes a diagnostic.
  public init(_ severity: Severity, _ message: String, code: String? = nil) {
    self.severity = severity
    self.message = message
    self.code = code
  }

  /// The form that crosses the border.
  public var json: JSON {
    var object: JSONObject = [
      "severity": .string(severity.rawValue), "message": .string(message),
    ]
    if let code { object["code"] = .string(code) }
    return .object(object)
  }
}

/// What a call of a tool gives back.
///
/// A result that a wrap got from what it wraps keeps members that this version does not know.
public struct ToolResult: Sendable, Equatable {
  private enum Form: Equatable {
    case members(JSONObject)
    case raw(Payload)
    case emitted
  }

  private var form: Form

  /// Makes a result; without content the output that was emitted is the result.
  public init(
    output: [JSON]? = nil,
    structuredOutput: JSON? = nil,
    isError: Bool = false,
    details: JSON? = nil,
    diagnostics: [ToolDiagnostic] = [],
    control: JSONObject? = nil
  ) {
    var members = JSONObject()
    members["output"] = output.map { .array($0) }
    members["structuredOutput"] = structuredOutput
    if isError { members["isError"] = true }
    members["details"] = details
    if !diagnostics.isEmpty { members["diagnostics"] = .array(diagnostics.map { $0.json }) }
    members["control"] = control.map { .object($0) }
    form = .members(members)
  }

  /// Makes a result of the members that cross the border.
  public init(members: JSONObject) { form = .members(members) }

  /// The output that the call emitted, and nothing else.
  public static let emitted = ToolResult(form: .emitted)

  private init(form: Form) { self.form = form }

  /// Makes a result of one text.
  public static func text(_ text: String) -> ToolResult {
    ToolResult(output: [["type": "text", "text": .string(text)]])
  }

  /// Makes a result of one image; `mediaType` is `image/png`, `jpeg`, `gif` or `webp`.
  public static func image(_ bytes: [UInt8], _ mediaType: String) -> ToolResult {
    ToolResult(form: .raw(Payload(mediaType: mediaType, bytes: bytes)))
  }

  /// The members that cross the border; none for an image or what was emitted.
  public var members: JSONObject {
    get {
      guard case .members(let members) = form else { return [:] }
      return members
    }
    set { form = .members(newValue) }
  }

  /// Content items; absent: the output that was emitted.
  public var output: [JSON]? {
    get { members["output"]?.array }
    set { members["output"] = newValue.map { .array($0) } }
  }
  public var structuredOutput: JSON? {
    get { members["structuredOutput"] }
    set { members["structuredOutput"] = newValue }
  }
  public var isError: Bool {
    get { members["isError"]?.bool ?? false }
    set { members["isError"] = newValue ? true : nil }
  }
  /// Details for applications; absent: those reported last.
  public var details: JSON? {
    get { members["details"] }
    set { members["details"] = newValue }
  }
  /// Remarks for the model, in the form that crosses the border.
  public var diagnostics: [JSON] {
    get { members["diagnostics"]?.array ?? [] }
    set { members["diagnostics"] = newValue.isEmpty ? nil : .array(newValue) }
  }

  /// Returns the result with one more remark for the model.
  public func adding(_ diagnostic: ToolDiagnostic) -> ToolResult {
    var result = self
    result.diagnostics.append(diagnostic.json)
    return result
  }

  /// Returns the result with a request to offer the model these tools from now on.
  public func addingTools(_ names: [String]) -> ToolResult {
    asking("addTools", .array(names.map { .string($0) }))
  }

  /// Returns the result with the wish to end the run, which counts if all calls of the round have
  /// it.
  public func terminating() -> ToolResult { asking("terminate", true) }

  /// Returns the result with a request to begin the context anew with this text, which ends the run.
  public func handingOff(_ text: String) -> ToolResult { asking("handoff", .string(text)) }

  private func asking(_ key: JSONString, _ value: JSON) -> ToolResult {
    var result = self
    var control = result.members["control"]?.object ?? [:]
    control[key] = value
    result.members["control"] = .object(control)
    return result
  }

  /// The completion of the call.
  var payload: Payload? {
    switch form {
    case .emitted: return nil
    case .raw(let payload): return payload
    case .members(let members):
      // One text and nothing else needs no JSON around it.
      if members.count == 1, let items = output, items.count == 1, items[0]["type"] == "text",
        items[0].object?.count == 2, let text = items[0]["text"]?.string?.unicode
      {
        return .text(text)
      }
      return Payload(.object(members))
    }
  }
}
