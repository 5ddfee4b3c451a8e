import PerdureTestKit
import PerdureValue

/// Values with everything that a store may hold.
enum RandomJSON {
  static let keys: [JSONString] = [
    "a", "b", "c", "", "é", "e\u{301}", JSONString(utf16: [0xD800]), "__proto__",
  ]

  static func value(depth: Int, using random: inout SeededGenerator) -> JSON {
    switch random.int(0...(depth > 0 ? 9 : 5)) {
    case 0: return .null
    case 1: return .bool(random.chance(50))
    case 2: return .int(random.pick([0, -1, 7, Int64.min, .max, 1 << 53 + 1]))
    case 3: return .double(random.pick([0, -0.0, 0.1, 1e300, -.leastNonzeroMagnitude, 1e21]))
    case 4: return .bigInteger("18446744073709551616")
    case 5: return .string(string(using: &random))
    case 6, 7:
      return .array((0..<random.int(0...4)).map { _ in value(depth: depth - 1, using: &random) })
    default:
      var members = JSONObject()
      for _ in 0..<random.int(0...5) {
        members[random.pick(keys)] = value(depth: depth - 1, using: &random)
      }
      return .object(members)
    }
  }

  static func string(using random: inout SeededGenerator) -> JSONString {
    let units: [UInt16] = [
      0x61, 0x22, 0x5C, 0x0A, 0x00, 0x7F, 0xE9, 0xD83D, 0xDE00, 0xDC00, 0xFFFF,
    ]
    return JSONString(utf16: (0..<random.int(0...8)).map { _ in random.pick(units) })
  }
}
