/// The waiting time that a provider asks for, in each form in which providers ask.
package enum RetryDelay {
  /// Returns the milliseconds that the header fields or the text ask for.
  package static func milliseconds(
    field: (String) -> String?,
    text: String,
    now: Int64
  ) -> Int64? {
    if let value = field("retry-after-ms"), let delay = number(value, scale: 1) { return delay }
    if let value = field("retry-after") {
      if let delay = number(value, scale: 1000) { return delay }
      if let date = HTTPDate.milliseconds(value) { return max(0, date - now) }
    }
    return inText(text)
  }

  /// Reads "try again in 1m2.5s" and the like.
  static func inText(_ text: String) -> Int64? {
    let text = text.lowercased()
    guard let range = text.firstRange(of: "try again in ") else { return nil }
    var rest = text[range.upperBound...]
    var total: Int64?
    while let (value, after) = leadingNumber(rest) {
      let unit = after.prefix { $0.isLetter }
      let scale: Double
      switch unit {
      case "ms", "millisecond", "milliseconds": scale = 1
      case "s", "sec", "second", "seconds": scale = 1000
      case "m", "min", "minute", "minutes": scale = 60_000
      case "h", "hour", "hours": scale = 3_600_000
      default: return total
      }
      guard let part = milliseconds(value * scale) else { return total }
      total = (total ?? 0) + part
      rest = after.dropFirst(unit.count)
    }
    // "5 seconds": a space between number and unit.
    if total == nil, let space = rest.firstIndex(of: " "), rest[..<space].allSatisfy(\.isNumber) {
      return inText("try again in \(rest[..<space])\(rest[rest.index(after: space)...])")
    }
    return total
  }

  private static func leadingNumber(_ text: Substring) -> (Double, Substring)? {
    let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
    guard !digits.isEmpty, let value = Double(digits), digits.count < text.count else {
      return nil
    }
    guard text[digits.endIndex].isLetter else { return nil }
    return (value, text[digits.endIndex...])
  }

  private static func number(_ text: String, scale: Double) -> Int64? {
    Double(text.trimmed).flatMap { milliseconds($0 * scale) }
  }

  private static func milliseconds(_ value: Double) -> Int64? {
    guard value.isFinite, value >= 0, value < 1e15 else { return nil }
    return Int64(value.rounded(.up))
  }
}

/// Dates as HTTP writes them: `Wed, 21 Oct 2026 07:28:00 GMT`.
package enum HTTPDate {
  private static let months = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
  ]

  /// Returns the milliseconds since 1970, or `nil` if `text` is no such date.
  package static func milliseconds(_ text: String) -> Int64? {
    let words = text.trimmed.split(separator: " ")
    guard words.count == 6, words[5] == "GMT", let day = Int64(words[1]), (1...31).contains(day),
      let month = months.firstIndex(of: words[2].lowercased()), let year = Int64(words[3]),
      (1970...9999).contains(year)
    else { return nil }
    let time = words[4].split(separator: ":").compactMap { Int64($0) }
    guard time.count == 3, (0...23).contains(time[0]), (0...59).contains(time[1]),
      (0...60).contains(time[2])
    else { return nil }
    let days = daysSince1970(year: year, month: Int64(month) + 1, day: day)
    return (((days * 24 + time[0]) * 60 + time[1]) * 60 + time[2]) * 1000
  }

  /// Counts days in years that begin in March, so that leap days come last.
  private static func daysSince1970(year: Int64, month: Int64, day: Int64) -> Int64 {
    let year = month <= 2 ? year - 1 : year
    let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    let leapDays = year / 4 - year / 100 + year / 400
    return year * 365 + leapDays + dayOfYear - 719_468
  }
}
