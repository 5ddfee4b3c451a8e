/// Text as JSON carries it: the bytes of its UTF-8 form, in which lone surrogates may occur.
///
/// Two strings are equal if and only if their bytes are equal, so canonically equivalent spellings
/// of one word stay two keys. Lone UTF-16 surrogates, which stores written by JavaScript may hold,
/// are kept in the WTF-8 form (https://simonsapin.github.io/wtf-8/).
public struct JSONString: Sendable {
  // `.surrogates` is used only when at least one lone surrogate is present, so that the two cases
  // never hold equal bytes.
  enum Form: Sendable {
    case unicode(String)
    case surrogates([UInt8])
  }

  private(set) var form: Form

  /// Makes the JSON form of `string`.
  public init(_ string: String) { form = .unicode(string) }

  /// Makes a string from WTF-8 bytes, or returns `nil` if they are not WTF-8.
  ///
  /// A surrogate pair spelled as two three-byte sequences is not WTF-8 and is refused.
  public init?(wtf8 bytes: some Sequence<UInt8>) {
    let bytes = Array(bytes)
    if let string = String(validating: bytes, as: UTF8.self) {
      form = .unicode(string)
    } else if WTF8.isValid(bytes) {
      form = .surrogates(bytes)
    } else {
      return nil
    }
  }

  /// Makes a string from UTF-16 code units; pairs are joined, lone surrogates are kept.
  public init(utf16 units: some Sequence<UInt16>) {
    var bytes: [UInt8] = []
    var high: UInt32?
    for unit in units {
      let scalar = UInt32(unit)
      if let first = high {
        high = nil
        if (0xDC00...0xDFFF).contains(scalar) {
          WTF8.append(0x10000 + ((first - 0xD800) << 10) + (scalar - 0xDC00), to: &bytes)
          continue
        }
        WTF8.append(first, to: &bytes)
      }
      if (0xD800...0xDBFF).contains(scalar) {
        high = scalar
      } else {
        WTF8.append(scalar, to: &bytes)
      }
    }
    if let high { WTF8.append(high, to: &bytes) }
    self.init(uncheckedWTF8: bytes)
  }

  init(uncheckedWTF8 bytes: [UInt8]) {
    if let string = String(validating: bytes, as: UTF8.self) {
      form = .unicode(string)
    } else {
      form = .surrogates(bytes)
    }
  }

  /// The text for people, with U+FFFD in place of each lone surrogate.
  public var string: String {
    switch form {
    case .unicode(let string): string
    case .surrogates(let bytes): WTF8.lossyString(bytes)
    }
  }

  /// The text, or `nil` if it holds a lone surrogate.
  public var unicode: String? {
    if case .unicode(let string) = form { return string }
    return nil
  }

  /// The WTF-8 bytes.
  public var bytes: [UInt8] {
    switch form {
    case .unicode(let string): Array(string.utf8)
    case .surrogates(let bytes): bytes
    }
  }

  /// The number of bytes.
  public var utf8Count: Int {
    switch form {
    case .unicode(let string): string.utf8.count
    case .surrogates(let bytes): bytes.count
    }
  }

  /// The number of UTF-16 code units, the unit of offsets in document operations.
  public var utf16Count: Int {
    switch form {
    case .unicode(let string): string.utf16.count
    case .surrogates(let bytes): WTF8.utf16Units(bytes).count
    }
  }

  /// The number of code points; a lone surrogate is one.
  public var codePointCount: Int {
    // Each begins with a byte that continues no other.
    switch form {
    case .unicode(let string): string.utf8.count { $0 & 0xC0 != 0x80 }
    case .surrogates(let bytes): bytes.count { $0 & 0xC0 != 0x80 }
    }
  }

  /// The UTF-16 code units.
  public var utf16: [UInt16] {
    switch form {
    case .unicode(let string): Array(string.utf16)
    case .surrogates(let bytes): WTF8.utf16Units(bytes)
    }
  }

  /// Whether there is no text.
  public var isEmpty: Bool { utf8Count == 0 }

  /// Returns whether the text begins with the bytes of `prefix`.
  public func hasPrefix(_ prefix: JSONString) -> Bool {
    if case .unicode(let text) = form, case .unicode(let start) = prefix.form {
      return Self.begins(text, with: start)
    }
    return bytes.starts(with: prefix.bytes)
  }

