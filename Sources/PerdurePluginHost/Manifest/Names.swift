/// The forms of names at the border.
package enum Names {
  /// Whether `text` may be the id of a plugin: lower-case words joined by `.` or `-`.
  package static func isPluginID(_ text: String) -> Bool {
    guard text.utf8.count <= 64, let first = text.utf8.first, isLower(first) else { return false }
    var afterJoint = false
    for byte in text.utf8 {
      if byte == UInt8(ascii: ".") || byte == UInt8(ascii: "-") {
        if afterJoint { return false }
        afterJoint = true
      } else {
        guard isLower(byte) || isDigit(byte) else { return false }
        afterJoint = false
      }
    }
    return !afterJoint
  }

  /// Whether `text` may name a tool, phase, hook or step.
  static func isTool(_ text: String) -> Bool {
    isWord(text, limit: 64, also: [UInt8(ascii: "_"), UInt8(ascii: "-")])
  }

  /// Whether `text` may name a task type, document kind or entry kind.
  static func isKind(_ text: String) -> Bool {
    isWord(
      text,
      limit: 128,
      also: [UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-")]
    )
      && !isReserved(text)
  }

  /// Whether `text` may be the key of a section.
  static func isSectionKey(_ text: String) -> Bool {
    guard text.utf8.count <= 64, let first = text.utf8.first, isLower(first) else { return false }
    return text != "instructions"
      && text.utf8.allSatisfy {
        isLower($0) || isDigit($0) || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-")
      }
  }

  /// Whether `text` begins with what is kept for the core.
  package static func isReserved(_ text: String) -> Bool {
    text.hasPrefix("pi.") || text.hasPrefix("perdure.") || text == "pi" || text == "perdure"
  }

  /// Whether `text` is a version of the form of https://semver.org.
  static func isVersion(_ text: String) -> Bool {
    let withoutBuild = text.split(separator: "+", maxSplits: 1, omittingEmptySubsequences: false)
    let parts = withoutBuild[0].split(
      separator: "-",
      maxSplits: 1,
      omittingEmptySubsequences: false
    )
    let numbers = parts[0].split(separator: ".", omittingEmptySubsequences: false)
    guard text.utf8.count <= 128, numbers.count == 3 else { return false }
    for number in numbers {
      guard !number.isEmpty, number.utf8.allSatisfy(isDigit) else { return false }
      if number.utf8.count > 1, number.hasPrefix("0") { return false }
    }
    let tails = parts.dropFirst() + withoutBuild.dropFirst()
    return tails.allSatisfy { tail in
      tail.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { word in
        !word.isEmpty
          && word.utf8.allSatisfy { isLetter($0) || isDigit($0) || $0 == UInt8(ascii: "-") }
      }
    }
  }

  private static func isWord(_ text: String, limit: Int, also: [UInt8]) -> Bool {
    guard text.utf8.count <= limit, let first = text.utf8.first, isLetter(first) else {
      return false
    }
    return text.utf8.allSatisfy { isLetter($0) || isDigit($0) || also.contains($0) }
  }

  private static func isLower(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
  }

  private static func isLetter(_ byte: UInt8) -> Bool { isLower(byte | 0x20) }

  private static func isDigit(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
  }
}
