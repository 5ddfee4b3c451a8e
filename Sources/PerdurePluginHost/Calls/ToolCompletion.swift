internal import PerdureModel
import PerdureValue

/// Reads the completion of a `tool:` call.
enum ToolCompletion {
  /// Gives the result that the bytes stand for.
  static func decode(_ payload: Payload) throws(BorderProblem) -> ToolResult {
    switch payload.type {
    case .text: return .text(try payload.text())
    case .image(let name):
      let data = Base64.encode(payload.bytes)
      return ToolResult(output: [
        ["type": "image", "data": .string(data), "mimeType": .string(name)]
      ])
    case .json: return try decode(try payload.object())
    // Parts carry bytes of images and files; this version takes single images only.
    case .bytes, .parts: throw .mediaType(payload.type.name)
    }
  }

  /// Gives the result that the object stands for; members it does not know are ignored.
  static func decode(_ object: JSONObject) throws(BorderProblem) -> ToolResult {
    if object.isEmpty { return ToolResult() }
    var reader = FieldReader(object)
    var result = ToolResult()
    result.output = try reader.optionalArray("output", contentItem)
    result.structuredOutput = reader.any("structuredOutput")
    result.isError = try reader.bool("isError") ?? false
    result.details = reader.any("details")
    result.diagnostics = try reader.optionalArray("diagnostics", diagnostic) ?? []
    if let usage = try reader.object("usage") { result.usage = Usage(json: .object(usage.members)) }
    if let control = try reader.object("control") { result.control = control.members }
    try reader.finish()
    return result
  }

  /// Returns an item of content, or throws what is wrong with it.
  static func contentItem(_ value: JSON, _ at: String) throws(BorderProblem) -> JSON {
    guard let item = value.object else { throw .shape("a content item that is no object", at: at) }
    switch item["type"]?.text {
    case "text" where item["text"]?.string != nil: return value
    case "image" where item["data"]?.string != nil && item["mimeType"]?.string != nil: return value
    case "text": throw .shape("a text item without text", at: at)
    case "image": throw .shape("an image item without data and mimeType", at: at)
    default: throw .shape("a content item that is neither text nor image", at: at)
    }
  }

  /// Reads one diagnostic; an unknown severity is refused.
  static func diagnostic(_ value: JSON, _ at: String) throws(BorderProblem) -> ToolDiagnostic {
    guard let object = value.object else { throw .shape("a diagnostic that is no object", at: at) }
    var reader = FieldReader(object, at: at)
    let severity = try reader.required("severity", reader.string("severity"))
    guard let known = ToolDiagnostic.Severity(rawValue: severity) else {
      throw .shape("an unknown severity", at: at + "/severity")
    }
    return ToolDiagnostic(
      known,
      try reader.required("message", reader.string("message")),
      code: try reader.string("code")
    )
  }
}

/// Reads a JSON frame of output.
enum FrameDecoder {
  /// Gives the frame that the object stands for.
  static func decode(_ object: JSONObject) throws(BorderProblem) -> OutputFrame {
    let names = ["details", "diagnostic", "skipped"].filter { object[JSONString($0)] != nil }
    guard names.count == 1, let name = names.first, let value = object[JSONString(name)] else {
      throw .shape("a frame without exactly one of details, diagnostic and skipped", at: "")
    }
    switch name {
    case "details": return .details(value.isNull ? nil : value)
    case "diagnostic": return .diagnostic(try ToolCompletion.diagnostic(value, "/diagnostic"))
    default:
      guard let skipped = value.object else { throw .shape("no object", at: "/skipped") }
      var reader = FieldReader(skipped, at: "/skipped")
      return .skipped(
        SkippedOutput(
          bytes: try reader.required("bytes", reader.count("bytes")),
          newlines: try reader.required("newlines", reader.count("newlines")),
          endsWithNewline: try reader.required(
            "endsWithNewline",
            reader.bool("endsWithNewline")
          )
        )
      )
    }
  }
}
