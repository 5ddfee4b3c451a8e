import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

@Suite struct OutputWindowTests {
  private func retained(
    _ text: String,
    bytes: Int = 51_200,
    lines: Int = 2_000,
    _ retain: OutputLimits.Retain
  ) throws -> OutputWindow.Retained {
    var window = OutputWindow(
      limits: OutputLimits(maxBytes: bytes, maxLines: lines, retain: retain)
    )
    try window.append(text: JSONString(text))
    return window.retained()
  }

  @Test(arguments: [
    ("a\nb\nc\n", 100, 2, OutputLimits.Retain.head, "a\nb\n", 2, 1),
    ("a\nb\nc\n", 100, 2, .tail, "b\nc\n", 2, 1),
    ("a\nb\nc", 100, 2, .tail, "b\nc", 2, 1),
    ("aaa\nbbb\n", 5, 9, .head, "aaa\n", 4, 1),
    ("aaa\nbbb\n", 5, 9, .tail, "bbb\n", 4, 1),
    ("aaaaaa", 4, 9, .head, "aaaa", 2, 0),
    ("aaaaab", 4, 9, .tail, "aaab", 2, 0),
    ("éé", 3, 9, .head, "é", 2, 0),
    ("éé", 3, 9, .tail, "é", 2, 0),
    ("abc", 0, 9, .head, "", 3, 1),
    ("abc", 9, 0, .tail, "", 3, 1),
    ("", 9, 9, .head, "", 0, 0),
  ])
  func `whole lines within both limits are kept`(
    text: String,
    bytes: Int,
    lines: Int,
    retain: OutputLimits.Retain,
    kept: String,
    droppedBytes: Int,
    droppedLines: Int
  ) throws {
    let result = try retained(text, bytes: bytes, lines: lines, retain)
    #expect(result.text == kept)
    #expect(result.droppedBytes == droppedBytes)
    #expect(result.droppedLines == droppedLines)
    #expect(result.truncated == (droppedBytes > 0))
  }

  @Test func `control characters leave the text but count as bytes`() throws {
    let result = try retained("a\u{0}\u{1B}[0m\r\n\t\u{FFF9}b\u{FFFB}", bytes: 100, .head)
    #expect(result.text == "a[0m\n\tb")
    #expect(result.droppedBytes == 0)
  }

  @Test func `a byte order mark is dropped at the start of bytes alone`() throws {
    var window = OutputWindow(limits: OutputLimits())
    try window.append(bytes: [0xEF])
    try window.append(bytes: [0xBB, 0xBF, 0x61])
    try window.append(bytes: [0xEF, 0xBB, 0xBF])
    #expect(window.retained().text == "a\u{FEFF}")

    var text = OutputWindow(limits: OutputLimits())
    try text.append(text: "\u{FEFF}a")
    #expect(text.retained().text == "\u{FEFF}a")
  }

  @Test func `text after an incomplete character replaces it`() throws {
    var window = OutputWindow(limits: OutputLimits())
    try window.append(bytes: [0xE2, 0x82])
    try window.append(text: "x")
    try window.append(bytes: [0xE2])
    window.finish()
    #expect(window.retained().text == "\u{FFFD}x\u{FFFD}")
  }

