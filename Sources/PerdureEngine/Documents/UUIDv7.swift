/// Identities that sort by the time at which they were made (RFC 9562, section 5.7).
enum UUIDv7 {
  static func make(at milliseconds: Int64) -> String {
    var random = SystemRandomNumberGenerator()
    let time = UInt64(bitPattern: milliseconds) & 0xFFFF_FFFF_FFFF
    let high = time << 16 | 0x7000 | (random.next() & 0x0FFF)
    let low = 0x8000_0000_0000_0000 | (random.next() & 0x3FFF_FFFF_FFFF_FFFF)
    let digits = hex(high) + hex(low)
    var text = ""
    for (position, digit) in digits.enumerated() {
      if [8, 12, 16, 20].contains(position) { text.append("-") }
      text.append(digit)
    }
    return text
  }

  private static func hex(_ value: UInt64) -> String {
    let digits = String(value, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }
}
