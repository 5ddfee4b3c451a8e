import PerdureModel
import PerdureValue

/// What changes make different, line by line, for people and for programs.
struct EditDiff: Sendable {
  /// The lines with their numbers.
  private(set) var display = ""
  /// The form that `patch` reads.
  private(set) var patch: String
  /// The first line that is different, from 1.
  private(set) var firstChangedLine: Int?

  private static let context = 4
  private static let mostLines = 4_000

  /// Lines that others take the place of.
  private struct Block {
    /// The number of the first line, from 0.
    var line: Int
    var old: [ArraySlice<UInt8>]
    var new: [ArraySlice<UInt8>]
  }

  private let lines: Lines
  private var shift = 0
  private var shown = 0

  /// Takes a text of LF lines and what is changed in it.
  init(_ text: [UInt8], _ changes: [TextChange], path: String) {
    lines = Lines(text)
    patch = "--- \(path)\n+++ \(path)\n"
    let blocks = Self.blocks(text, lines, changes)
    firstChangedLine = blocks.first.map { $0.line + 1 }
    var group: [Block] = []
    for block in blocks {
      if let last = group.last, block.line - (last.line + last.old.count) > 2 * Self.context {
        add(group)
        group = []
      }
      group.append(block)
    }
    if !group.isEmpty { add(group) }
    if shown > Self.mostLines { display += "… the rest is left out\n" }
  }

  /// The lines of a text, with their LF; what is kept of each is where it begins.
  private struct Lines {
    private let text: [UInt8]
    private var starts: [UInt32] = []

    init(_ text: [UInt8]) {
      self.text = text
      var start = 0
      while start < text.count {
        starts.append(UInt32(clamping: start))
        start = text[start...].firstIndex(of: 0x0A).map { $0 + 1 } ?? text.count
      }
    }

    var count: Int { starts.count }

    subscript(line: Int) -> ArraySlice<UInt8> {
      text[Int(starts[line])..<(line + 1 < count ? Int(starts[line + 1]) : text.count)]
    }
  }

  /// The lines with their LF.
  private static func lines(of text: ArraySlice<UInt8>) -> [ArraySlice<UInt8>] {
    var lines: [ArraySlice<UInt8>] = []
    var start = text.startIndex
    while start < text.endIndex {
      let end = text[start...].firstIndex(of: 0x0A).map { $0 + 1 } ?? text.endIndex
      lines.append(text[start..<end])
      start = end
    }
    return lines
  }

  /// The blocks of whole lines that the changes touch.
  private static func blocks(
    _ text: [UInt8],
    _ lines: Lines,
    _ changes: [TextChange]
  ) -> [Block] {
    var blocks: [Block] = []
    var index = 0
    var line = 0
    while index < changes.count {
      while line + 1 < lines.count, lines[line].endIndex <= changes[index].range.lowerBound {
        line += 1
      }
      let start = line < lines.count ? lines[line].startIndex : text.count
      var last = line
      var new: [UInt8] = []
      var place = start
      // Changes that touch the same lines make one block.
      repeat {
        let change = changes[index]
        new += text[place..<change.range.lowerBound]
        new += change.text
        place = change.range.upperBound
        while last < lines.count, lines[last].endIndex <= max(place, start + 1) - 1 { last += 1 }
        // What lost its end of line goes on with the line behind it.
        let isOpen = new.last.map { $0 != 0x0A } ?? false
        if isOpen, last + 1 < lines.count, lines[last].endIndex == place { last += 1 }
        index += 1
      } while index < changes.count && last < lines.count
        && changes[index].range.lowerBound < lines[last].endIndex
      let end = last < lines.count ? lines[last].endIndex : text.count
      new += text[place..<end]
      let old = lines.count == 0 ? [] : (line...min(last, lines.count - 1)).map { lines[$0] }
      blocks.append(trimmed(Block(line: line, old: old, new: Self.lines(of: new[...]))))
      line = min(last + 1, max(lines.count - 1, 0))
    }
    return blocks.filter { !$0.old.isEmpty || !$0.new.isEmpty }
  }

  /// Without the lines that are equal at its beginning and end.
  private static func trimmed(_ block: Block) -> Block {
    var block = block
    while let old = block.old.first, let new = block.new.first, old.elementsEqual(new) {
      block.old.removeFirst()
      block.new.removeFirst()
      block.line += 1
    }
    while let old = block.old.last, let new = block.new.last, old.elementsEqual(new) {
      block.old.removeLast()
      block.new.removeLast()
    }
    return block
  }

  private mutating func add(_ group: [Block]) {
    guard let first = group.first, let last = group.last else { return }
    let start = max(0, first.line - Self.context)
    let end = min(lines.count, last.line + last.old.count + Self.context)
    let newStart = start + shift
    var body = ""
    var newCount = 0
    if !display.isEmpty { display += "…\n" }
    var line = start
    func keep(to next: Int, _ diff: inout EditDiff) {
      while line < next {
        diff.show(" ", line + diff.shift, diff.lines[line], &body)
        newCount += 1
        line += 1
      }
    }
    for block in group {
      keep(to: block.line, &self)
      for (offset, text) in block.old.enumerated() { show("-", block.line + offset, text, &body) }
      for (offset, text) in block.new.enumerated() {
        show("+", block.line + shift + offset, text, &body)
      }
      line = block.line + block.old.count
      newCount += block.new.count
      shift += block.new.count - block.old.count
    }
    keep(to: end, &self)
    let oldRange = Self.range(start, end - start)
    let newRange = Self.range(newStart, newCount)
    patch += "@@ -\(oldRange) +\(newRange) @@\n" + body
  }

  private static func range(_ start: Int, _ count: Int) -> String {
    // Where no lines are, the line before them is named.
    "\(count == 0 ? start : start + 1),\(count)"
  }

  private mutating func show(
    _ sign: String,
    _ number: Int,
    _ line: ArraySlice<UInt8>,
    _ body: inout String
  ) {
    let hasEnd = line.last == 0x0A
    let text = String(decoding: hasEnd ? line.dropLast() : line, as: UTF8.self)
    body += "\(sign)\(text)\n" + (hasEnd ? "" : "\\ No newline at end of file\n")
    shown += 1
    guard shown <= Self.mostLines else { return }
    let width = max(1, String(lines.count + max(shift, 0)).utf8.count)
    let shownNumber = String(number + 1)
    let padding = String(repeating: " ", count: max(0, width - shownNumber.utf8.count))
    display += "\(sign)\(padding)\(shownNumber) \(text)\n"
  }
}