  @Test(arguments: [
    (SkippedOutput(bytes: 3, newlines: 4, endsWithNewline: false), OutputLimits.Retain.tail),
    (SkippedOutput(bytes: -1, newlines: 0, endsWithNewline: false), .tail),
    (SkippedOutput(bytes: 3, newlines: 0, endsWithNewline: true), .tail),
    (SkippedOutput(bytes: 3, newlines: 0, endsWithNewline: false), .head),
  ])
  func `an impossible skip is refused and takes nothing`(
    skipped: SkippedOutput,
    retain: OutputLimits.Retain
  ) throws {
    var window = OutputWindow(limits: OutputLimits(maxBytes: 4, maxLines: 9, retain: retain))
    try window.append(text: "ab")
    let before = window.retained()
    #expect(throws: PerdureError.self) {
      try window.append(text: "more than four", skipped: skipped)
    }
    #expect(window.retained() == before)
  }

  @Test func `a chunk that does not exceed the window cannot follow a skip`() throws {
    var window = OutputWindow(limits: OutputLimits(maxBytes: 4, maxLines: 9, retain: .tail))
    let skipped = SkippedOutput(bytes: 10, newlines: 0, endsWithNewline: false)
    #expect(throws: PerdureError.self) { try window.append(text: "abcd", skipped: skipped) }
    try window.append(text: "abcde", skipped: skipped)
    #expect(window.retained().droppedBytes == 11)
  }

  @Test func `any cutting into chunks equals truncating the whole`() throws {
    var random = SeededGenerator(for: "output chunks")
    for _ in 0..<Effort.choose(2_000, long: 60_000) {
      let limits = OutputLimits(
        maxBytes: random.int(0...30),
        maxLines: random.int(0...6),
        retain: random.chance(50) ? .head : .tail
      )
      var stream = ChunkedStream(limits: limits)
      for _ in 0..<random.int(0...25) { try stream.appendRandomChunk(using: &random) }
      stream.check()
      stream.window.finish()
      stream.endRun()
      stream.check()
    }
  }

  @Test(arguments: [OutputLimits.Retain.head, .tail])
  func `memory stays within about two windows`(retain: OutputLimits.Retain) throws {
    var window = OutputWindow(
      limits: OutputLimits(maxBytes: 1_000, maxLines: 10, retain: retain)
    )
    for size in [1, 10, 100, 1_000, 100_000] {
      let chunk = [UInt8](repeating: 0x61, count: size - 1) + [0x0A]
      for _ in 0..<100 {
        try window.append(bytes: chunk)
        #expect(window.storedBytes <= 2 * 1_001 + 64)
      }
    }
  }

  @Test func `result content within the limits is left as it is`() {
    let content: [JSON] = [["type": "text", "text": "a\n"], ["type": "image", "data": "x"]]
    let bounded = OutputWindow.bound(content, limits: OutputLimits(maxBytes: 2, maxLines: 1))
    #expect(bounded.content == content)
    #expect(!bounded.truncated)
  }

  @Test(arguments: [
    (OutputLimits.Retain.head, ["a\n", "", "I"]), (.tail, ["", "I", "c\n"]),
  ])
  func `text beyond the limits becomes one item`(
    retain: OutputLimits.Retain,
    expected: [String]
  ) {
    let content: [JSON] = [
      ["type": "text", "text": "a\n"], ["type": "text", "text": "b\n"],
      ["type": "image", "data": "x"], ["type": "text", "text": "c\n"],
    ]
    let bounded = OutputWindow.bound(
      content,
      limits: OutputLimits(maxBytes: 9, maxLines: 1, retain: retain)
    )
    let shown = bounded.content.map { $0["text"]?.text ?? "I" }
    #expect(shown == expected.filter { !$0.isEmpty })
    #expect(bounded.droppedBytes == 4)
    #expect(bounded.droppedLines == 2)
  }
}

/// A window and the whole stream that went into it, with an independent account of the result.
private struct ChunkedStream {
  let limits: OutputLimits
  var window: OutputWindow
  private var text: [UInt8] = []
  private var run: [UInt8] = []
  private var hasStarted = false

  init(limits: OutputLimits) {
    self.limits = limits
    window = OutputWindow(limits: limits)
  }

  mutating func appendRandomChunk(using random: inout SeededGenerator) throws {
    let alphabet = ["a", "b", "\n", "\n", "é", "€", "😀", "\u{1B}", "\u{FFFA}", "\u{FEFF}"]
    var piece = ""
    for _ in 0..<random.int(0...12) { piece += random.pick(alphabet) }
    if random.chance(40) {
      endRun()
      try window.append(text: JSONString(piece))
      text += piece.utf8
      if !piece.isEmpty { hasStarted = true }
      return
    }
    if limits.retain == .tail, random.chance(15) {
      piece += String(repeating: "x", count: limits.maxBytes + 1)
      var left = ""
      for _ in 0..<random.int(0...40) { left += random.pick(alphabet) }
      endRun()
      try window.append(
        bytes: Array(piece.utf8),
        skipped: SkippedOutput(
          bytes: left.utf8.count,
          newlines: left.utf8.filter { $0 == 0x0A }.count,
          endsWithNewline: left.utf8.last == 0x0A
        )
      )
      text += left.utf8
      run = Array(piece.utf8)
      hasStarted = true
      return
    }
    var bytes = Array(piece.utf8)
    if random.chance(20) { bytes.append(random.pick([0xFF, 0xE2, 0xF0, 0x80, 0xED, 0xA0])) }
    if random.chance(30), !bytes.isEmpty { bytes.removeLast() }
    let middle = random.int(0...bytes.count)
    try window.append(bytes: Array(bytes[..<middle]))
    try window.append(bytes: Array(bytes[middle...]))
    run += bytes
  }

