import PerdureValue

/// The negative answers of the ABI.
enum BorderCode: Int32, Sendable {
  case cancelled = -1
  case timeout = -2
  case stale = -3
  case gone = -4
  case busy = -5
  case wouldBlock = -6
  case invalid = -7
  case encoding = -8
  case denied = -9
  case unsupported = -10
  case `internal` = -11
  case pluginFault = -12

  /// The word for it in messages.
  var word: String {
    switch self {
    case .cancelled: "cancelled"
    case .timeout: "timeout"
    case .stale: "stale"
    case .gone: "gone"
    case .busy: "busy"
    case .wouldBlock: "would_block"
    case .invalid: "invalid"
    case .encoding: "encoding"
    case .denied: "denied"
    case .unsupported: "unsupported"
    case .internal: "internal"
    case .pluginFault: "plugin_fault"
    }
  }
}

/// What is wrong with bytes that a plugin passed.
enum BorderProblem: Error {
  case tooLarge(limit: Int)
  case nullWithLength(Int)
  case notUTF8
  case notJSON(JSONError)
  case mediaType(String)
  /// A flag that must be understood and is not.
  case flags
  /// Well-formed, but not what belongs here; `at` is a JSON Pointer.
  case shape(String, at: String)
  /// `must` names members that this version does not know.
  case fields([String], at: String)
  /// What a runner told of bytes that it could not send.
  case told(String, reason: String, code: BorderCode)
  /// A message of several parts whose frame does not add up.
  case parts(String)

  var code: BorderCode {
    switch self {
    case .shape: .invalid
    case .flags, .fields: .unsupported
    case .told(_, _, let code): code
    default: .encoding
    }
  }

  /// What follows "passed " or "answered with " in a sentence.
  var phrase: String {
    switch self {
    case .tooLarge(let limit): "more than \(limit) bytes"
    case .nullWithLength(let length): "a null pointer with a length of \(length) bytes"
    case .notUTF8: "invalid UTF-8"
    case .notJSON(let error): "invalid JSON: \(error.message) at byte \(error.offset)"
    case .mediaType(let name): "the media type \(name), which is not accepted here"
    case .flags: "a struct whose flags this host does not understand"
    case .shape(let what, let pointer):
      pointer.isEmpty ? what : "\(what) at \(pointer)"
    case .fields(let names, let pointer):
      "members in \"must\" that this version does not know (\(names.joined(separator: ", ")))"
        + " at \(pointer)"
    case .told(let phrase, _, _): phrase
    case .parts(let what): "parts that do not add up: \(what)"
    }
  }

  /// The reason for programs.
  var reason: String {
    switch self {
    case .tooLarge: "limit"
    case .nullWithLength, .notJSON: "json"
    case .notUTF8: "utf8"
    case .mediaType: "media_type"
    case .flags, .fields: "fields"
    case .shape: "shape"
    case .told(_, let reason, _): reason
    case .parts: "parts"
    }
  }
}

/// What kind of bytes a message holds.
enum MediaType: Sendable, Equatable {
  case json, text, bytes, parts
  case image(String)

  /// Reads a name; unknown ones give `nil`.
  init?(name: String) {
    switch name {
    case "application/json": self = .json
    case "text/plain": self = .text
    case "application/octet-stream": self = .bytes
    case "application/vnd.perdure.parts": self = .parts
    case "image/png", "image/jpeg", "image/gif", "image/webp": self = .image(name)
    default: return nil
    }
  }

  /// The name on the wire.
  var name: String {
    switch self {
    case .json: "application/json"
    case .text: "text/plain"
    case .bytes: "application/octet-stream"
    case .parts: "application/vnd.perdure.parts"
    case .image(let name): name
    }
  }
}

/// Bytes that crossed the border, copied.
struct Payload: Sendable {
  var type: MediaType
  var bytes: [UInt8]

  /// The object that JSON bytes hold; no bytes at all are an empty object.
  func object() throws(BorderProblem) -> JSONObject {
    if type == .parts { return try Parts(bytes).object() }
    guard type == .json else { throw .mediaType(type.name) }
    guard !bytes.isEmpty else { return JSONObject() }
    return try Self.object(bytes)
  }

  /// The object that JSON bytes hold.
  static func object(_ bytes: some Collection<UInt8>) throws(BorderProblem) -> JSONObject {
    let bytes = Array(bytes)
    // Told apart from bad JSON because the author looks for it elsewhere.
    guard String(validating: bytes, as: UTF8.self) != nil else { throw .notUTF8 }
    let value: JSON
    do { value = try JSON(parsing: bytes, options: .border) } catch { throw .notJSON(error) }
    guard let object = value.object else { throw .shape("JSON that is no object", at: "") }
    return object
  }

  /// Whether it holds JSON, alone or with parts.
  var isMessage: Bool { type == .json || type == .parts }

  /// The text that the bytes hold.
  func text() throws(BorderProblem) -> String {
    guard let text = String(validating: bytes, as: UTF8.self) else { throw .notUTF8 }
    return text
  }
}
