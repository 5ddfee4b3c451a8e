/// An address of the internet, of four bytes or of sixteen.
package struct NetworkAddress: Hashable, Sendable, CustomStringConvertible {
  package let bytes: [UInt8]

  /// Takes four bytes or sixteen; `nil` for another number.
  package init?(bytes: [UInt8]) {
    guard bytes.count == 4 || bytes.count == 16 else { return nil }
    self.bytes = bytes
  }

  var isFour: Bool { bytes.count == 4 }

  /// The kind of an address that leads to what is not for everybody; `nil`: it is one of the internet.
  ///
  /// What is not known to be public is not.
  package var restriction: String? {
    isFour ? Self.restriction(four: bytes) : Self.restriction(six: bytes)
  }

  /// A range of addresses: the bytes that it begins with, how many bits of them count, what it is.
  private typealias Block = (start: [UInt8], bits: Int, kind: String)

  private static let fours: [Block] = [
    ([169, 254, 169, 254], 32, "metadata"), ([100, 100, 100, 200], 32, "metadata"),
    ([168, 63, 129, 16], 32, "metadata"), ([0], 8, "this network"), ([10], 8, "private"),
    ([100, 64], 10, "shared by a carrier"), ([127], 8, "loopback"), ([169, 254], 16, "link-local"),
    ([172, 16], 12, "private"), ([192, 0, 0], 24, "reserved"), ([192, 0, 2], 24, "documentation"),
    ([192, 88, 99], 24, "reserved"), ([192, 168], 16, "private"), ([198, 18], 15, "private"),
    ([198, 51, 100], 24, "documentation"), ([203, 0, 113], 24, "documentation"),
    ([224], 4, "multicast"), ([240], 4, "reserved"),
  ]

  /// What of `2000::/3`, beside which nothing is public, is not either.
  private static let sixes: [Block] = [
    ([0x20, 0x01, 0x00], 23, "reserved"), ([0x20, 0x01, 0x0d, 0xb8], 32, "documentation"),
    ([0x20, 0x02], 16, "translated"), ([0x3f, 0xff, 0x00], 20, "documentation"),
  ]

  private static func restriction(four bytes: [UInt8]) -> String? {
    fours.first { contains($0, bytes) }?.kind
  }

  private static func restriction(six bytes: [UInt8]) -> String? {
    // Where names are looked up for a network without the old addresses, these stand for them.
    if bytes.starts(with: [0x00, 0x64, 0xff, 0x9b] + [UInt8](repeating: 0, count: 8)) {
      return restriction(four: Array(bytes.suffix(4)))
    }
    if bytes.prefix(10).allSatisfy({ $0 == 0 }) { return "loopback or mapped" }
    if contains(([0x20], 3, ""), bytes) { return sixes.first { contains($0, bytes) }?.kind }
    return switch (bytes.first ?? 0, bytes.dropFirst().first ?? 0) {
    case (0xff, _): "multicast"
    case (0xfe, 0x80...): "link-local"
    case (0xfc...0xfd, _): "private"
    default: "reserved"
    }
  }

  private static func contains(_ block: Block, _ bytes: [UInt8]) -> Bool {
    var left = block.bits
    for (wanted, byte) in zip(block.start, bytes) where left > 0 {
      let mask: UInt8 = left >= 8 ? 0xff : ~(0xff >> UInt8(left))
      if (wanted ^ byte) & mask != 0 { return false }
      left -= 8
    }
    return true
  }
}