  /// Decodes the bytes since the last text or skip as one.
  mutating func endRun() {
    var decoded = Array(String(decoding: run, as: UTF8.self).utf8)
    if !hasStarted, decoded.starts(with: [0xEF, 0xBB, 0xBF]) {
      decoded.removeFirst(3)
      hasStarted = true
    }
    if !decoded.isEmpty { hasStarted = true }
    text += decoded
    run = []
  }

  func check() {
    var whole = self
    whole.run = Self.completePart(of: run)
    whole.endRun()
    let lines = Self.lines(of: whole.text)
    let kept = Self.kept(of: lines, limits)
    let bytes = Array(kept.joined())
    let text = String(decoding: bytes, as: UTF8.self).unicodeScalars.filter {
      !(0...8).contains($0.value) && !(0x0B...0x1F).contains($0.value)
        && !(0xFFF9...0xFFFB).contains($0.value)
    }
    let retained = window.retained()
    #expect(retained.text == String(String.UnicodeScalarView(text)), "\(limits)")
    #expect(retained.droppedBytes == whole.text.count - bytes.count, "\(limits)")
    #expect(
      retained.droppedLines == lines.count - Self.lines(of: bytes).count,
      "\(limits)"
    )
  }

  /// The bytes without an end that more bytes could complete.
  private static func completePart(of bytes: [UInt8]) -> [UInt8] {
    for length in 1...3 where length <= bytes.count {
      let end = Array(bytes.suffix(length))
      guard end[0] >= 0xC2 else { continue }
      let completions: [[UInt8]] = [[0x80], [0x90], [0xA0]].flatMap { next in
        [[], [0x80], [0x80, 0x80]].map { next + $0 }
      }
      let afterTwo: [[UInt8]] = [[0x80], [0x80, 0x80]]
      if String(validating: end, as: UTF8.self) != nil { return bytes }
      if (completions + afterTwo).contains(where: {
        String(validating: end + $0, as: UTF8.self)?.unicodeScalars.count == 1
      }) {
        return Array(bytes.dropLast(length))
      }
    }
    return bytes
  }

  private static func lines(of bytes: [UInt8]) -> [[UInt8]] {
    var lines: [[UInt8]] = []
    var line: [UInt8] = []
    for byte in bytes {
      line.append(byte)
      if byte == 0x0A {
        lines.append(line)
        line = []
      }
    }
    return line.isEmpty ? lines : lines + [line]
  }

  private static func kept(of lines: [[UInt8]], _ limits: OutputLimits) -> [[UInt8]] {
    guard limits.maxBytes > 0, limits.maxLines > 0, !lines.isEmpty else { return [] }
    let isHead = limits.retain == .head
    var kept: [[UInt8]] = []
    for line in isHead ? lines : lines.reversed() {
      guard kept.count < limits.maxLines,
        kept.joined().count + line.count <= limits.maxBytes
      else { break }
      kept.append(line)
    }
    guard kept.isEmpty else { return isHead ? kept : kept.reversed() }
    let whole = String(decoding: (isHead ? lines.first : lines.last) ?? [], as: UTF8.self)
    var cut: [UInt8] = []
    for scalar in isHead ? Array(whole.unicodeScalars) : whole.unicodeScalars.reversed() {
      let bytes = Array(String(scalar).utf8)
      guard cut.count + bytes.count <= limits.maxBytes else { break }
      cut = isHead ? cut + bytes : bytes + cut
    }
    return [cut]
  }
}
