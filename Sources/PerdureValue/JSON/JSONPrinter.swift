extension JSON {
  /// The compact JSON text as UTF-8; a lone surrogate is written as an escape.
  ///
  /// The key order is kept, so two values with equal text are equal in order too.
  public var encoded: [UInt8] {
    var printer = JSONPrinter()
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

extension JSON: CustomStringConvertible {
  /// The compact JSON text; `text` is that of a string without quotes.
  public var description: String { compactText }
}

extension JSONObject: CustomStringConvertible {
  /// The compact JSON text.
  public var description: String { JSON.object(self).compactText }
}

struct JSONPrinter {
  var bytes: [UInt8] = []
  var escapesNonASCII = false

  mutating func print(_ value: JSON) {
    switch value {
    case .null: append("null")
    case .bool(true): append("true")
    case .bool(false): append("false")
    case .int(let number): print(number)
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
    switch string.form {
    case .unicode(let text) where !escapesNonASCII: print(text: text)
    case .unicode(let text):
      bytes.append(UInt8(ascii: "\""))
      for unit in text.utf16 { printUnit(unit) }
      bytes.append(UInt8(ascii: "\""))
    case .surrogates(let wtf8):
      bytes.append(UInt8(ascii: "\""))
      for unit in WTF8.utf16Units(wtf8) { printUnit(unit) }
      bytes.append(UInt8(ascii: "\""))
    }
  }

  /// Prints a string with the escapes that JSON demands.
  mutating func print(text: String) {
    bytes.append(UInt8(ascii: "\""))
    if Self.needsEscapes(text) {
      for byte in text.utf8 { printByte(byte) }
    } else {
      bytes.append(contentsOf: text.utf8)
    }
    bytes.append(UInt8(ascii: "\""))
  }

  /// Prints an integer.
  mutating func print(_ number: Int64) {
    if number < 0 { bytes.append(UInt8(ascii: "-")) }
    var rest = number.magnitude
    let start = bytes.count
    repeat {
      bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10))
      rest /= 10
    } while rest > 0
    bytes[start...].reverse()
  }

  private static func needsEscapes(_ text: String) -> Bool {
    let bytes = text.utf8Span.span
    for index in bytes.indices {
      switch bytes[index] {
      case 0..<0x20, UInt8(ascii: "\""), UInt8(ascii: "\\"): return true
      default: break
      }
    }
    return false
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
    append("\\u")
    for shift in stride(from: UInt16(12), through: 0, by: -4) {
      let digit = UInt8(truncatingIfNeeded: unit >> shift & 0xF)
      bytes.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
    }
  }
}
