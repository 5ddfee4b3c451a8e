/// Decodes UTF-8 that arrives in pieces; what is no UTF-8 becomes U+FFFD.
///
/// The text is the same however the bytes are split: an incomplete character waits for its rest.
package struct UTF8Stream: Sendable {
  private var pending: [UInt8] = []

  /// Begins with nothing.
  package init() {}

  /// Whether no incomplete character waits.
  package var isIdle: Bool { pending.isEmpty }

  /// Returns the text of `bytes` and of what waited before, as valid UTF-8.
  package mutating func decode(_ bytes: [UInt8]) -> [UInt8] {
    let joined = pending.isEmpty ? bytes : pending + bytes
    let end = Self.completeEnd(of: joined)
    pending = Array(joined[end...])
    return Self.repaired(joined[..<end])
  }

  /// Returns the replacement of an incomplete character, if one waits.
  package mutating func flush() -> [UInt8] {
    defer { pending = [] }
    return Self.repaired(pending[...])
  }

  /// How many bytes at the end may be the beginning of a character whose rest is yet to come.
  package static func unfinished(of bytes: [UInt8]) -> Int { bytes.count - completeEnd(of: bytes) }

  private static func repaired(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
    bytes.isEmpty ? [] : Array(String(decoding: bytes, as: UTF8.self).utf8)
  }

  /// Where the bytes end that no further byte can give another meaning.
  private static func completeEnd(of bytes: [UInt8]) -> Int {
    for length in 1...3 where length <= bytes.count {
      let start = bytes.count - length
      if bytes[start] & 0xC0 == 0x80 { continue }
      return isIncomplete(bytes[start...]) ? start : bytes.count
    }
    return bytes.count
  }

  /// Whether `bytes`, a lead byte and continuation bytes, begin a longer character.
  private static func isIncomplete(_ bytes: ArraySlice<UInt8>) -> Bool {
    guard let lead = bytes.first else { return false }
    let second: ClosedRange<UInt8>
    let length: Int
    switch lead {
    case 0xC2...0xDF: (length, second) = (2, 0x80...0xBF)
    case 0xE0: (length, second) = (3, 0xA0...0xBF)
    case 0xED: (length, second) = (3, 0x80...0x9F)
    case 0xE1...0xEF: (length, second) = (3, 0x80...0xBF)
    case 0xF0: (length, second) = (4, 0x90...0xBF)
    case 0xF1...0xF3: (length, second) = (4, 0x80...0xBF)
    case 0xF4: (length, second) = (4, 0x80...0x8F)
    default: return false
    }
    guard bytes.count < length else { return false }
    guard let next = bytes.dropFirst().first else { return true }
    return second.contains(next)
  }
}
