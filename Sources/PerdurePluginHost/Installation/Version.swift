/// A version of the form of https://semver.org, for comparison.
struct Version: Comparable {
  private var numbers: [Substring]
  private var words: [Substring]

  /// Makes a version of a text that has the form.
  init(_ text: String) {
    let plain = text.prefix { $0 != "+" }
    let parts = plain.split(separator: "-", maxSplits: 1)
    numbers = parts.first?.split(separator: ".") ?? []
    words = parts.count == 2 ? parts[1].split(separator: ".") : []
  }

  static func == (left: Version, right: Version) -> Bool { !(left < right) && !(right < left) }

  static func < (left: Version, right: Version) -> Bool {
    for (one, other) in zip(left.numbers, right.numbers) where one != other {
      return isLess(one, other)
    }
    // A version without a tail comes after those with one.
    if left.words.isEmpty || right.words.isEmpty {
      return !left.words.isEmpty && right.words.isEmpty
    }
    for (one, other) in zip(left.words, right.words) where one != other {
      switch (isNumber(one), isNumber(other)) {
      case (true, true): return isLess(one, other)
      case (true, false): return true
      case (false, true): return false
      case (false, false): return Array(one.utf8).lexicographicallyPrecedes(Array(other.utf8))
      }
    }
    return left.words.count < right.words.count
  }

  // Numbers have any length, so they are compared as texts without leading zeros.
  private static func isLess(_ one: Substring, _ other: Substring) -> Bool {
    let (one, other) = (one.drop { $0 == "0" }, other.drop { $0 == "0" })
    if one.utf8.count != other.utf8.count { return one.utf8.count < other.utf8.count }
    return Array(one.utf8).lexicographicallyPrecedes(Array(other.utf8))
  }

  private static func isNumber(_ word: Substring) -> Bool {
    word.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
  }
}
