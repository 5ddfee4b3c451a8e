/// Reads a regular expression.
///
/// Where the flag `u` forbids what has only one meaning, such as a lone `}`, that meaning is taken.
struct PatternParser {
  private let source: [UInt32]
  private var index = 0
  private var depth = 0

  private static let greatestDepth = 100
  private static let greatestCount = 10_000
  private static let punctuation = Set("^$\\.*+?()[]{}|/-".unicodeScalars.map(\.value))

  init(_ source: JSONString) { self.source = source.codePoints }

  mutating func parse() throws(Pattern.Problem) -> PatternNode {
    let node = try choice()
    guard index == source.count else { throw Pattern.Problem("it closes a group that is not open") }
    return node
  }

  private var next: UInt32? { index < source.count ? source[index] : nil }

  private mutating func take(_ text: String) -> Bool {
    let expected = text.unicodeScalars.map(\.value)
    guard source[index...].starts(with: expected) else { return false }
    index += expected.count
    return true
  }

  private mutating func choice() throws(Pattern.Problem) -> PatternNode {
    depth += 1
    defer { depth -= 1 }
    guard depth <= Self.greatestDepth else { throw Pattern.Problem("it nests too deeply") }
    var alternatives = [try sequence()]
    while take("|") { alternatives.append(try sequence()) }
    return alternatives.count == 1 ? alternatives[0] : .choice(alternatives)
  }

  private mutating func sequence() throws(Pattern.Problem) -> PatternNode {
    var parts: [PatternNode] = []
    while let point = next, point != 0x7C, point != 0x29 {  // | )
      let (node, isRepeatable) = try term()
      parts.append(isRepeatable ? try repeated(node) : node)
    }
    return parts.count == 1 ? parts[0] : parts.isEmpty ? .empty : .sequence(parts)
  }

  private mutating func term() throws(Pattern.Problem) -> (PatternNode, isRepeatable: Bool) {
    if take("^") { return (.assertion(.start), false) }
    if take("$") { return (.assertion(.end), false) }
    if take("\\b") { return (.assertion(.wordBoundary), false) }
    if take("\\B") { return (.assertion(.noWordBoundary), false) }
    if take("(") { return try group() }
    if take("[") { return (.set(try characterClass()), true) }
    if take(".") { return (.set(.dot), true) }
    if take("\\") { return (.set(try escape(inClass: false)), true) }
    if take("*") || take("+") || take("?") { throw Pattern.Problem("it repeats nothing") }
    let point = source[index]
    index += 1
    return (.set(PatternSet(point)), true)
  }

  private mutating func group() throws(Pattern.Problem) -> (PatternNode, isRepeatable: Bool) {
    var look: (isAhead: Bool, isNegative: Bool)?
    if take("?=") {
      look = (true, false)
    } else if take("?!") {
      look = (true, true)
    } else if take("?<=") {
      look = (false, false)
    } else if take("?<!") {
      look = (false, true)
    } else if take("?<") {
      guard let end = source[index...].firstIndex(of: 0x3E), end > index else {
        throw Pattern.Problem("it has a group without a name")
      }
      index = end + 1
    } else if next == 0x3F, !take("?:") {
      throw Pattern.Problem("it has a group of an unknown kind")
    }
    let node = try choice()
    guard take(")") else { throw Pattern.Problem("it leaves a group open") }
    guard let look else { return (node, true) }
    return (.look(node, isAhead: look.isAhead, isNegative: look.isNegative), false)
  }

  private mutating func repeated(_ node: PatternNode) throws(Pattern.Problem) -> PatternNode {
    var result = node
    if take("*") {
      result = .repeated(node, least: 0, most: nil)
    } else if take("+") {
      result = .repeated(node, least: 1, most: nil)
    } else if take("?") {
      result = .repeated(node, least: 0, most: 1)
    } else if let (least, most) = try bounds() {
      result = .repeated(node, least: least, most: most)
    } else {
      return node
    }
    // Which match is found does not matter, only whether there is one.
    _ = take("?")
    if next == 0x2A || next == 0x2B || next == 0x3F {  // * + ?
      throw Pattern.Problem("it repeats a repetition")
    }
    return result
  }

  /// `{2}`, `{2,}` or `{2,5}`; anything else in braces stands for itself.
  private mutating func bounds() throws(Pattern.Problem) -> (Int, Int?)? {
    let start = index
    guard take("{"), let least = number() else {
      index = start
      return nil
    }
    var most: Int? = least
    if take(",") { most = number() }
    guard take("}") else {
      index = start
      return nil
    }
    guard least <= Self.greatestCount, most ?? 0 <= Self.greatestCount else {
      throw Pattern.Problem("it counts beyond \(Self.greatestCount)")
    }
    if let most, most < least { throw Pattern.Problem("it counts from \(least) to \(most)") }
    return (least, most)
  }

  private mutating func number() -> Int? {
    var value: Int?
    while let point = next, (0x30...0x39).contains(point) {
      value = min((value ?? 0) * 10 + Int(point - 0x30), 1_000_000)
      index += 1
    }
    return value
  }

