import PerdureValue

/// One step of the way from a JSON document to a value in it.
enum JSONStep: Sendable, Equatable {
  case key(JSONString)
  case element(Int)
}

/// Finds where a value stands in the text it was parsed from.
struct JSONLocator {
  private let bytes: [UInt8]
  private var index = 0

  /// Returns the offset of the value at `path`, or of the last value on the way that exists.
  ///
  /// `bytes` must be a text that was parsed before; in any other text the result means nothing.
  static func offset(of path: [JSONStep], in bytes: [UInt8]) -> Int {
    var locator = JSONLocator(bytes: bytes)
    locator.skipSpace()
    for step in path {
      let start = locator.index
      guard locator.enter(step) else { return start }
    }
    return locator.index
  }

  /// Returns the line of a byte, from 1.
  static func line(of offset: Int, in bytes: [UInt8]) -> Int {
    1 + bytes.prefix(offset).count { $0 == 0x0A }
  }

  private init(bytes: [UInt8]) { self.bytes = bytes }

  private var current: UInt8? { index < bytes.count ? bytes[index] : nil }

  private mutating func skipSpace() {
    while let byte = current, [0x20, 0x09, 0x0A, 0x0D].contains(byte) { index += 1 }
  }

  /// Moves from the start of a value to the start of a value inside it.
  private mutating func enter(_ step: JSONStep) -> Bool {
    index += 1
    var position = 0
    while true {
      skipSpace()
      guard let byte = current, byte != UInt8(ascii: "}"), byte != UInt8(ascii: "]") else {
        return false
      }
      switch step {
      case .element(let wanted):
        if position == wanted { return true }
      case .key(let wanted):
        let start = index
        skipString()
        let key = try? JSON(parsing: Array(bytes[start..<index]))
        skipSpace()
        index += 1
        skipSpace()
        if key?.string == wanted { return true }
      }
      skipValue()
      skipSpace()
      if current == UInt8(ascii: ",") { index += 1 }
      position += 1
    }
  }

  private mutating func skipString() {
    index += 1
    while let byte = current, byte != UInt8(ascii: "\"") {
      index += byte == UInt8(ascii: "\\") ? 2 : 1
    }
    index = min(index + 1, bytes.count)
  }

  private mutating func skipValue() {
    var depth = 0
    while let byte = current {
      switch byte {
      case UInt8(ascii: "\""):
        skipString()
        if depth == 0 { return }
        continue
      case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
      case UInt8(ascii: "}"), UInt8(ascii: "]"):
        if depth == 0 { return }
        depth -= 1
        if depth == 0 {
          index += 1
          return
        }
      case UInt8(ascii: ","):
        if depth == 0 { return }
      default: break
      }
      index += 1
    }
  }
}
