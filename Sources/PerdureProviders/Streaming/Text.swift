extension StringProtocol {
  /// The text without spaces, tabs and line breaks at its ends.
  var trimmed: String {
    let scalars = unicodeScalars
    let isSpace: (Unicode.Scalar) -> Bool = { $0 == " " || $0 == "\t" || $0 == "\n" || $0 == "\r" }
    let start = scalars.firstIndex { !isSpace($0) } ?? scalars.endIndex
    let end = scalars.lastIndex { !isSpace($0) }.map { scalars.index(after: $0) } ?? start
    return String(self[start..<end])
  }
}
