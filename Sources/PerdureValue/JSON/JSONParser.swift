/// What is wrong with a text that should be JSON.
public struct JSONError: Error, Equatable, Sendable, CustomStringConvertible {
  /// What was expected or is not allowed.
  public var message: String
  /// The byte at which it was found, from 0.
  public var offset: Int

  /// Makes an error about the byte at `offset`.
  public init(message: String, offset: Int) {
    self.message = message
    self.offset = offset
  }

  public var description: String { "\(message) at byte \(offset)" }
}

extension JSON {
  /// Limits and strictness of parsing.
  public struct ParseOptions: Sendable {
    /// How deep arrays and objects may nest.
    public var maxDepth: Int
    /// Whether an object may name a key twice; then the last value wins, as in JavaScript.
    public var allowsDuplicateKeys: Bool

    /// Makes options; the default depth is what a store may hold.
    public init(maxDepth: Int = 512, allowsDuplicateKeys: Bool = true) {
      self.maxDepth = maxDepth
      self.allowsDuplicateKeys = allowsDuplicateKeys
    }

    /// What crosses the plugin border: depth 128, no key twice.
    public static let border = ParseOptions(maxDepth: 128, allowsDuplicateKeys: false)
  }

  /// Parses RFC 8259 JSON from UTF-8 bytes.
  ///
  /// Never traps: any other input throws. Integers are exact; a number with a fraction or an
  /// exponent becomes a double and is refused if it is not finite. An escaped lone surrogate is
  /// kept. A byte order mark is not skipped.
  public init(parsing bytes: [UInt8], options: ParseOptions = ParseOptions()) throws(JSONError) {
    var parser = JSONParser(bytes: bytes, options: options)
    self = try parser.parseDocument()
  }

  /// Parses JSON from a string.
  public init(parsing text: String, options: ParseOptions = ParseOptions()) throws(JSONError) {
    try self.init(parsing: Array(text.utf8), options: options)
  }
}

/// A recursive descent parser; the depth limit bounds its use of the stack.
struct JSONParser {
  let bytes: [UInt8]
  let options: JSON.ParseOptions
  var index = 0

  init(bytes: [UInt8], options: JSON.ParseOptions) {
    self.bytes = bytes
    self.options = options
  }

  mutating func parseDocument() throws(JSONError) -> JSON {
    let value = try parseValue(depth: 0)
    skipWhitespace()
    guard index == bytes.count else { throw error("expected the end of the text") }
    return value
  }

  private func error(_ message: String) -> JSONError { JSONError(message: message, offset: index) }

  private var current: UInt8? { index < bytes.count ? bytes[index] : nil }

  private mutating func skipWhitespace() {
    while index < bytes.count {
      switch bytes[index] {
      case 0x20, 0x0A, 0x0D, 0x09: index += 1
      default: return
      }
    }
  }

  private mutating func parseValue(depth: Int) throws(JSONError) -> JSON {
    skipWhitespace()
    switch current {
    case UInt8(ascii: "{"): return .object(try parseObject(depth: depth + 1))
    case UInt8(ascii: "["): return .array(try parseArray(depth: depth + 1))
    case UInt8(ascii: "\""): return .string(try parseString())
    case UInt8(ascii: "t"): return try parseWord("true", .bool(true))
    case UInt8(ascii: "f"): return try parseWord("false", .bool(false))
    case UInt8(ascii: "n"): return try parseWord("null", .null)
    case UInt8(ascii: "-"): return try parseNumber()
    case let byte? where isDigit(byte): return try parseNumber()
    case nil: throw error("expected a value, found the end of the text")
    default: throw error("expected a value")
    }
  }

  private mutating func parseWord(_ word: String, _ value: JSON) throws(JSONError) -> JSON {
    for byte in word.utf8 {
      guard current == byte else { throw error("expected '\(word)'") }
      index += 1
    }
    return value
  }

