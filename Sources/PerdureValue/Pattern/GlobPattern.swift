/// A pattern for paths, with `*`, `?`, `[…]` and `**`.
///
/// `*` and `?` do not fit `/`; `**` between slashes fits any number of folders. The time is bounded by
/// the length of the path times that of the pattern.
package struct GlobPattern: Sendable {
  private enum Token: Sendable {
    case one(UInt32)
    case anyOne
    case anyRun
    /// Nothing, or names that each end with a slash.
    case folders
    /// Everything, slashes too.
    case everything
    case set([ClosedRange<UInt32>], isNegative: Bool)
  }

  private static let slash = UInt32(UInt8(ascii: "/"))
  private let tokens: [Token]

  /// Reads a pattern; what is no pattern, such as a `[` without its end, means itself.
  package init(_ text: String) {
    let source = text.unicodeScalars.map(\.value)
    var tokens: [Token] = []
    var index = 0
    while index < source.count {
      if let folders = Self.stars(source, &index) {
        tokens.append(folders)
      } else if source[index] == UInt32(UInt8(ascii: "[")),
        let set = Self.set(source, &index)
      {
        tokens.append(set)
      } else {
        tokens.append(Self.single(source, &index))
      }
    }
    self.tokens = tokens
  }

  private static func single(_ source: [UInt32], _ index: inout Int) -> Token {
    defer { index += 1 }
    switch UInt8(exactly: source[index]) {
    case UInt8(ascii: "?"): return .anyOne
    case UInt8(ascii: "*"): return .anyRun
    case UInt8(ascii: "\\") where index + 1 < source.count:
      index += 1
      return .one(source[index])
    default: return .one(source[index])
    }
  }

  /// Reads two stars that stand for folders, or for everything.
  private static func stars(_ source: [UInt32], _ index: inout Int) -> Token? {
    let star = UInt32(UInt8(ascii: "*"))
    guard source[index...].starts(with: [star, star]),
      index == 0 || source[index - 1] == slash
    else { return nil }
    if index + 2 == source.count {
      index += 2
      return .everything
    }
    guard source[index + 2] == slash else { return nil }
    index += 3
    return .folders
  }

  private static func set(_ source: [UInt32], _ index: inout Int) -> Token? {
    let close = UInt32(UInt8(ascii: "]"))
    var at = index + 1
    var isNegative = false
    if at < source.count,
      source[at] == UInt32(UInt8(ascii: "!")) || source[at] == UInt32(UInt8(ascii: "^"))
    {
      isNegative = true
      at += 1
    }
    var ranges: [ClosedRange<UInt32>] = []
    let first = at
    while at < source.count, source[at] != close || at == first {
      if source[at] == UInt32(UInt8(ascii: "\\")), at + 1 < source.count { at += 1 }
      let low = source[at]
      var high = low
      if at + 2 < source.count, source[at + 1] == UInt32(UInt8(ascii: "-")),
        source[at + 2] != close
      {
        high = source[at + 2]
        at += 2
      }
      if low <= high { ranges.append(low...high) }
      at += 1
    }
    guard at < source.count else { return nil }
    index = at + 1
    return .set(ranges, isNegative: isNegative)
  }

  /// Whether the whole path fits.
  package func fits(_ path: String) -> Bool {
    // A state is the number of the next token; those behind are in the middle of a folder's name.
    let count = tokens.count
    var states = [Bool](repeating: false, count: 2 * count + 1)
    states[0] = true
    close(&states)
    for scalar in path.unicodeScalars {
      var next = [Bool](repeating: false, count: 2 * count + 1)
      var isAlive = false
      for state in 0..<count where states[state] {
        if let target = step(state, scalar.value) {
          next[target] = true
          isAlive = true
        }
      }
      for state in 0..<count where states[count + 1 + state] {
        next[scalar.value == Self.slash ? state : count + 1 + state] = true
        isAlive = true
      }
      if !isAlive { return false }
      close(&next)
      states = next
    }
    return states[count]
  }

  /// Adds the states that are reached without a character.
  private func close(_ states: inout [Bool]) {
    for state in tokens.indices where states[state] {
      switch tokens[state] {
      case .anyRun, .folders, .everything: states[state + 1] = true
      default: break
      }
    }
  }

  private func step(_ state: Int, _ scalar: UInt32) -> Int? {
    switch tokens[state] {
    case .one(let expected): scalar == expected ? state + 1 : nil
    case .anyOne: scalar == Self.slash ? nil : state + 1
    case .anyRun: scalar == Self.slash ? nil : state
    case .everything: state
    case .folders: scalar == Self.slash ? nil : tokens.count + 1 + state
    case .set(let ranges, let isNegative):
      scalar != Self.slash && ranges.contains { $0.contains(scalar) } != isNegative
        ? state + 1 : nil
    }
  }

  /// The patterns that one with alternatives in braces stands for, at most `limit` of them.
  package static func expanded(_ text: String, limit: Int = 64) -> [String] {
    var done: [String] = []
    var waiting = [text]
    while let next = waiting.popLast() {
      guard done.count + waiting.count < limit, let parts = alternatives(of: next) else {
        done.append(next)
        continue
      }
      waiting += parts.reversed()
    }
    return done
  }

  /// The first braces without further ones in them, written out.
  private static func alternatives(of text: String) -> [String]? {
    let bytes = Array(text.utf8)
    var open: Int?
    for (index, byte) in bytes.enumerated() {
      if byte == UInt8(ascii: "{") { open = index }
      guard byte == UInt8(ascii: "}"), let start = open else { continue }
      let choices = bytes[(start + 1)..<index].split(
        separator: UInt8(ascii: ","),
        omittingEmptySubsequences: false
      )
      guard choices.count > 1 else { return nil }
      return choices.map { choice in
        String(decoding: bytes[..<start] + choice + bytes[(index + 1)...], as: UTF8.self)
      }
    }
    return nil
  }
}
