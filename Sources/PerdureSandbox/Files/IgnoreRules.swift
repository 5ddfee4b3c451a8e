import PerdureValue

/// What the files of one `.gitignore` say about the names below its folder.
struct IgnoreRules: Sendable {
  /// How many rules count of all files that say something about a folder.
  static let most = 10_000
  /// Longer ones do not count; they would fit hardly any name, and take long to find that out.
  private static let longest = 1_000

  private enum Names: Sendable {
    /// A name or path without anything special.
    case exactly([UInt8])
    /// A name that ends so.
    case ending([UInt8])
    case pattern(GlobPattern)

    init(_ text: [UInt8]) {
      let isSpecial = { (byte: UInt8) in "*?[\\".utf8.contains(byte) }
      if !text.contains(where: isSpecial) {
        self = .exactly(text)
      } else if text.first == UInt8(ascii: "*"), !text.dropFirst().contains(where: isSpecial) {
        self = .ending(Array(text.dropFirst()))
      } else {
        self = .pattern(GlobPattern(String(decoding: text, as: UTF8.self)))
      }
    }

    func fits(_ text: String) -> Bool {
      switch self {
      case .exactly(let bytes): text.utf8.elementsEqual(bytes)
      case .ending(let bytes):
        text.utf8.count >= bytes.count && text.utf8.suffix(bytes.count).elementsEqual(bytes)
          && !text.utf8.dropLast(bytes.count).contains(UInt8(ascii: "/"))
      case .pattern(let pattern): pattern.fits(text)
      }
    }
  }

  private struct Rule: Sendable {
    var names: Names
    var isNegative: Bool
    var isForFolders: Bool
    /// Whether the whole path below the folder counts, not just the last name.
    var isAnchored: Bool
  }

  private var rules: [Rule] = []

  /// How many there are.
  var count: Int { rules.count }

  /// Reads the lines of a file, and no more rules than there is room for.
  init(_ text: String, room: Int = IgnoreRules.most) {
    for line in text.utf8.split(separator: 0x0A) {
      guard rules.count < room else { return }
      if let rule = Self.rule(line) { rules.append(rule) }
    }
  }

  private static func rule(_ line: Substring.UTF8View) -> Rule? {
    guard line.count <= longest else { return nil }
    var text = Array(line)
    if text.last == UInt8(ascii: "\r") { text.removeLast() }
    if text.first == UInt8(ascii: "#") { return nil }
    // Spaces at the end mean nothing unless the last one is quoted.
    while text.last == UInt8(ascii: " "), text.dropLast().last != UInt8(ascii: "\\") {
      text.removeLast()
    }
    let isNegative = text.first == UInt8(ascii: "!")
    if isNegative { text.removeFirst() }
    let isForFolders = text.last == UInt8(ascii: "/")
    if isForFolders { text.removeLast() }
    guard !text.isEmpty else { return nil }
    let isAnchored = text.contains(UInt8(ascii: "/"))
    if text.first == UInt8(ascii: "/") { text.removeFirst() }
    return Rule(
      names: Names(text),
      isNegative: isNegative,
      isForFolders: isForFolders,
      isAnchored: isAnchored
    )
  }

  /// Whether something is ignored; `nil` if nothing is said about it.
  func decision(_ names: ArraySlice<String>, isFolder: Bool) -> Bool? {
    guard let name = names.last else { return nil }
    let path = names.joined(separator: "/")
    for rule in rules.reversed() {
      if rule.isForFolders, !isFolder { continue }
      if rule.names.fits(rule.isAnchored ? path : name) { return !rule.isNegative }
    }
    return nil
  }
}

/// All that is ignored in a work tree, from its root down to a folder.
struct IgnoreChain: Sendable {
  /// The rules and how many names lead from the root of the environment to their folder.
  private var levels: [(depth: Int, rules: IgnoreRules)] = []

  mutating func add(_ text: String, depth: Int) {
    let room = IgnoreRules.most - levels.reduce(0) { $0 + $1.rules.count }
    levels.append((depth, IgnoreRules(text, room: room)))
  }

  /// Whether something is ignored whose folders are not; the deepest rule decides.
  func ignores(_ names: [String], isFolder: Bool) -> Bool {
    for level in levels.reversed() {
      guard level.depth < names.count else { continue }
      if let decision = level.rules.decision(names[level.depth...], isFolder: isFolder) {
        return decision
      }
    }
    return false
  }
}