  private mutating func parseArray(depth: Int) throws(JSONError) -> [JSON] {
    guard depth <= options.maxDepth else {
      throw error("nesting is deeper than \(options.maxDepth)")
    }
    index += 1
    var elements: [JSON] = []
    skipWhitespace()
    if current == UInt8(ascii: "]") {
      index += 1
      return elements
    }
    while true {
      elements.append(try parseValue(depth: depth))
      skipWhitespace()
      switch current {
      case UInt8(ascii: ","): index += 1
      case UInt8(ascii: "]"):
        index += 1
        return elements
      default: throw error("expected ',' or ']'")
      }
    }
  }

  private mutating func parseObject(depth: Int) throws(JSONError) -> JSONObject {
    guard depth <= options.maxDepth else {
      throw error("nesting is deeper than \(options.maxDepth)")
    }
    index += 1
    var members = JSONObject()
    skipWhitespace()
    if current == UInt8(ascii: "}") {
      index += 1
      return members
    }
    while true {
      skipWhitespace()
      guard current == UInt8(ascii: "\"") else { throw error("expected a key in quotes") }
      let start = index
      let key = try parseString()
      skipWhitespace()
      guard current == UInt8(ascii: ":") else { throw error("expected ':'") }
      index += 1
      let value = try parseValue(depth: depth)
      if !options.allowsDuplicateKeys, members.position(of: key) != nil {
        throw JSONError(message: "key \"\(key.string)\" occurs twice", offset: start)
      }
      members[key] = value
      skipWhitespace()
      switch current {
      case UInt8(ascii: ","): index += 1
      case UInt8(ascii: "}"):
        index += 1
        return members
      default: throw error("expected ',' or '}'")
      }
    }
  }

  private mutating func parseNumber() throws(JSONError) -> JSON {
    let start = index
    var isInteger = true
    if current == UInt8(ascii: "-") { index += 1 }
    guard let first = current, isDigit(first) else { throw error("expected a digit") }
    index += 1
    if first == UInt8(ascii: "0") {
      if let next = current, isDigit(next) { throw error("a number cannot start with 0") }
    } else {
      skipDigits()
    }
    if current == UInt8(ascii: ".") {
      isInteger = false
      index += 1
      try requireDigits()
    }
    if current == UInt8(ascii: "e") || current == UInt8(ascii: "E") {
      isInteger = false
      index += 1
      if current == UInt8(ascii: "+") || current == UInt8(ascii: "-") { index += 1 }
      try requireDigits()
    }
    return try number(from: start, isInteger: isInteger)
  }

  private func number(from start: Int, isInteger: Bool) throws(JSONError) -> JSON {
    if isInteger, index - start <= 18, bytes[start] != UInt8(ascii: "-") {
      var value: Int64 = 0
      for byte in bytes[start..<index] { value = value * 10 + Int64(byte - UInt8(ascii: "0")) }
      return .int(value)
    }
    let text = String(decoding: bytes[start..<index], as: UTF8.self)
    if isInteger {
      // "-0" is the one integer literal that an integer cannot hold.
      if text == "-0" { return .double(-0.0) }
      return Int64(text).map { .int($0) } ?? .bigInteger(text)
    }
    guard let value = Double(text), value.isFinite else {
      throw JSONError(message: "a number is out of range", offset: start)
    }
    return .double(value)
  }

  private func isDigit(_ byte: UInt8) -> Bool {
    byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9")
  }

  private mutating func skipDigits() {
    while let byte = current, isDigit(byte) { index += 1 }
  }

  private mutating func requireDigits() throws(JSONError) {
    guard let byte = current, isDigit(byte) else { throw error("expected a digit") }
    skipDigits()
  }

