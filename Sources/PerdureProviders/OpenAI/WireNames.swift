import PerdureValue

/// Names and ids in the form that every OpenAI-compatible server takes.
///
/// The mapping is a pure function of the name, so that a history looks the same in each request.
enum WireNames {
  /// Returns a tool's name of at most 64 letters, digits, `_` and `-`.
  static func tool(_ name: JSONString) -> String { fit(name, limit: 64) }

  /// Returns a call's id of at most 40 letters, digits, `_` and `-`.
  static func call(_ id: JSONString) -> String { fit(id, limit: 40) }

  private static func fit(_ name: JSONString, limit: Int) -> String {
    let bytes = name.bytes
    if !bytes.isEmpty, bytes.count <= limit, bytes.allSatisfy(isPlain) {
      return String(decoding: bytes, as: UTF8.self)
    }
    let start = bytes.prefix(limit - 17).map { isPlain($0) ? $0 : UInt8(ascii: "_") }
    let digits = String(hash(bytes), radix: 16)
    let padding = String(repeating: "0", count: 16 - digits.count)
    return String(decoding: start, as: UTF8.self) + "_" + padding + digits
  }

  private static func isPlain(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
      true
    default: false
    }
  }

  /// FNV-1a, 64 bits: names that lose characters stay apart.
  private static func hash(_ bytes: [UInt8]) -> UInt64 {
    bytes.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01B3 }
  }
}
