import PerdureValue

extension Base64 {
  /// Gives the bytes, or `nil` for a text that `encode` would not give.
  package static func decodeExactly(_ text: some StringProtocol) -> [UInt8]? {
    let characters = Array(text.utf8)
    guard characters.count % 4 == 0 else { return nil }
    var bytes: [UInt8] = []
    for start in stride(from: 0, to: characters.count, by: 4) {
      let group = characters[start..<start + 4]
      let isLast = start + 4 == characters.count
      let padding = group.reversed().prefix { $0 == UInt8(ascii: "=") }.count
      guard padding <= (isLast ? 2 : 0) else { return nil }
      var word: UInt32 = 0
      for character in group.dropLast(padding) {
        guard let value = value(of: character) else { return nil }
        word = word << 6 | value
      }
      word <<= 6 * UInt32(padding)
      let whole = [UInt8(word >> 16 & 255), UInt8(word >> 8 & 255), UInt8(word & 255)]
      guard whole.suffix(padding).allSatisfy({ $0 == 0 }) else { return nil }
      bytes += whole.dropLast(padding)
    }
    return bytes
  }

  private static func value(of character: UInt8) -> UInt32? {
    switch character {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(character - UInt8(ascii: "A"))
    case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(character - UInt8(ascii: "a") + 26)
    case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(character - UInt8(ascii: "0") + 52)
    case UInt8(ascii: "+"): 62
    case UInt8(ascii: "/"): 63
    default: nil
    }
  }
}
