extension PatternNode {
  /// The same as an expression for bytes that fits more; `nil` for one that fits everything.
  ///
  /// What expressions of other programs understand in another way is left out or made wider: what
  /// holds between characters, lookaround, and all but plain sets.
  var wider: String? { least == 0 ? nil : text }

  /// How many characters it fits at least, as far as the wider expression says so.
  private var least: Int {
    switch self {
    case .empty, .assertion, .look: 0
    case .set: 1
    case .sequence(let nodes): nodes.contains { $0.least > 0 } ? 1 : 0
    case .choice(let nodes): nodes.map(\.least).min() ?? 0
    case .repeated(let node, let least, _): min(least, node.least)
    }
  }

  private var text: String {
    switch self {
    case .empty, .assertion, .look: return ""
    case .set(let set): return set.wider
    case .sequence(let nodes): return nodes.map(\.text).joined()
    case .choice(let nodes): return "(?:\(nodes.map(\.text).joined(separator: "|")))"
    case .repeated(let node, let least, let most):
      let inner = node.text
      guard !inner.isEmpty else { return "" }
      return "(?:\(inner)){\(least),\(most.map(String.init) ?? "")}"
    }
  }
}

extension PatternSet {
  /// What no set of characters can say: up to four bytes of anything but the end of a line.
  private static let anything = "(?-u:[^\\n]{1,4})"

  /// A class of code points, or more than that.
  fileprivate var wider: String {
    // What is no text is seen as U+FFFD.
    guard !isNegative, !contains(0xFFFD) else { return Self.anything }
    var ranges = ""
    for item in items {
      guard case .range(let range) = item else { return Self.anything }
      // No line holds its own end, and no text a lone surrogate.
      let parts = [
        range.clamped(to: 0...9), range.clamped(to: 0xB...0xD7FF),
        range.clamped(to: 0xE000...0x10FFFF),
      ]
      for part in parts where range.overlaps(part) {
        ranges +=
          "\\x{\(String(part.lowerBound, radix: 16))}-\\x{\(String(part.upperBound, radix: 16))}"
      }
    }
    return ranges.isEmpty ? Self.anything : "[\(ranges)]"
  }
}
