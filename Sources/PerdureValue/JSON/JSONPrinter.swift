extension JSON {
  /// The compact JSON text as UTF-8; a lone surrogate is written as an escape.
  ///
  /// The key order is kept, so two values with equal text are equal in order too.
  public var encoded: [UInt8] {
    var printer = JSONPrinter()
    // A record of the usual size then grows in one allocation.
    switch self {
    case .array, .object: printer.bytes.reserveCapacity(480)
    default: break
    }
    printer.print(self)
    return printer.bytes
  }

  /// The compact JSON text.
  public var compactText: String { String(decoding: encoded, as: UTF8.self) }
}

extension JSONString {
  /// The JSON literal of this string in ASCII: every other character is an escape.
  ///
  /// This is how stores index identities, so that lone surrogates stay distinct there.
  public var asciiLiteral: String {
    var printer = JSONPrinter(escapesNonASCII: true)
    printer.print(self)
    return String(decoding: printer.bytes, as: UTF8.self)
  }

  /// The JSON literal of this string, with only the escapes that JSON demands.
  public var literal: String { JSON.string(self).compactText }
}

struct JSONPrinter {
  var bytes: [UInt8] = []
  var escapesNonASCII = false

  mutating func print(_ value: JSON) {
    switch value {
    case .null: append("null")
    case .bool(true): append("true")
    case .bool(false): append("false")
    case .int(let number): append(String(number))
    case .double(let number): append(number.isFinite ? "\(number)" : "null")
    case .bigInteger(let digits): append(digits)
    case .string(let string): print(string)
    case .array(let elements):
      bytes.append(UInt8(ascii: "["))
      for (position, element) in elements.enumerated() {
        if position > 0 { bytes.append(UInt8(ascii: ",")) }
        print(element)
      }
      bytes.append(UInt8(ascii: "]"))
    case .object(let members):
      bytes.append(UInt8(ascii: "{"))
      for position in 0..<members.count {
        if position > 0 { bytes.append(UInt8(ascii: ",")) }
        print(members.keysInOrder[position])
        bytes.append(UInt8(ascii: ":"))
        print(members.valuesInOrder[position])
      }
      bytes.append(UInt8(ascii: "}"))
    }
  }

  mutating func print(_ string: JSONString) {
    bytes.append(UInt8(ascii: "\""))
    switch string.form {
    case .unicode(let text) where !escapesNonASCII:
      if Self.isPlain(text.utf8.span) {
        append(text)
      } else {
        for byte in text.utf8 { printByte(byte) }
      }
    case .unicode(let text):
      for unit in text.utf16 { printUnit(unit) }
    case .surrogates(let wtf8):
      for unit in WTF8.utf16Units(wtf8) { printUnit(unit) }
    }
    bytes.append(UInt8(ascii: "\""))
  }

  /// Whether no byte needs an escape, as in nearly all texts.
  private static func isPlain(_ text: Span<UInt8>) -> Bool {
    for position in text.indices {
      let byte = text[position]
      if byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { return false }
    }
    return true
  }

  private mutating func append(_ text: String) { bytes.append(contentsOf: text.utf8) }

  private mutating func printByte(_ byte: UInt8) {
    switch byte {
    case UInt8(ascii: "\""): append("\\\"")
    case UInt8(ascii: "\\"): append("\\\\")
    case 0x0A: append("\\n")
    case 0x0D: append("\\r")
    case 0x09: append("\\t")
    case 0x08: append("\\b")
    case 0x0C: append("\\f")
    case 0..<0x20: printEscape(UInt16(byte))
    default: bytes.append(byte)
    }
  }

  private mutating func printUnit(_ unit: UInt16) {
    if unit < 0x7F { printByte(UInt8(truncatingIfNeeded: unit)) } else { printEscape(unit) }
  }

  private mutating func printEscape(_ unit: UInt16) {
    let digits = Array("0123456789abcdef".utf8)
    append("\\u")
    for shift in [12, 8, 4, 0] { bytes.append(digits[Int(unit >> UInt16(shift)) & 0xF]) }
  }
}