  // MARK: Classes

  private mutating func characterClass() throws(Pattern.Problem) -> PatternSet {
    let isNegative = take("^")
    var items: [PatternSet.Item] = []
    while !take("]") {
      let first = try classItem()
      // A hyphen at the end, or beside a set, stands for itself.
      let isRange = next == 0x2D && index + 1 < source.count && source[index + 1] != 0x5D
      guard isRange, case .range(let low) = first else {
        items.append(first)
        continue
      }
      index += 1
      let second = try classItem()
      guard case .range(let high) = second else {
        items += [first, .range(0x2D...0x2D), second]
        continue
      }
      guard low.lowerBound <= high.lowerBound else {
        throw Pattern.Problem("it has a range that is out of order")
      }
      items.append(.range(low.lowerBound...high.lowerBound))
    }
    return PatternSet(items: items, isNegative: isNegative)
  }

  private mutating func classItem() throws(Pattern.Problem) -> PatternSet.Item {
    guard let point = next else { throw Pattern.Problem("it leaves a class open") }
    index += 1
    guard point == 0x5C else { return .range(point...point) }
    let set = try escape(inClass: true)
    if set.items.count == 1, !set.isNegative, case .range(let range) = set.items[0],
      range.count == 1
    {
      return .range(range)
    }
    return .set(set)
  }

  // MARK: Escapes, behind the backslash

  private mutating func escape(inClass: Bool) throws(Pattern.Problem) -> PatternSet {
    guard let point = next else { throw Pattern.Problem("it ends with a backslash") }
    index += 1
    switch Character(Unicode.Scalar(point) ?? "\u{0}") {
    case "d": return .digits
    case "D": return PatternSet.digits.inverted()
    case "w": return .word
    case "W": return PatternSet.word.inverted()
    case "s": return .space
    case "S": return PatternSet.space.inverted()
    case "p":
      return PatternSet(items: [.property(try property(), isNegative: false)], isNegative: false)
    case "P":
      return PatternSet(items: [.property(try property(), isNegative: true)], isNegative: false)
    case "t": return PatternSet(0x09)
    case "n": return PatternSet(0x0A)
    case "v": return PatternSet(0x0B)
    case "f": return PatternSet(0x0C)
    case "r": return PatternSet(0x0D)
    case "b" where inClass: return PatternSet(0x08)
    case "c": return PatternSet(try controlLetter())
    case "x":
      guard let value = hex(2) else { throw Pattern.Problem("it has an incomplete \\x") }
      return PatternSet(value)
    case "u": return PatternSet(try codePoint())
    case "0" where next.map { !(0x30...0x39).contains($0) } ?? true: return PatternSet(0)
    case "1"..."9" where !inClass, "k" where !inClass:
      throw Pattern.Problem("references back to groups are not served")
    default:
      guard Self.punctuation.contains(point) || !Self.isWordLike(point) else {
        throw Pattern.Problem("it has an unknown escape")
      }
      return PatternSet(point)
    }
  }

  private static func isWordLike(_ point: UInt32) -> Bool { PatternSet.word.contains(point) }

  private mutating func property() throws(Pattern.Problem) -> PatternProperty {
    guard take("{"), let end = source[index...].firstIndex(of: 0x7D) else {
      throw Pattern.Problem("it has a property without a name")
    }
    let name = String(
      String.UnicodeScalarView(source[index..<end].compactMap { Unicode.Scalar($0) })
    )
    index = end + 1
    guard let property = PatternProperty(named: name) else {
      throw Pattern.Problem("the property \(name.prefix(60)) is not served")
    }
    return property
  }

  private mutating func controlLetter() throws(Pattern.Problem) -> UInt32 {
    guard let letter = next, (0x41...0x5A).contains(letter & ~0x20) else {
      throw Pattern.Problem("it has a \\c without a letter")
    }
    index += 1
    return letter & 0x1F
  }

  private mutating func hex(_ count: Int) -> UInt32? {
    guard index + count <= source.count else { return nil }
    var value: UInt32 = 0
    for point in source[index..<index + count] {
      guard let digit = Unicode.Scalar(point).flatMap({ Character($0).hexDigitValue }), point < 0x80
      else { return nil }
      value = value << 4 | UInt32(digit)
    }
    index += count
    return value
  }

  private mutating func codePoint() throws(Pattern.Problem) -> UInt32 {
    if take("{") {
      guard let end = source[index...].firstIndex(of: 0x7D), end > index, end - index <= 8,
        let value = hex(end - index), value <= 0x10_FFFF, take("}")
      else { throw Pattern.Problem("it has a \\u{} that is no code point") }
      return value
    }
    guard let unit = hex(4) else { throw Pattern.Problem("it has an incomplete \\u") }
    guard (0xD800...0xDBFF).contains(unit) else { return unit }
    let start = index
    guard take("\\u"), let low = hex(4), (0xDC00...0xDFFF).contains(low) else {
      index = start
      return unit
    }
    return 0x1_0000 + (unit - 0xD800) << 10 + (low - 0xDC00)
  }
}
