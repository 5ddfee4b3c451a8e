/// The lines of one file, with those around the ones that are found.
struct GrepFile: Sendable {
  /// A line, or a part of one that is too long to be looked at as a whole.
  struct Line {
    var bytes: ArraySlice<UInt8>
    /// Whether it is a further part of the line before it.
    var continues: Bool
  }

  private static let longest = 1 << 20

  let name: String
  let context: Int
  /// Whether the line that was shown last, or a part of it, was found.
  private(set) var hasFound = false
  private var waiting: [UInt8] = []
  private var goesOn = false
  private var number = 0
  private var before: [(number: Int, line: [UInt8])] = []
  private var after = 0
  private var lastShown = 0

  init(name: String, context: Int) {
    self.name = name
    self.context = context
  }

  /// Takes bytes, none at the end of the file, and returns the lines that are complete.
  mutating func take(_ piece: [UInt8]) -> [Line] {
    var lines: [Line] = []
    var start = 0
    var searched = waiting.count
    waiting += piece
    while let end = waiting[searched...].firstIndex(of: 0x0A) {
      lines.append(Line(bytes: waiting[start..<end], continues: goesOn))
      goesOn = false
      start = end + 1
      searched = start
    }
    if start < waiting.count, piece.isEmpty || waiting.count - start > Self.longest {
      var end = waiting.count
      if !piece.isEmpty {
        // Not within a character.
        while end > start + 1, end > waiting.count - 3, waiting[end - 1] & 0xC0 == 0x80 { end -= 1 }
        if end > start + 1, waiting[end - 1] >= 0xC0 { end -= 1 }
      }
      lines.append(Line(bytes: waiting[start..<end], continues: goesOn))
      goesOn = true
      start = end
    }
    waiting = Array(waiting[start...])
    return lines
  }

  /// What is shown once this line is known.
  mutating func show(
    _ line: Line,
    isMatch: Bool,
    longest: Int
  ) -> [(text: String, isCut: Bool)] {
    if !line.continues {
      number += 1
      hasFound = false
    }
    var shown: [(text: String, isCut: Bool)] = []
    if isMatch {
      hasFound = true
      if context > 0, lastShown > 0, number - before.count > lastShown + 1 {
        shown.append(("--", false))
      }
      // The beginning of the line itself may be among those before it.
      for (number, line) in before where number < self.number {
        shown.append(text(number, line[...], "-", longest))
      }
      before = []
      shown.append(text(number, line.bytes, ":", longest))
      after = context
      lastShown = number
    } else if line.continues {
      return []
    } else if after > 0 {
      after -= 1
      shown.append(text(number, line.bytes, "-", longest))
      lastShown = number
    } else if context > 0 {
      // A copy, because a slice would keep all that was read with it.
      before.append((number, Array(line.bytes.prefix(longest + 4))))
      if before.count > context { before.removeFirst() }
    }
    return shown
  }

  private func text(
    _ number: Int,
    _ line: ArraySlice<UInt8>,
    _ sign: String,
    _ longest: Int
  ) -> (text: String, isCut: Bool) {
    var end = line.startIndex + min(line.count, longest)
    while end > line.startIndex, end < line.endIndex, line[end] & 0xC0 == 0x80 { end -= 1 }
    var part = line[..<end]
    if part.last == 0x0D { part.removeLast() }
    let isCut = end < line.endIndex
    let text = String(decoding: part, as: UTF8.self) + (isCut ? "…" : "")
    return ("\(name)\(sign)\(number)\(sign)\(text)", isCut)
  }
}