  private static func begins(_ text: String, with start: String) -> Bool {
    let (bytes, prefix) = (text.utf8Span.span, start.utf8Span.span)
    guard prefix.count <= bytes.count else { return false }
    for index in prefix.indices where bytes[index] != prefix[index] { return false }
    return true
  }

  /// Returns what follows `prefix`, or `nil` if the text does not begin with its bytes.
  public func suffix(after prefix: JSONString) -> JSONString? {
    guard hasPrefix(prefix) else { return nil }
    switch form {
    case .unicode(let text):
      return JSONString(String(decoding: text.utf8.dropFirst(prefix.utf8Count), as: UTF8.self))
    case .surrogates(let bytes):
      return JSONString(uncheckedWTF8: Array(bytes.dropFirst(prefix.utf8Count)))
    }
  }

  /// Returns at most `count` UTF-16 code units from the start.
  public func utf16Prefix(_ count: Int) -> [UInt16] {
    if case .unicode(let string) = form { return Array(string.utf16.prefix(count)) }
    return Array(utf16.prefix(count))
  }

  /// Returns at most `count` UTF-16 code units from the end.
  public func utf16Suffix(_ count: Int) -> [UInt16] {
    if case .unicode(let string) = form { return Array(string.utf16.suffix(count)) }
    return Array(utf16.suffix(count))
  }

  /// Returns this text followed by `other`; a high and a low surrogate that meet are joined.
  public func appending(_ other: JSONString) -> JSONString {
    var result = self
    result.append(other)
    return result
  }

  /// Appends `other`; a high and a low surrogate that meet are joined.
  ///
  /// The cost is that of `other` when nobody else holds this text.
  public mutating func append(_ other: JSONString) {
    switch form {
    case .unicode(var left):
      switch other.form {
      case .unicode(let right):
        form = .surrogates([])
        left.append(right)
        form = .unicode(left)
      case .surrogates(let right): form = .surrogates(Array(left.utf8) + right)
      }
    case .surrogates(var left):
      form = .surrogates([])
      appendBytes(other.bytes, to: &left)
    }
  }

  private mutating func appendBytes(_ right: [UInt8], to left: inout [UInt8]) {
    guard let joined = WTF8.joinedAtSeam(left, right) else {
      left += right
      form = .surrogates(left)
      return
    }
    left.removeLast(3)
    left += joined
    left += right.dropFirst(3)
    // The pair may have been the last that was no Unicode.
    self = JSONString(uncheckedWTF8: left)
  }

  /// Returns the text without its first `count` UTF-16 units, or `nil` if it is shorter.
  ///
  /// A pair that is cut leaves a lone surrogate.
  public func dropping(utf16Units count: Int) -> JSONString? {
    if case .unicode(let text) = form {
      let units = text.utf16
      guard let start = units.index(units.startIndex, offsetBy: count, limitedBy: units.endIndex)
      else { return nil }
      if let index = start.samePosition(in: text.unicodeScalars) {
        return JSONString(String(text.unicodeScalars[index...]))
      }
    }
    let units = utf16
    guard count <= units.count else { return nil }
    return JSONString(utf16: units[count...])
  }
}

extension JSONString: Hashable {
  public static func == (left: JSONString, right: JSONString) -> Bool {
    switch (left.form, right.form) {
    case (.unicode(let left), .unicode(let right)):
      left.utf8.count == right.utf8.count
        // Equal length leaves ASCII no other spelling, and its comparison is a single call.
        && (left.utf8Span.isKnownASCII ? left == right : begins(left, with: right))
    case (.surrogates(let left), .surrogates(let right)): left == right
    default: false
    }
  }

  public func hash(into hasher: inout Hasher) {
    // Canonically equivalent strings share a hash; equality tells them apart.
    switch form {
    case .unicode(let string): hasher.combine(string)
    case .surrogates(let bytes): hasher.combine(bytes)
    }
  }
}

extension JSONString: Comparable {
  /// Orders by bytes.
  public static func < (left: JSONString, right: JSONString) -> Bool {
    left.bytes.lexicographicallyPrecedes(right.bytes)
  }
}

extension JSONString: ExpressibleByStringLiteral, ExpressibleByStringInterpolation {
  public init(stringLiteral value: String) { self.init(value) }
}

