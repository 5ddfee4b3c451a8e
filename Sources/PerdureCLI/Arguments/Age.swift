import Perdure

/// A span of time as people write it: `30d`, `12h`, `90m`, `45s`.
enum Age {
  private static let seconds: [Character: Int64] = [
    "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800,
  ]

  /// Returns the value of an option that must be a span of time, or `nil` without it.
  static func value(_ name: String, _ arguments: ParsedArguments) throws -> Duration? {
    guard let text = arguments.value(name) else { return nil }
    guard let unit = text.last.flatMap({ seconds[$0] }), let number = Int64(text.dropLast()),
      (0...1_000_000).contains(number)
    else {
      throw UsageError.make(
        "--\(name) cannot be '\(text)'",
        "give a whole number with s, m, h, d or w behind it, as in 30d"
      )
    }
    return .seconds(number * unit)
  }
}
