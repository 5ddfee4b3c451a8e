import PerdureValue

/// What the files of one `.gitignore` say about the names below its folder.
struct IgnoreRules: Sendable {
  private struct Rule: Sendable {
    var pattern: GlobPattern
    var isNegative: Bool
    var isForFolders: Bool
    /// Whether the whole path below the folder counts, not just the last name.
    var isAnchored: Bool
  }

  private var rules: [Rule] = []

  /// Reads the lines of a file.
  init(_ text: String) {
    for line in text.split(separator: "\n") {
      if let rule = Self.rule(String(line)) { rules.append(rule) }
    }
  }

  private static func rule(_ line: String) -> Rule? {
    var text = Array(line.utf8)
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
      pattern: GlobPattern(String(decoding: text, as: UTF8.self)),
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
      if rule.pattern.fits(rule.isAnchored ? path : name) { return !rule.isNegative }
    }
    return nil
  }
}

/// All that is ignored in a work tree, from its root down to a folder.
struct IgnoreChain: Sendable {
  /// The rules and how many names lead from the root of the environment to their folder.
  private var levels: [(depth: Int, rules: IgnoreRules)] = []

  mutating func add(_ text: String, depth: Int) {
    levels.append((depth, IgnoreRules(text)))
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
