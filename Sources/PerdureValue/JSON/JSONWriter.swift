/// The name of a member as it stands in JSON, made once.
package struct JSONKey: Sendable {
  fileprivate let text: String

  /// Makes a key of a name.
  package init(_ name: String) { text = JSONString(name).literal + ":" }
}

/// Writes the text of an object member by member, for messages that nobody looks at as a value.
///
/// Whoever writes takes care that no key comes twice.
package struct JSONWriter {
  private var printer = JSONPrinter()
  private var needsComma = false

  /// Begins an object without members.
  package init() {
    printer.bytes.reserveCapacity(512)
    printer.bytes.append(UInt8(ascii: "{"))
  }

  /// Ends the object and gives its text as UTF-8.
  package consuming func finished() -> [UInt8] {
    printer.bytes.append(UInt8(ascii: "}"))
    return printer.bytes
  }

  /// Writes a member of any kind.
  package mutating func member(_ key: JSONKey, _ value: JSON) {
    name(key)
    printer.print(value)
  }

  /// Writes a number.
  package mutating func member(_ key: JSONKey, _ value: Int64) {
    name(key)
    printer.print(value)
  }

  /// Writes a string.
  package mutating func member(_ key: JSONKey, _ value: JSONString) {
    name(key)
    printer.print(value)
  }

  /// Writes all members of an object.
  package mutating func members(of object: JSONObject) {
    for (key, value) in object {
      comma()
      printer.print(key)
      printer.bytes.append(UInt8(ascii: ":"))
      printer.print(value)
    }
  }

  /// Begins a member that is an object, whose members come next.
  package mutating func begin(_ key: JSONKey) {
    name(key)
    printer.bytes.append(UInt8(ascii: "{"))
    needsComma = false
  }

  /// Ends the object that was begun last.
  package mutating func end() {
    printer.bytes.append(UInt8(ascii: "}"))
    needsComma = true
  }

  private mutating func comma() {
    if needsComma { printer.bytes.append(UInt8(ascii: ",")) }
    needsComma = true
  }

  private mutating func name(_ key: JSONKey) {
    comma()
    printer.bytes.append(contentsOf: key.text.utf8)
  }
}
