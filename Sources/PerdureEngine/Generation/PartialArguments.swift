import PerdureValue

/// The arguments of a call as far as they have arrived: the text is read once, piece by piece, and
/// what is open is closed.
///
/// A member counts from its first character if it is a string, and when it is complete otherwise.
struct PartialArguments: Sendable {
  private var bytes: [UInt8] = []
  private var open: [UInt8] = []
  private var position = Position.value
  /// Where the text can be cut so that only brackets have to be closed.
  private var safe = 0
  private var isBroken = false
  /// What was shown last, and how long the text was then.
  private var shown: JSON = [:]
  private var shownCount = 0

  private enum Position: Sendable {
    case value
    case key
    case afterKey
    case afterValue
    case scalar
    /// `escape` counts the characters of one that is not complete.
    case string(isKey: Bool, escape: Int)
  }

  /// Up to here every state is shown, beyond only such that grew by an eighth: so the work stays in
  /// proportion to the text.
  private static let alwaysShown = 65_536

  private static let quote = UInt8(ascii: "\"")
  private static let backslash = UInt8(ascii: "\\")

  /// Takes more of the text.
  mutating func append(_ text: String) {
    guard !isBroken else { return }
    for byte in text.utf8 {
      bytes.append(byte)
      take(byte)
    }
  }

  private mutating func take(_ byte: UInt8) {
    switch position {
    case .string(let isKey, let escape): takeInString(byte, isKey: isKey, escape)
    case .scalar where ![0x2C, 0x5D, 0x7D, 0x20, 0x09, 0x0A, 0x0D].contains(byte): break
    default: takeOutside(byte)
    }
  }

  private mutating func takeInString(_ byte: UInt8, isKey: Bool, _ escape: Int) {
    if escape > 0 {
      // `\u` has four more.
      let isLong = escape > 1 || byte == UInt8(ascii: "u")
      position = .string(isKey: isKey, escape: isLong && escape < 5 ? escape + 1 : 0)
    } else if byte == Self.backslash {
      position = .string(isKey: isKey, escape: 1)
    } else if byte == Self.quote {
      position = isKey ? .afterKey : .afterValue
      if !isKey { safe = bytes.count }
    }
  }

  private mutating func takeOutside(_ byte: UInt8) {
    if case .scalar = position {
      safe = bytes.count - 1
      position = .afterValue
    }
    switch byte {
    case 0x20, 0x09, 0x0A, 0x0D: break
    case UInt8(ascii: "{"), UInt8(ascii: "["):
      open.append(byte)
      safe = bytes.count
      position = byte == UInt8(ascii: "{") ? .key : .value
    case UInt8(ascii: "}"), UInt8(ascii: "]"):
      isBroken = open.popLast() == nil
      safe = bytes.count
      position = .afterValue
    case UInt8(ascii: ","):
      position = open.last == UInt8(ascii: "{") ? .key : .value
    case UInt8(ascii: ":"): position = .value
    case Self.quote:
      if case .key = position {
        position = .string(isKey: true, escape: 0)
      } else {
        position = .string(isKey: false, escape: 0)
      }
    default: position = .scalar
    }
  }

  /// What is there, as an object; empty before there is any.
  mutating func value() -> JSON {
    let isDue = bytes.count <= Self.alwaysShown || bytes.count - shownCount > bytes.count / 8
    guard isDue, bytes.count != shownCount else { return shown }
    shownCount = bytes.count
    var text: [UInt8]
    if case .string(isKey: false, let escape) = position {
      text = Array(bytes.dropLast(escape))
      // Half of a character outside the first plane waits for the other half.
      if let half = Self.highSurrogate(at: text) { text.removeLast(half) }
      text.append(Self.quote)
    } else {
      text = Array(bytes.prefix(safe))
    }
    for bracket in open.reversed() {
      text.append(bracket == UInt8(ascii: "{") ? UInt8(ascii: "}") : UInt8(ascii: "]"))
    }
    if let value = try? JSON(parsing: text), value.object != nil { shown = value }
    return shown
  }

  /// The length of an escaped high surrogate at the end, or `nil`.
  private static func highSurrogate(at text: [UInt8]) -> Int? {
    let tail = text.suffix(6)
    guard tail.count == 6, tail.first == backslash, tail.dropFirst().first == UInt8(ascii: "u"),
      let unit = UInt16(String(decoding: tail.suffix(4), as: UTF8.self), radix: 16),
      (0xD800...0xDBFF).contains(unit)
    else { return nil }
    return 6
  }
}
