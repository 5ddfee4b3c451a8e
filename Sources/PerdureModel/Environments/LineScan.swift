import PerdureValue

/// Where lines of a file are.
public struct LineScan: Sendable, Equatable {
  /// How many LF the file has.
  public var newlines: Int
  /// Where the bytes of the selected lines begin; behind a byte order mark of the file.
  public var start: Int64
  /// Where they end, without the last LF.
  public var end: Int64
  /// Where the first selected line ends.
  public var firstLineEnd: Int64
  /// Where the last selected line begins.
  public var lastLineStart: Int64
  /// How many bytes of UTF-8 the selected lines have once they are decoded.
  public var selectedBytes: Int64
  /// The same of the first one.
  public var firstLineBytes: Int64

  /// Makes a result.
  public init(
    newlines: Int,
    start: Int64,
    end: Int64,
    firstLineEnd: Int64,
    lastLineStart: Int64,
    selectedBytes: Int64,
    firstLineBytes: Int64
  ) {
    self.newlines = newlines
    self.start = start
    self.end = end
    self.firstLineEnd = firstLineEnd
    self.lastLineStart = lastLineStart
    self.selectedBytes = selectedBytes
    self.firstLineBytes = firstLineBytes
  }
}

/// Finds lines in bytes that arrive in pieces; what it holds does not grow with them.
public struct LineScanner: Sendable {
  static let mark: [UInt8] = [0xEF, 0xBB, 0xBF]

  private let first: Int
  private let limit: Int
  private var decoder = UTF8Stream()
  private var beginning: [UInt8]? = []
  private var position: Int64 = 0
  private var line = 0
  private var start: Int64?
  private var end: Int64 = 0
  private var firstLineEnd: Int64?
  private var lastLineStart: Int64 = 0
  private var decoded: Int64 = 0
  private var firstLineBytes: Int64 = 0

  /// Asks for the lines from `start` up to, and without, `end`, counted from 0.
  public init(from start: Int, to end: Int?) throws(FileError) {
    guard start >= 0, end.map({ $0 > start }) ?? true else {
      let range = "\(start) to \(end.map(String.init) ?? "the end")"
      throw FileError(
        .invalid,
        "the lines from \(range) are no range",
        hint: "give a first line from 0 on and an end behind it"
      )
    }
    first = start
    limit = end ?? .max
  }

  /// Takes the next bytes of the file.
  public mutating func take(_ bytes: [UInt8]) {
    take(bytes, newlines: bytes.count { $0 == 0x0A })
  }

  /// Takes the next bytes of the file, of which the number of LF is known.
  package mutating func take(_ bytes: [UInt8], newlines: Int) {
    guard var held = beginning else { return takeRest(bytes, newlines) }
    // Whether the file begins with a mark is known after three bytes.
    held += bytes
    guard held.count >= 3 else {
      beginning = held
      return
    }
    begin(held)
  }

  private mutating func takeRest(_ bytes: [UInt8], _ newlines: Int) {
    guard isSelected, limit - line > newlines, decoder.isIdle else { return scan(bytes[...]) }
    // All of it is selected: text that is right needs no look at each of its lines. What may be the
    // beginning of a character is left to the decoder.
    let whole = bytes.endIndex - UTF8Stream.unfinished(of: bytes)
    guard (try? UTF8Span(validating: bytes.span.extracting(0..<whole))) != nil else {
      return scan(bytes[...])
    }
    if newlines > 0 {
      if firstLineEnd == nil, let first = bytes.firstIndex(of: 0x0A) {
        firstLineEnd = position + Int64(first)
        firstLineBytes = decoded + Int64(first)
      }
      if let last = bytes.lastIndex(of: 0x0A) {
        lastLineStart = position + Int64(last) + 1
        end = position + Int64(last)
      }
    }
    position += Int64(whole)
    decoded += Int64(whole)
    line += newlines
    if whole < bytes.count { scan(bytes[whole...]) }
  }

  /// Whether bytes with this many LF hold nothing of the selected lines, so that they need not be
  /// looked at.
  package func passesOver(newlines: Int) -> Bool {
    guard beginning == nil else { return false }
    return line >= limit || (line < first && newlines < first - line)
  }

  /// Passes over bytes of which only the number of LF is known.
  package mutating func pass(bytes: Int, newlines: Int) {
    position += Int64(bytes)
    line += newlines
  }

  private mutating func begin(_ held: [UInt8]) {
    beginning = nil
    let skipped = held.starts(with: Self.mark) ? 3 : 0
    position = Int64(skipped)
    enter()
    scan(held[skipped...])
  }

  /// Ends the file and returns what was found.
  public mutating func finish() -> LineScan {
    if let held = beginning { begin(held) }
    if isSelected { leave(at: position) }
    guard let start else {
      return LineScan(
        newlines: line,
        start: position,
        end: position,
        firstLineEnd: position,
        lastLineStart: position,
        selectedBytes: 0,
        firstLineBytes: 0
      )
    }
    return LineScan(
      newlines: line,
      start: start,
      end: end,
      firstLineEnd: firstLineEnd ?? end,
      lastLineStart: lastLineStart,
      selectedBytes: decoded,
      firstLineBytes: firstLineBytes
    )
  }

  private var isSelected: Bool { line >= first && line < limit }

  /// Begins the line at the current place.
  private mutating func enter() {
    guard isSelected else { return }
    if start == nil {
      start = position
    } else {
      // The LF between two selected lines is part of the text.
      decoded += 1
    }
    lastLineStart = position
  }

  /// Ends the selected line.
  private mutating func leave(at place: Int64) {
    decoded += Int64(decoder.flush().count)
    end = place
    if firstLineEnd == nil {
      firstLineEnd = place
      firstLineBytes = decoded
    }
  }

  private mutating func scan(_ bytes: ArraySlice<UInt8>) {
    var rest = bytes
    while !rest.isEmpty {
      let newline = rest.firstIndex(of: 0x0A)
      let piece = rest[..<(newline ?? rest.endIndex)]
      if isSelected, !piece.isEmpty { count(piece) }
      position += Int64(piece.count)
      guard let newline else { return }
      if isSelected { leave(at: position) }
      position += 1
      line += 1
      enter()
      rest = rest[(newline + 1)...]
    }
  }

  private mutating func count(_ piece: ArraySlice<UInt8>) {
    if decoder.isIdle, piece.allSatisfy({ $0 < 0x80 }) {
      decoded += Int64(piece.count)
    } else {
      decoded += Int64(decoder.decode(Array(piece)).count)
    }
  }
}
