/// Reads a file line by line; only LF ends a line.
///
/// A line that could not be read because its task was cancelled can be read again: nothing is lost.
public actor TextLineReader {
  /// One line of a file.
  public struct Line: Sendable, Equatable {
    /// Without its LF; what is no UTF-8 is U+FFFD.
    public var text: String
    /// Whether an LF followed.
    public var terminated: Bool
  }

  private let reader: any FileReader
  private var waiting: [UInt8] = []
  private var start = 0
  private var searched = 0
  private var offset: Int64 = 0
  private var hasBegun = false
  private var isAtEnd = false

  /// Takes over an open file.
  public init(_ reader: any FileReader) { self.reader = reader }

  /// Returns the next line, or `nil` at the end; a byte order mark at the beginning is no part of it.
  public func readLine() async throws(FileError) -> Line? {
    while true {
      if let end = waiting[searched...].firstIndex(of: 0x0A) {
        let line = take(to: end)
        start = end + 1
        searched = start
        return Line(text: line, terminated: true)
      }
      searched = waiting.count
      if isAtEnd {
        guard start < waiting.count else { return nil }
        let line = take(to: waiting.count)
        start = waiting.count
        return Line(text: line, terminated: false)
      }
      try await fill()
    }
  }

  /// Lets go of the file; may be called again.
  public func close() async { await reader.close() }

  private func fill() async throws(FileError) {
    let piece = try await reader.read(offset: offset, length: 1 << 16)
    if start > 0 {
      waiting.removeFirst(start)
      searched -= start
      start = 0
    }
    waiting += piece
    offset += Int64(piece.count)
    isAtEnd = piece.isEmpty
    guard !hasBegun, waiting.count >= 3 || isAtEnd else { return }
    hasBegun = true
    if waiting.starts(with: LineScanner.mark) {
      waiting.removeFirst(3)
      searched = 0
    }
  }

  private func take(to end: Int) -> String {
    String(decoding: waiting[start..<end], as: UTF8.self)
  }
}