extension JSONString: CustomStringConvertible {
  public var description: String { string }
}

/// The generalised UTF-8 that can hold lone surrogates.
enum WTF8 {
  static func append(_ scalar: UInt32, to bytes: inout [UInt8]) {
    switch scalar {
    case ..<0x80:
      bytes.append(UInt8(truncatingIfNeeded: scalar))
    case ..<0x800:
      bytes.append(0xC0 | UInt8(truncatingIfNeeded: scalar >> 6))
      bytes.append(0x80 | UInt8(truncatingIfNeeded: scalar & 0x3F))
    case ..<0x10000:
      bytes.append(0xE0 | UInt8(truncatingIfNeeded: scalar >> 12))
      bytes.append(0x80 | UInt8(truncatingIfNeeded: (scalar >> 6) & 0x3F))
      bytes.append(0x80 | UInt8(truncatingIfNeeded: scalar & 0x3F))
    default:
      bytes.append(0xF0 | UInt8(truncatingIfNeeded: scalar >> 18))
      bytes.append(0x80 | UInt8(truncatingIfNeeded: (scalar >> 12) & 0x3F))
      bytes.append(0x80 | UInt8(truncatingIfNeeded: (scalar >> 6) & 0x3F))
      bytes.append(0x80 | UInt8(truncatingIfNeeded: scalar & 0x3F))
    }
  }

  /// Decodes one scalar or lone surrogate at `index`; `nil` if the bytes there are not WTF-8.
  static func decode(_ bytes: [UInt8], at index: Int) -> (scalar: UInt32, length: Int)? {
    guard index < bytes.count else { return nil }
    let lead = bytes[index]
    let length: Int
    var scalar: UInt32
    switch lead {
    case 0..<0x80: return (UInt32(lead), 1)
    case 0xC2...0xDF: (length, scalar) = (2, UInt32(lead & 0x1F))
    case 0xE0...0xEF: (length, scalar) = (3, UInt32(lead & 0x0F))
    case 0xF0...0xF4: (length, scalar) = (4, UInt32(lead & 0x07))
    default: return nil
    }
    guard index + length <= bytes.count else { return nil }
    for offset in 1..<length {
      let byte = bytes[index + offset]
      guard byte & 0xC0 == 0x80 else { return nil }
      scalar = scalar << 6 | UInt32(byte & 0x3F)
    }
    let least: UInt32 = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000
    guard scalar >= least, scalar <= 0x10FFFF else { return nil }
    return (scalar, length)
  }

  static func isValid(_ bytes: [UInt8]) -> Bool {
    var index = 0
    var afterHigh = false
    while index < bytes.count {
      guard let (scalar, length) = decode(bytes, at: index) else { return false }
      if afterHigh, (0xDC00...0xDFFF).contains(scalar) { return false }
      afterHigh = (0xD800...0xDBFF).contains(scalar)
      index += length
    }
    return true
  }

  /// The bytes of the pair that the end of `left` and the start of `right` form, or `nil`.
  static func joinedAtSeam(_ left: [UInt8], _ right: [UInt8]) -> [UInt8]? {
    guard left.count >= 3, let high = decode(left, at: left.count - 3), high.length == 3,
      (0xD800...0xDBFF).contains(high.scalar), let low = decode(right, at: 0),
      (0xDC00...0xDFFF).contains(low.scalar)
    else { return nil }
    var joined: [UInt8] = []
    append(0x10000 + ((high.scalar - 0xD800) << 10) + (low.scalar - 0xDC00), to: &joined)
    return joined
  }

  static func utf16Units(_ bytes: [UInt8]) -> [UInt16] {
    var units: [UInt16] = []
    var index = 0
    while let (scalar, length) = decode(bytes, at: index) {
      if scalar >= 0x10000 {
        units.append(UInt16(truncatingIfNeeded: 0xD800 + ((scalar - 0x10000) >> 10)))
        units.append(UInt16(truncatingIfNeeded: 0xDC00 + ((scalar - 0x10000) & 0x3FF)))
      } else {
        units.append(UInt16(truncatingIfNeeded: scalar))
      }
      index += length
    }
    return units
  }

  static func lossyString(_ bytes: [UInt8]) -> String {
    String(decoding: utf16Units(bytes), as: UTF16.self)
  }
}
