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
  func truncation(totalLines: Int, totalBytes: Int64) -> JSON {
    [
      "truncated": .bool(limit != nil),
      "truncatedBy": limit.map { .string($0.rawValue) } ?? .null,
      "totalLines": .int(Int64(totalLines)),
      "totalBytes": .int(totalBytes),
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
  var selectedLines: Int
  var selectedBytes: Int64
  /// How many lines the file has.
  var totalLines: Int

  private static let most = ShownLimits.maxBytes + 1

  /// Finds lines of a file of UTF-8 in one scan.
  static func scan(_ reader: any FileReader, from start: Int, to end: Int?) async throws -> TextPart
  {
    let scan = try await reader.scanLines(from: start, to: end)
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
      selectedBytes: scan.selectedBytes,
      totalLines: total
    )
  }

  /// The same for other encodings, by decoding the file a piece at a time.
  static func decode(
    _ reader: any FileReader,
    _ encoding: TextEncoding,
    mark: Int,
    from start: Int,
    to end: Int?
  ) async throws -> TextPart {
    var part = TextPart(head: [], isWhole: true, selectedLines: 0, selectedBytes: 0, totalLines: 1)
    var decoder = WideDecoder(encoding)
    var offset = Int64(mark)
    while true {
      let piece = try await reader.read(offset: offset, length: 1 << 16)
      offset += Int64(piece.count)
      part.add(decoder.decode(piece, isLast: piece.isEmpty), from: start, to: end ?? .max)
      if piece.isEmpty { break }
    }
    part.selectedLines = max(0, min(end ?? part.totalLines, part.totalLines) - start)
    return part
  }

  private mutating func add(_ text: [UInt8], from start: Int, to end: Int) {
    for byte in text {
      let line = totalLines - 1
      let isSelected = line >= start && line < end
      let isNewline = byte == 0x0A
      // The LF behind the last selected line is no part of them.
      if isSelected, !isNewline || line + 1 < end {
        selectedBytes += 1
        if head.count < Self.most { head.append(byte) } else { isWhole = false }
      }
      if isNewline { totalLines += 1 }
    }
  }
}
