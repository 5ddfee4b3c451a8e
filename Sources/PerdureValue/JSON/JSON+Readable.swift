extension JSON {
  /// Whether a parser takes the text of this value where it stands below `depth` others.
  ///
  /// Values that were parsed are readable as they were; those that a program made up may nest too
  /// deep or hold an integer that is none.
  package func isReadable(below depth: Int) -> Bool {
    isReadable(levels: ParseOptions().maxDepth - depth)
  }

  private func isReadable(levels: Int) -> Bool {
    switch self {
    case .array(let elements):
      levels > 0 && elements.allSatisfy { $0.isReadable(levels: levels - 1) }
    case .object(let members):
      levels > 0 && members.valuesInOrder.allSatisfy { $0.isReadable(levels: levels - 1) }
    case .bigInteger(let digits): Self.isInteger(digits)
    case .null, .bool, .int, .double, .string: true
    }
  }

  private static func isInteger(_ text: String) -> Bool {
    let digits = text.utf8.first == UInt8(ascii: "-") ? text.utf8.dropFirst() : text.utf8[...]
    guard let first = digits.first else { return false }
    return (digits.count == 1 || first != UInt8(ascii: "0"))
      && digits.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
  }
}
