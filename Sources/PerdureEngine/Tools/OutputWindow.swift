package import PerdureModel
package import PerdureValue

/// The part of a tool's running output that is kept: its first or its last lines.
///
/// Taking a chunk costs time in proportion to the chunk, and no more than about two windows are
/// stored, however long the output grows. The result does not depend on how the output is cut into
/// chunks.
package struct OutputWindow: Sendable {
  /// What is kept of an output, and how much is not.
  package struct Retained: Sendable, Equatable {
    /// Whole lines, without the control characters that break displays and transcripts.
    package var text: String
    /// Bytes of the output outside the window.
    package var droppedBytes: Int
    /// Lines of the output outside the window.
    package var droppedLines: Int

    /// Whether anything was left out.
    package var truncated: Bool { droppedBytes > 0 }
  }

  private let bounds: OutputBounds
  private var decoder = UTF8Stream()
  private var hasStarted = false
  // A prefix of the output for a head, for a tail a suffix that is longer than the window by at
  // least a byte or a line, so that the first line of the next window can be found in it.
  private var stored: [UInt8] = []
  private var storedNewlines = 0
  private var totalBytes = 0
  private var totalNewlines = 0
  private var endsWithNewline = true

  /// Makes the window of an output that is still empty.
  package init(limits: OutputLimits) { bounds = OutputBounds(limits) }

  /// How many bytes are held at the moment.
  package var storedBytes: Int { stored.count }

  /// Takes text; a lone surrogate in it counts as U+FFFD.
  ///
  /// `skipped` is output that the producer left out immediately before. Throws `invalidInput`, and
  /// takes nothing, when that is not allowed here.
  package mutating func append(
    text: JSONString,
    skipped: SkippedOutput? = nil
  ) throws(PerdureError) {
    let data = Array(text.string.utf8)
    try check(skipped, before: data)
    accept(decoder.flush())
    skip(skipped)
    accept(data)
  }

  /// Takes bytes, which are decoded as UTF-8 across chunks.
  ///
  /// A byte order mark at the start of the output is dropped. Skips are as for text.
  package mutating func append(
    bytes: [UInt8],
    skipped: SkippedOutput? = nil
  ) throws(PerdureError) {
    var next = decoder
    let waiting = skipped == nil ? [] : next.flush()
    var data = next.decode(bytes)
    try check(skipped, before: data)
    decoder = next
    accept(waiting)
    skip(skipped)
    if !hasStarted, data.starts(with: [0xEF, 0xBB, 0xBF]) {
      hasStarted = true
      data.removeFirst(3)
    }
    accept(data)
  }

  /// Ends the output: a character that is still incomplete becomes U+FFFD.
  package mutating func finish() { accept(decoder.flush()) }

  /// Returns what is kept of the output so far.
  package func retained() -> Retained {
    let range = bounds.range(of: stored)
    let lines = totalNewlines + (endsWithNewline ? 0 : 1)
    return Retained(
      text: Self.withoutControlCharacters(stored[range]),
      droppedBytes: totalBytes - range.count,
      droppedLines: lines - OutputBounds.lines(of: stored[range])
    )
  }

  private func check(_ skipped: SkippedOutput?, before data: [UInt8]) throws(PerdureError) {
    guard let skipped else { return }
    guard bounds.retain == .tail else {
      throw PerdureError(
        .invalidInput,
        "output was skipped for a tool that keeps the beginning of its output",
        hint: "skip output only when the call has an output window"
      )
    }
    guard skipped.bytes >= 0, (0...skipped.bytes).contains(skipped.newlines),
      !skipped.endsWithNewline || skipped.newlines > 0
    else {
      throw PerdureError(
        .invalidInput,
        "skipped output has \(skipped.newlines) newlines in \(skipped.bytes) bytes",
        hint: "count the bytes and newlines of the text that was left out"
      )
    }
    guard skipped.bytes == 0 || bounds.isExceeded(by: data) else {
      throw PerdureError(
        .invalidInput,
        "a chunk after skipped output does not exceed the output window",
        hint: "send at least a byte or a line more than the window holds"
      )
    }
  }

  private mutating func skip(_ skipped: SkippedOutput?) {
    guard let skipped else { return }
    hasStarted = true
    guard skipped.bytes > 0 else { return }
    add(bytes: skipped.bytes, newlines: skipped.newlines)
    endsWithNewline = skipped.endsWithNewline
    stored.removeAll(keepingCapacity: true)
    storedNewlines = 0
  }

  private mutating func add(bytes: Int, newlines: Int) {
    func sum(_ left: Int, _ right: Int) -> Int {
      let (value, overflow) = left.addingReportingOverflow(right)
      return overflow ? .max : value
    }
    totalBytes = sum(totalBytes, bytes)
    totalNewlines = sum(totalNewlines, newlines)
  }

  private mutating func accept(_ data: [UInt8]) {
    guard let last = data.last else { return }
    hasStarted = true
    let newlines = OutputBounds.newlines(in: data[...])
    let wasFull = stored.count > bounds.maxBytes || totalNewlines >= bounds.maxLines
    add(bytes: data.count, newlines: newlines)
    endsWithNewline = last == OutputBounds.newline
    switch bounds.retain {
    case .head:
      // Nothing behind a full window is ever needed.
      if !wasFull { stored += data.prefix(bounds.maxBytes + 1 - stored.count) }
    case .tail: store(data, newlines: newlines)
    }
  }

  private mutating func store(_ data: [UInt8], newlines: Int) {
    let margin = bounds.maxBytes + 1
    if data.count > margin {
      stored = Array(data.suffix(margin))
      storedNewlines = OutputBounds.newlines(in: stored[...])
    } else {
      stored += data
      storedNewlines += newlines
    }
    // Only after as much has arrived as is kept, so that trimming costs no more than appending.
    if stored.count > 2 * margin + Self.slack {
      stored.removeFirst(stored.count - margin)
      storedNewlines = OutputBounds.newlines(in: stored[...])
    }
    if storedNewlines > 2 * (bounds.maxLines + 1) + Self.slack { trimLines() }
  }

  private static let slack = 64

  private mutating func trimLines() {
    var (index, newlines) = (stored.count, 0)
    while index > 0, newlines <= bounds.maxLines {
      index -= 1
      if stored[index] == OutputBounds.newline { newlines += 1 }
    }
    stored.removeFirst(index)
    storedNewlines = newlines
  }

  private static func withoutControlCharacters(_ data: ArraySlice<UInt8>) -> String {
    var kept: [UInt8] = []
    kept.reserveCapacity(data.count)
    for byte in data {
      switch byte {
      case 0x09, 0x0A: kept.append(byte)
      case 0..<0x20: break
      // U+FFF9 to U+FFFB are EF BF B9 to EF BF BB.
      case 0xB9...0xBB where kept.suffix(2) == [0xEF, 0xBF]: kept.removeLast(2)
      default: kept.append(byte)
      }
    }
    return String(decoding: kept, as: UTF8.self)
  }
}

