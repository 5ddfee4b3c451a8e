/// How often a plugin broke its promises.
struct StrikeCount: Sendable {
  private(set) var total = 0
  private var recent: [Int64] = []

  static let window: Int64 = 600_000_000_000
  static let limit = 20

  /// Counts one; returns whether it is to be reported, which a flood is not.
  mutating func add(at time: Int64) -> Bool {
    total += 1
    recent.removeAll { time - $0 > Self.window }
    guard recent.count < Self.limit else { return total.isMultiple(of: 1_000) }
    recent.append(time)
    return true
  }

  /// Whether there were so many lately that somebody should look at it.
  var isDegraded: Bool { recent.count >= Self.limit }
}

/// Bounds what a plugin may log.
struct LogBudget: Sendable {
  static let linesPerSecond = 1_000
  static let lineLimit = 8 << 10
  private var second: Int64 = -1
  private var lines = 0
  private(set) var dropped = 0

  /// Returns whether one more line may pass.
  mutating func take(at time: Int64) -> Bool {
    let now = time / 1_000_000_000
    if now != second {
      second = now
      lines = 0
    }
    lines += 1
    if lines > Self.linesPerSecond { dropped += 1 }
    return lines <= Self.linesPerSecond
  }

  /// Takes the number of lines that were left out.
  mutating func takeDropped() -> Int {
    defer { dropped = 0 }
    return dropped
  }
}
