/// The encoding of images in records.
package enum Base64 {
  private static let digits = Array(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8
  )

  /// Gives the padded text.
  package static func encode(_ bytes: [UInt8]) -> String {
    var text: [UInt8] = []
    text.reserveCapacity((bytes.count + 2) / 3 * 4)
    var index = 0
    while index < bytes.count {
      let left = bytes.count - index
      let word =
        Int(bytes[index]) << 16 | (left > 1 ? Int(bytes[index + 1]) << 8 : 0)
        | (left > 2 ? Int(bytes[index + 2]) : 0)
      text.append(digits[word >> 18 & 63])
      text.append(digits[word >> 12 & 63])
      text.append(left > 1 ? digits[word >> 6 & 63] : UInt8(ascii: "="))
      text.append(left > 2 ? digits[word & 63] : UInt8(ascii: "="))
      index += 3
    }
    return String(decoding: text, as: UTF8.self)
  }
}
