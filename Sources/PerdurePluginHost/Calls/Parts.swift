import PerdureValue

/// A message of JSON and raw bytes: images cross the border without being encoded.
struct Parts: Sendable {
  private static let greatestCount = 64
  private static let jsonLimit = 16 << 20
  private static let headerSize = 16

  private let bytes: [UInt8]
  private let ranges: [Range<Int>]

  /// Reads the frame; throws if it does not add up to the bytes.
  init(_ bytes: [UInt8]) throws(BorderProblem) {
    guard bytes.count >= Self.headerSize, bytes.starts(with: Array("PDRP".utf8)) else {
      throw .parts("the beginning is not that of parts")
    }
    guard Self.number(bytes, at: 4, 4) == 1, Self.number(bytes, at: 12, 4) == 0 else {
      throw .parts("the version is not 1")
    }
    let count = Self.number(bytes, at: 8, 4)
    guard (1...UInt64(Self.greatestCount)).contains(count) else {
      throw .parts("there are \(count) parts")
    }
    var start = Self.headerSize + Int(count) * 8
    guard start <= bytes.count else { throw .parts("the lengths are cut off") }
    var ranges: [Range<Int>] = []
    for index in 0..<Int(count) {
      let length = Self.number(bytes, at: Self.headerSize + index * 8, 8)
      guard length <= UInt64(bytes.count - start) else {
        throw .parts("part \(index) is longer than the message")
      }
      ranges.append(start..<start + Int(length))
      // Each is padded to eight bytes; the last one may end the message.
      start = min(bytes.count, start + (Int(length) + 7) / 8 * 8)
    }
    guard start == bytes.count else { throw .parts("bytes follow the last part") }
    guard ranges[0].count <= Self.jsonLimit else { throw .tooLarge(limit: Self.jsonLimit) }
    self.bytes = bytes
    self.ranges = ranges
  }

  private static func number(_ bytes: [UInt8], at start: Int, _ count: Int) -> UInt64 {
    bytes[start..<start + count].reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }

  /// The JSON, with every part in the form in which images are stored: as the member `data`.
  func object() throws(BorderProblem) -> JSONObject {
    let object = try Payload.object(bytes[ranges[0]])
    return try whole(.object(object), at: "").object ?? [:]
  }

  private func whole(_ value: JSON, at pointer: String) throws(BorderProblem) -> JSON {
    switch value {
    case .array(let values):
      var whole: [JSON] = []
      for (index, value) in values.enumerated() {
        whole.append(try self.whole(value, at: "\(pointer)/\(index)"))
      }
      return .array(whole)
    case .object(let object):
      if let part = object["part"], object["type"] == "image" || pointer == "/bytes" {
        return try image(object, part, at: pointer)
      }
      var whole = JSONObject()
      for (key, value) in object {
        whole[key] = try self.whole(value, at: "\(pointer)/\(key.string)")
      }
      return .object(whole)
    default: return value
    }
  }

  private func image(
    _ object: JSONObject,
    _ part: JSON,
    at pointer: String
  ) throws(BorderProblem) -> JSON {
    guard let number = part.int, number >= 1, number < Int64(ranges.count) else {
      throw .shape("a number that no part has", at: pointer + "/part")
    }
    var image = object
    image["part"] = nil
    image["data"] = .string(JSONString(Base64.encode(Array(bytes[ranges[Int(number)]]))))
    return .object(image)
  }
}