  private mutating func parseString() throws(JSONError) -> JSONString {
    index += 1
    let start = index
    while index < bytes.count {
      switch bytes[index] {
      case UInt8(ascii: "\""):
        let slice = bytes[start..<index]
        guard let text = String(validating: slice, as: UTF8.self) else {
          throw JSONError(message: "a string is not valid UTF-8", offset: start)
        }
        index += 1
        return JSONString(text)
      case UInt8(ascii: "\\"): return try parseEscapedString(from: start)
      case 0..<0x20: throw error("a control character must be escaped")
      default: index += 1
      }
    }
    throw error("expected '\"', found the end of the text")
  }

  private mutating func parseEscapedString(from start: Int) throws(JSONError) -> JSONString {
    var buffer = Array(bytes[start..<index])
    var runStart = 0
    var hasEscapedSurrogate = false
    while index < bytes.count {
      let byte = bytes[index]
      switch byte {
      case UInt8(ascii: "\""):
        try validate(buffer[runStart...], from: start)
        index += 1
        // Only an escape can have put a surrogate into the buffer.
        if hasEscapedSurrogate { return JSONString(uncheckedWTF8: buffer) }
        return JSONString(String(decoding: buffer, as: UTF8.self))
      case UInt8(ascii: "\\"):
        try validate(buffer[runStart...], from: start)
        index += 1
        if try parseEscape(into: &buffer) { hasEscapedSurrogate = true }
        runStart = buffer.count
      case 0..<0x20: throw error("a control character must be escaped")
      default:
        buffer.append(byte)
        index += 1
      }
    }
    throw error("expected '\"', found the end of the text")
  }

  private func validate(_ run: ArraySlice<UInt8>, from start: Int) throws(JSONError) {
    guard run.isEmpty || String(validating: run, as: UTF8.self) != nil else {
      throw JSONError(message: "a string is not valid UTF-8", offset: start)
    }
  }

  /// Appends the meaning of one escape; returns whether a lone surrogate was among it.
  private mutating func parseEscape(into buffer: inout [UInt8]) throws(JSONError) -> Bool {
    guard let byte = current else { throw error("expected an escape") }
    index += 1
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): buffer.append(byte)
    case UInt8(ascii: "b"): buffer.append(0x08)
    case UInt8(ascii: "f"): buffer.append(0x0C)
    case UInt8(ascii: "n"): buffer.append(0x0A)
    case UInt8(ascii: "r"): buffer.append(0x0D)
    case UInt8(ascii: "t"): buffer.append(0x09)
    case UInt8(ascii: "u"):
      let scalar = try parseCodeUnit()
      guard (0xD800...0xDBFF).contains(scalar) else {
        WTF8.append(scalar, to: &buffer)
        return (0xDC00...0xDFFF).contains(scalar)
      }
      let mark = index
      if current == UInt8(ascii: "\\") {
        index += 1
        if current == UInt8(ascii: "u") {
          index += 1
          let low = try parseCodeUnit()
          if (0xDC00...0xDFFF).contains(low) {
            WTF8.append(0x10000 + ((scalar - 0xD800) << 10) + (low - 0xDC00), to: &buffer)
            return false
          }
        }
        index = mark
      }
      WTF8.append(scalar, to: &buffer)
      return true
    default:
      index -= 1
      throw error("unknown escape")
    }
    return false
  }

  private mutating func parseCodeUnit() throws(JSONError) -> UInt32 {
    var unit: UInt32 = 0
    for _ in 0..<4 {
      guard let byte = current, let digit = hexDigit(byte) else {
        throw error("expected four hexadecimal digits")
      }
      unit = unit << 4 | digit
      index += 1
    }
    return unit
  }

  private func hexDigit(_ byte: UInt8) -> UInt32? {
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(byte - UInt8(ascii: "0"))
    case UInt8(ascii: "a")...UInt8(ascii: "f"): UInt32(byte - UInt8(ascii: "a") + 10)
    case UInt8(ascii: "A")...UInt8(ascii: "F"): UInt32(byte - UInt8(ascii: "A") + 10)
    default: nil
    }
  }
}