extension OutputWindow {
  /// Content items within the limits, and how much of their text is not among them.
  package struct BoundedContent: Sendable, Equatable {
    /// The items.
    package var content: [JSON]
    /// Bytes that were left out.
    package var droppedBytes: Int
    /// Lines that were left out.
    package var droppedLines: Int

    /// Whether anything was left out.
    package var truncated: Bool { droppedBytes > 0 }
  }

  /// Returns result content whose joined text keeps the limits; other items stay.
  ///
  /// When text must be left out, one item at the place of the first text (head) or of the last
  /// (tail) holds the rest of all of them.
  package static func bound(_ content: [JSON], limits: OutputLimits) -> BoundedContent {
    let positions = content.indices.filter { text(of: content[$0]) != nil }
    var joined: [UInt8] = []
    for position in positions { joined += text(of: content[position])?.string.utf8 ?? "".utf8 }
    let range = OutputBounds(limits).range(of: joined)
    let place = limits.retain == .head ? positions.first : positions.last
    guard range.count < joined.count, let place, var item = content[place].object else {
      return BoundedContent(content: content, droppedBytes: 0, droppedLines: 0)
    }
    item["text"] = .string(String(decoding: joined[range], as: UTF8.self))
    let bounded = content.indices.compactMap { position -> JSON? in
      if position == place { return .object(item) }
      return text(of: content[position]) == nil ? content[position] : JSON?.none
    }
    return BoundedContent(
      content: bounded,
      droppedBytes: joined.count - range.count,
      droppedLines: OutputBounds.lines(of: joined[...]) - OutputBounds.lines(of: joined[range])
    )
  }

  private static func text(of item: JSON) -> JSONString? {
    item["type"] == "text" ? item["text"]?.string : nil
  }
}
