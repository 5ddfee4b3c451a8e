/// Text of others, made fit for a terminal.
enum TerminalText {
  /// Returns the text without what could move the cursor or change how the rest is read: control
  /// characters but line ends and tabs, and marks that reverse the direction.
  static func cleaned(_ text: String) -> String {
    var scalars = String.UnicodeScalarView()
    scalars.append(contentsOf: text.unicodeScalars.lazy.filter(isHarmless))
    return String(scalars)
  }

  private static func isHarmless(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x09, 0x0A: true
    case 0x00...0x1F, 0x7F...0x9F, 0x202A...0x202E, 0x2066...0x2069: false
    default: true
    }
  }

  /// Returns the text as one line of at most `limit` characters.
  static func line(_ text: String, limit: Int = 100) -> String {
    let words = cleaned(text).split(whereSeparator: \.isWhitespace).joined(separator: " ")
    return words.count <= limit ? words : words.prefix(limit - 1) + "…"
  }
}
