import PerdureModel
import PerdureValue

/// How the text of a file is stored, as its first bytes say.
enum TextEncoding: Sendable, Equatable {
  case utf8
  case utf16(isBigEndian: Bool)
  case utf32(isBigEndian: Bool)

  /// What the first bytes say, and how many of them are the mark that says so.
  static func detect(_ head: [UInt8]) -> (encoding: TextEncoding, mark: Int) {
    if head.starts(with: [0xFF, 0xFE, 0, 0]) { return (.utf32(isBigEndian: false), 4) }
    if head.starts(with: [0, 0, 0xFE, 0xFF]) { return (.utf32(isBigEndian: true), 4) }
    if head.starts(with: [0xFF, 0xFE]) { return (.utf16(isBigEndian: false), 2) }
    if head.starts(with: [0xFE, 0xFF]) { return (.utf16(isBigEndian: true), 2) }
    if head.starts(with: [0xEF, 0xBB, 0xBF]) { return (.utf8, 3) }
    return (.utf8, 0)
  }

  var name: String {
    switch self {
    case .utf8: "UTF-8"
    case .utf16(let isBigEndian): isBigEndian ? "UTF-16BE" : "UTF-16LE"
    case .utf32(let isBigEndian): isBigEndian ? "UTF-32BE" : "UTF-32LE"
    }
  }

  /// Whether bytes without a mark are no text: a zero, or too much that is no UTF-8.
  static func isBinary(_ head: [UInt8]) -> Bool {
    if head.contains(0) { return true }
    // A character that the end of the piece cuts is no mistake.
    var stream = UTF8Stream()
    let text = stream.decode(head)
    var wrong = 0
    for index in text.indices.dropLast(2)
    where text[index] == 0xEF && text[index + 1] == 0xBF && text[index + 2] == 0xBD {
      wrong += 1
    }
    return wrong * 10 > head.count
  }
}

/// Decodes text that arrives in pieces.
struct WideDecoder: Sendable {
  private let encoding: TextEncoding
  private var waiting: [UInt8] = []

  init(_ encoding: TextEncoding) { self.encoding = encoding }

  /// Returns what is complete of it as UTF-8; at the end also what is not.
  mutating func decode(_ bytes: [UInt8], isLast: Bool) -> [UInt8] {
    let all = waiting + bytes
    switch encoding {
    case .utf8:
      waiting = []
      return all
    case .utf16(let isBigEndian):
      var units = Self.numbers(all, size: 2, isBigEndian).map { UInt16(truncatingIfNeeded: $0) }
      var used = units.count * 2
      // The second half of a pair may come with the next piece.
      if !isLast, let last = units.last, UTF16.isLeadSurrogate(last) {
        units.removeLast()
        used -= 2
      }
      waiting = Array(all[used...])
      var text = String(decoding: units, as: UTF16.self)
      if isLast, !waiting.isEmpty { text += "\u{FFFD}" }
      return Array(text.utf8)
    case .utf32(let isBigEndian):
      var scalars = String.UnicodeScalarView()
      for value in Self.numbers(all, size: 4, isBigEndian) {
        scalars.append(Unicode.Scalar(value) ?? "\u{FFFD}")
      }
      let used = all.count - all.count % 4
      waiting = Array(all[used...])
      if isLast, !waiting.isEmpty { scalars.append("\u{FFFD}") }
      return Array(String(scalars).utf8)
    }
  }

  /// The whole numbers of `size` bytes each that the bytes hold.
  private static func numbers(_ bytes: [UInt8], size: Int, _ isBigEndian: Bool) -> [UInt32] {
    let count = bytes.count / size
    return (0..<count).map { index in
      var value: UInt32 = 0
      for step in 0..<size {
        let place = index * size + (isBigEndian ? step : size - 1 - step)
        value = value << 8 | UInt32(bytes[place])
      }
      return value
    }
  }
}
