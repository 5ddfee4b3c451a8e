import PerdureModel

/// How results speak of numbers and names.
enum Wording {
  /// `1 byte`, `2 bytes`.
  static func count(_ number: some BinaryInteger, _ noun: String) -> String {
    "\(number) \(noun)\(number == 1 ? "" : "s")"
  }

  /// A name or path in a list of one a line: in quotes, with escapes, where it would not stay one line
  /// or would look like another one.
  static func listed(_ name: String) -> String {
    guard name.hasPrefix("\"") || name.unicodeScalars.contains(where: isHidden) else { return name }
    var text = "\""
    for scalar in name.unicodeScalars {
      switch scalar {
      case "\"", "\\": text += "\\\(scalar)"
      case "\n": text += "\\n"
      case "\r": text += "\\r"
      case "\t": text += "\\t"
      case _ where isHidden(scalar):
        // As JSON has them, two for those beyond the first 65,536.
        for unit in String(scalar).utf16 {
          let digits = String(unit, radix: 16)
          text += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
        }
      default: text.unicodeScalars.append(scalar)
      }
    }
    return text + "\""
  }

  private static func isHidden(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .format, .lineSeparator, .paragraphSeparator: true
    default: false
    }
  }

  /// Adds advice that needs a shell to an error, where there is one.
  static func withShell(
    _ env: any Environment,
    _ hint: String,
    else other: String? = nil
  ) -> String? {
    env.runsCommands ? hint : other
  }
}
