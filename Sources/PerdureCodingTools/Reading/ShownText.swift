import PerdureModel
import PerdureValue

/// The first whole lines of a text that can be shown, and what is left out.
struct ShownText: Sendable, Equatable {
  /// Which limit was reached.
  enum Limit: String, Sendable { case lines, bytes }

  var text: String
  var limit: Limit?
  var lines: Int
  /// Whether not even the first line fits; its beginning is shown.
  var firstLineExceedsLimit = false

  /// Takes the beginning of a text, which is longer than what is shown if `isWhole` is not set.
  init(_ text: [UInt8], isWhole: Bool) {
    let rows = text.split(separator: 0x0A, omittingEmptySubsequences: false)
    var end = 0
    lines = 0
    // Of a text that goes on, the last row may do so too.
    for row in isWhole ? rows[...] : rows.dropLast() {
      if lines == ShownLimits.maxLines {
        limit = .lines
        break
      }
      if row.endIndex > ShownLimits.maxBytes {
        limit = .bytes
        break
      }
      lines += 1
      end = row.endIndex
    }
    if !isWhole, limit == nil { limit = lines == ShownLimits.maxLines ? .lines : .bytes }
    if lines == 0 {
      firstLineExceedsLimit = true
      end = min(ShownLimits.maxBytes, text.count)
      while end > 0, end < text.count, text[end] & 0xC0 == 0x80 { end -= 1 }
    }
    self.text = String(decoding: text[..<end], as: UTF8.self)
  }

  /// The details that programs get.
  func truncation(totalLines: Int?, totalBytes: Int64?) -> JSON {
    [
      "truncated": .bool(limit != nil),
      "truncatedBy": limit.map { .string($0.rawValue) } ?? .null,
      "totalLines": totalLines.map { .int(Int64($0)) } ?? .null,
      "totalBytes": totalBytes.map { .int($0) } ?? .null,
      "outputLines": .int(Int64(firstLineExceedsLimit ? 1 : lines)),
      "outputBytes": .int(Int64(text.utf8.count)),
      "lastLinePartial": .bool(firstLineExceedsLimit),
      "firstLineExceedsLimit": .bool(firstLineExceedsLimit),
      "maxLines": .int(Int64(ShownLimits.maxLines)),
      "maxBytes": .int(Int64(ShownLimits.maxBytes)),
    ]
  }
}

/// What a part of a file holds, found without holding more of it than is shown.
struct TextPart: Sendable {
  /// The beginning of the selected lines, decoded.
  var head: [UInt8]
  /// Whether that is all of them.
  var isWhole: Bool
  /// Absent, like the other numbers, where nobody went on to the end to count.
  var selectedLines: Int?
  var selectedBytes: Int64?
  /// How many lines the file has.
  var totalLines: Int?

  private static let most = ShownLimits.maxBytes + 1
  /// The lines of larger files are not counted to the end unless they have to be.
  static let countedBytes: Int64 = 64 << 20

  /// Takes the first lines of a large file of UTF-8, at the cost of what is shown.
  static func beginning(
    _ reader: any FileReader,
    mark: Int,
    to end: Int?
  ) async throws -> TextPart {
    let raw = try await reader.read(offset: Int64(mark), length: most)
    var stream = UTF8Stream()
    var head = stream.decode(raw)
    var isWhole = false
    if let end, let last = place(ofNewline: end, in: head) {
      head.removeSubrange(last...)
      isWhole = true
    }
    return TextPart(head: head, isWhole: isWhole)
  }

  /// Where the newline with this number, from 1, is.
  private static func place(ofNewline number: Int, in text: [UInt8]) -> Int? {
    var left = number
    return text.firstIndex { byte in
      if byte == 0x0A { left -= 1 }
      return left == 0
    }
  }

  /// Finds lines of a file of UTF-8 in one scan.
  ///
  /// Of a large file no more lines are looked at than can be shown.
  static func scan(
    _ reader: any FileReader,
    from start: Int,
    to end: Int?,
    isLarge: Bool
  ) async throws -> TextPart {
    let (behind, overflow) = start.addingReportingOverflow(ShownLimits.maxLines + 1)
    let bound = isLarge && !overflow ? behind : .max
    let scan = try await reader.scanLines(
      from: start,
      to: isLarge ? min(end ?? .max, bound) : end
    )
    // Decoding makes no text shorter.
    let count = Int(min(scan.end - scan.start, Int64(most)))
    let raw = try await reader.read(offset: scan.start, length: count)
    let isWhole = scan.end - scan.start <= Int64(most)
    var stream = UTF8Stream()
    var head = stream.decode(raw)
    if isWhole { head += stream.flush() }
    let total = scan.newlines + 1
    return TextPart(
      head: head,
      isWhole: isWhole,
      selectedLines: max(0, min(end ?? total, total) - start),
      selectedBytes: isLarge && end ?? .max > bound ? nil : scan.selectedBytes,
      totalLines: total
    )
  }

  /// The same for other encodings, by decoding the file a piece at a time.
  static func decode(
    _ reader: any FileReader,
    _ encoding: TextEncoding,
    mark: Int,
    from start: Int,
    to end: Int?,
    isLarge: Bool
  ) async throws -> TextPart {
    var part = TextPart(head: [], isWhole: true)
    var count = (lines: 1, selectedBytes: Int64(0))
    var decoder = WideDecoder(encoding)
    var offset = Int64(mark)
    while true {
      let piece = try await reader.read(offset: offset, length: 1 << 16)
      offset += Int64(piece.count)
      part.add(
        decoder.decode(piece, isLast: piece.isEmpty),
        from: start,
        to: end ?? .max,
        &count
      )
      if piece.isEmpty { break }
      if isLarge, !part.isWhole || count.lines > end ?? .max { return part }
    }
    part.totalLines = count.lines
    part.selectedBytes = count.selectedBytes
    part.selectedLines = max(0, min(end ?? count.lines, count.lines) - start)
    return part
  }

  private mutating func add(
    _ text: [UInt8],
    from start: Int,
    to end: Int,
    _ count: inout (lines: Int, selectedBytes: Int64)
  ) {
    for byte in text {
      let line = count.lines - 1
      let isSelected = line >= start && line < end
      let isNewline = byte == 0x0A
      // The LF behind the last selected line is no part of them.
      if isSelected, !isNewline || line + 1 < end {
        count.selectedBytes += 1
        if head.count < Self.most { head.append(byte) } else { isWhole = false }
      }
      if isNewline { count.lines += 1 }
    }
  }
}
