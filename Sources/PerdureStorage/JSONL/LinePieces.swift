import PerdureModel
import PerdureValue

/// The lines of a file that is known to be whole, read a piece at a time.
struct LinePieces {
  struct Line {
    let json: JSON
    /// The line's number, from 1.
    let number: Int
    /// The line without its end.
    let bytes: [UInt8]
  }

  let name: String
  let size: Int
  let files: any StoreFiles
  let errors: JSONLErrors

  private static let pieceSize = 1 << 20
  private static let lineFeed = UInt8(ascii: "\n")

  /// Visits the lines in order.
  func visit(_ body: (Line) throws -> Void) throws {
    var rest: [UInt8] = []
    var offset = 0
    var number = 1
    while offset < size {
      let count = min(Self.pieceSize, size - offset)
      guard let piece = try files.read(name, from: offset, count: count), piece.count == count
      else { throw errors.moved }
      offset += count
      var start = piece.startIndex
      while let end = piece[start...].firstIndex(of: Self.lineFeed) {
        let bytes = rest + piece[start..<end]
        rest = []
        try body(Line(json: try parse(bytes, number), number: number, bytes: bytes))
        start = end + 1
        number += 1
      }
      rest += piece[start...]
    }
  }

  private func parse(_ bytes: [UInt8], _ number: Int) throws -> JSON {
    do {
      return try JSON(parsing: bytes)
    } catch {
      throw errors.corrupt(name, line: number, "\(error)")
    }
  }
}
