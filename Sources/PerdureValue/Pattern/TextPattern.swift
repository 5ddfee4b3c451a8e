/// A regular expression that is looked for in lines of text.
///
/// It is that of ECMA-262 with its flag `u`, without references back, and is run without
/// backtracking.
package struct TextPattern: Sendable {
  private let pattern: Pattern
  /// An expression of Rust's crate `regex` for bytes that finds each line that has a match, and maybe
  /// others; absent if that would be every line.
  package let wider: String?

  /// Reads an expression; without case it fits letters of ASCII in both.
  ///
  /// Throws a clause that says what is wrong with it.
  package init(_ source: String, ignoringCase: Bool) throws(TextPatternProblem) {
    do {
      var parser = PatternParser(JSONString(source))
      let node = try parser.parse()
      let meant = ignoringCase ? node.withoutCase : node
      pattern = Pattern(program: try PatternProgram(meant))
      wider = meant.wider
    } catch {
      throw TextPatternProblem(text: error.text)
    }
  }

  /// Whether a text has a match; `nil` if that took more than `steps`, which is counted down.
  package func matches(_ text: String, steps: inout Int) -> Bool? {
    pattern.matches(JSONString(text), steps: &steps)
  }
}

/// What is wrong with an expression, as a clause.
package struct TextPatternProblem: Error, Sendable {
  package var text: String
}

extension PatternNode {
  /// The same for letters of ASCII in both cases.
  fileprivate var withoutCase: PatternNode {
    switch self {
    case .set(let set): .set(set.withoutCase)
    case .sequence(let nodes): .sequence(nodes.map(\.withoutCase))
    case .choice(let nodes): .choice(nodes.map(\.withoutCase))
    case .repeated(let node, let least, let most):
      .repeated(node.withoutCase, least: least, most: most)
    case .look(let node, let isAhead, let isNegative):
      .look(node.withoutCase, isAhead: isAhead, isNegative: isNegative)
    case .empty, .assertion: self
    }
  }
}

extension PatternSet {
  fileprivate var withoutCase: PatternSet {
    var added: [Item] = []
    for item in items {
      switch item {
      case .range(let range):
        added.append(item)
        if let lower = range.overlap(0x41...0x5A, shifted: 32) { added.append(.range(lower)) }
        if let upper = range.overlap(0x61...0x7A, shifted: -32) { added.append(.range(upper)) }
      case .set(let set): added.append(.set(set.withoutCase))
      case .property: added.append(item)
      }
    }
    return PatternSet(items: added, isNegative: isNegative)
  }
}

extension ClosedRange<UInt32> {
  /// What it has in common with `letters`, that far away.
  fileprivate func overlap(_ letters: ClosedRange<UInt32>, shifted: Int32) -> ClosedRange<UInt32>? {
    guard overlaps(letters) else { return nil }
    let common = clamped(to: letters)
    let lower = Int64(common.lowerBound) + Int64(shifted)
    let upper = Int64(common.upperBound) + Int64(shifted)
    return UInt32(clamping: lower)...UInt32(clamping: upper)
  }
}
