import PerdureValue

/// One physical line of `--json` output.
enum EventLine {
  /// Returns the bytes with the line end.
  ///
  /// U+2028 and U+2029 are escaped, because some readers end lines at them.
  static func bytes(_ json: JSON) -> [UInt8] {
    let encoded = json.encoded
    var line: [UInt8] = []
    line.reserveCapacity(encoded.count + 1)
    for byte in encoded {
      line.append(byte)
      guard byte == 0xA8 || byte == 0xA9, line.suffix(3).starts(with: [0xE2, 0x80]) else {
        continue
      }
      line.removeLast(3)
      line.append(contentsOf: byte == 0xA8 ? Array(#"\u2028"#.utf8) : Array(#"\u2029"#.utf8))
    }
    line.append(0x0A)
    return line
  }
}
