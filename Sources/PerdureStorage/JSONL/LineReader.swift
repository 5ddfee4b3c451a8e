import PerdureModel
import PerdureValue

/// The complete lines of one file of a store.
struct LineReader {
  struct Line {
    let json: JSON
    /// The line's number, from 1.
    let number: Int
    /// The line's bytes without its end.
    let bytes: Range<Int>
  }

  let name: String
  /// The size of the file without the torn line at its end.
  let size: Int
  /// Whether there is a torn line.
  let isTorn: Bool
  private let bytes: [UInt8]
  private let errors: JSONLErrors

  /// Reads a file; one that is missing has no lines.
  init(_ name: String, _ files: any StoreFiles, _ errors: JSONLErrors) throws {
    self.name = name
    self.errors = errors
    do {
      bytes = try files.read(name, from: 0) ?? []
    } catch {
      throw errors.opening(error, name)
    }
    let end = bytes.lastIndex(of: Self.lineFeed).map { $0 + 1 } ?? 0
    size = end
    isTorn = end < bytes.count
  }

  private static let lineFeed = UInt8(ascii: "\n")

  /// Visits the lines in order; an error without a place in it gets the line's.
  ///
  /// With `passedOver` a damaged line is remembered there, and the next one follows.
  func visit(_ passedOver: PassedOver? = nil, _ body: (Line) throws -> Void) throws {
    try visitEach(body) { _, error in
      guard let passedOver else { throw error }
      try passedOver.add(error, about: Sidecar(name: name))
    }
  }

  /// Visits the lines in order, and goes on with the next one after damage in one.
  func visit(
    _ body: (Line) throws -> Void,
    reporting report: (_ number: Int, PerdureError) -> Void
  ) throws {
    try visitEach(body) { number, error in
      guard let error = error as? PerdureError, error.code == .storeCorrupt else { throw error }
      report(number, error)
    }
  }

  private func visitEach(
    _ body: (Line) throws -> Void,
    failing: (Int, any Error) throws -> Void
  ) throws {
    var start = 0
    var number = 1
    while start < size {
      let end = bytes[start..<size].firstIndex(of: Self.lineFeed) ?? size
      do {
        try visit(number, start..<end, body)
      } catch {
        try failing(number, error)
      }
      start = end + 1
      number += 1
    }
  }

  private func visit(_ number: Int, _ range: Range<Int>, _ body: (Line) throws -> Void) throws {
    do {
      let json = try JSON(parsing: Array(bytes[range]))
      try check(json)
      try body(Line(json: json, number: number, bytes: range))
    } catch let error as JSONError {
      throw errors.corrupt(name, line: number, "\(error)")
    } catch let error as PerdureError where error.details == nil && error.code == .storeCorrupt {
      throw errors.corrupt(name, line: number, JSONLErrors.cause(error))
    }
  }

  /// The bytes of a line.
  func text(of line: Line) -> [UInt8] { Array(bytes[line.bytes]) }

  private func check(_ json: JSON) throws {
    guard let format = json["format"]?.int else {
      throw PerdureError(.storeCorrupt, "the line has no format")
    }
    guard format >= 1 else { throw PerdureError(.storeCorrupt, "the format is \(format)") }
    guard format == 1 else { throw errors.newer(name, format: format) }
  }
}
