/// Why a JSON Schema cannot be used; `at` is the JSON Pointer of the schema that is wrong.
public enum SchemaError: Error, Equatable, Sendable, CustomStringConvertible {
  /// The keyword asserts something that is not checked here.
  case unsupportedKeyword(String, at: String)
  /// The keyword has a value of the wrong kind.
  case invalidKeyword(String, at: String, expected: String)
  /// A `$ref` does not lead to a schema of this document.
  case unresolvedReference(String, at: String)
  /// A schema refers to itself without going deeper into the value.
  case endlessReference(at: String)
  /// References or alternatives nest too deeply, or there are too many schemas.
  case tooLarge(at: String)

  public var description: String {
    switch self {
    case .unsupportedKeyword(let keyword, let pointer):
      "the schema at '\(pointer)' uses '\(keyword)', which is not supported"
    case .invalidKeyword(let keyword, let pointer, let expected):
      "the schema at '\(pointer)' has a '\(keyword)' that is not \(expected)"
    case .unresolvedReference(let reference, let pointer):
      "the schema at '\(pointer)' refers to '\(reference)', which is not a schema of this document"
    case .endlessReference(let pointer):
      "the schema at '\(pointer)' refers to itself without end"
    case .tooLarge(let pointer):
      "the schema is too large at '\(pointer)'"
    }
  }
}

/// One way in which a value breaks a schema.
public struct SchemaViolation: Equatable, Sendable, CustomStringConvertible {
  /// Where in the value.
  public var location: [PathSegment]
  /// What was expected there, as a clause.
  public var message: String

  /// The location with dots between its parts; the whole value is `root`.
  public var path: String {
    location.isEmpty ? "root" : location.map(Self.text).joined(separator: ".")
  }

  /// The location as a JSON Pointer.
  public var pointer: String { SchemaPointer.text(location.map(Self.text)) }

  public var description: String { "\(path): \(message)" }

  private static func text(_ segment: PathSegment) -> String {
    switch segment {
    case .key(let key): key.string
    case .index(let index): String(index)
    }
  }
}

/// JSON Pointers (RFC 6901) in the two forms in which schemas use them.
enum SchemaPointer {
  static func text(_ segments: [String]) -> String {
    segments.map { segment in
      "/"
        + segment.split(separator: "~", omittingEmptySubsequences: false).joined(separator: "~0")
        .split(separator: "/", omittingEmptySubsequences: false).joined(separator: "~1")
    }.joined()
  }

  /// Reads a URI fragment, or returns `nil` if it is no pointer.
  static func segments(ofFragment fragment: String) -> [JSONString]? {
    guard let decoded = percentDecoded(fragment) else { return nil }
    if decoded.isEmpty { return [] }
    guard decoded.first == UInt8(ascii: "/") else { return nil }
    var segments: [JSONString] = []
    for part in decoded.dropFirst().split(
      separator: UInt8(ascii: "/"),
      omittingEmptySubsequences: false
    ) {
      guard let segment = unescaped(part) else { return nil }
      segments.append(segment)
    }
    return segments
  }

  static func percentDecoded(_ text: String) -> [UInt8]? {
    var bytes: [UInt8] = []
    var rest = Array(text.utf8)[...]
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "%") else {
        bytes.append(byte)
        continue
      }
      let digits = rest.prefix(2)
      guard digits.count == 2, !digits.contains(UInt8(ascii: "+")),
        let value = UInt8(String(decoding: digits, as: UTF8.self), radix: 16)
      else { return nil }
      bytes.append(value)
      rest = rest.dropFirst(2)
    }
    return bytes
  }

  private static func unescaped(_ part: ArraySlice<UInt8>) -> JSONString? {
    var bytes: [UInt8] = []
    var rest = part
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "~") else {
        bytes.append(byte)
        continue
      }
      switch rest.popFirst() {
      case UInt8(ascii: "0"): bytes.append(UInt8(ascii: "~"))
      case UInt8(ascii: "1"): bytes.append(UInt8(ascii: "/"))
      default: return nil
      }
    }
    return JSONString(wtf8: bytes)
  }
}
