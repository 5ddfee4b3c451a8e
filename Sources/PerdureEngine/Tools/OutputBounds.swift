import PerdureModel

/// The rule that says which part of an output is shown: whole lines within two limits.
///
/// Limits count UTF-8 bytes and lines. A single line that is too long alone is cut on a character
/// boundary. All functions expect valid UTF-8, or for a tail a suffix of it.
struct OutputBounds: Sendable {
  // Large enough for any output, small enough that sums of two limits cannot overflow.
  private static let greatest = 1 << 40

  let maxBytes: Int
  let maxLines: Int
  let retain: OutputLimits.Retain

  init(_ limits: OutputLimits) {
    maxBytes = min(max(limits.maxBytes, 0), Self.greatest)
    maxLines = min(max(limits.maxLines, 0), Self.greatest)
    retain = limits.retain
  }

  /// The part of `data` that is shown.
  func range(of data: [UInt8]) -> Range<Int> {
    switch retain {
    case .head: headRange(of: data)
    case .tail: tailRange(of: data)
    }
  }

  /// Whether `data` alone is more than can be shown.
  func isExceeded(by data: [UInt8]) -> Bool {
    data.count > maxBytes || Self.lines(of: data[...]) > maxLines
  }

  private func headRange(of data: [UInt8]) -> Range<Int> {
    guard maxBytes > 0, maxLines > 0 else { return 0..<0 }
    var (lines, end) = (0, 0)
    for index in 0..<min(data.count, maxBytes) where data[index] == Self.newline {
      lines += 1
      end = index + 1
      if lines == maxLines { return 0..<end }
    }
    if data.count <= maxBytes { return 0..<data.count }
    if end > 0 { return 0..<end }
    end = maxBytes
    while end > 0, Self.continuesCharacter(data[end]) { end -= 1 }
    return 0..<end
  }

  private func tailRange(of data: [UInt8]) -> Range<Int> {
    guard maxBytes > 0, maxLines > 0 else { return data.count..<data.count }
    let first = max(0, data.count - maxBytes)
    var lines = 0
    var start: Int?
    // A trailing newline ends the last line rather than starting another. The byte before the
    // window counts too: a newline there makes the window begin with a whole line.
    var index = data.last == Self.newline ? data.count - 2 : data.count - 1
    while index >= max(0, first - 1) {
      if data[index] == Self.newline {
        start = index + 1
        lines += 1
        if lines == maxLines { return (index + 1)..<data.count }
      }
      index -= 1
    }
    if first == 0 { return 0..<data.count }
    if let start { return start..<data.count }
    var cut = first
    while cut < data.count, Self.continuesCharacter(data[cut]) { cut += 1 }
    return cut..<data.count
  }

  static let newline = UInt8(ascii: "\n")

  static func newlines(in data: ArraySlice<UInt8>) -> Int {
    var count = 0
    for byte in data where byte == newline { count += 1 }
    return count
  }

  /// Newlines and an unterminated last line.
  static func lines(of data: ArraySlice<UInt8>) -> Int {
    newlines(in: data) + (data.isEmpty || data.last == newline ? 0 : 1)
  }

  private static func continuesCharacter(_ byte: UInt8) -> Bool { byte & 0xC0 == 0x80 }
}
