import PerdureModel
import PerdureTestKit
import Testing

@Suite struct LineScanTests {
  /// The lines of a text, decoded as a whole.
  private static func lines(_ bytes: [UInt8]) -> [String] {
    let text = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes.dropFirst(3) : bytes[...]
    return text.split(separator: 0x0A, omittingEmptySubsequences: false)
      .map { String(decoding: $0, as: UTF8.self) }
  }

  @Test func `lines are the same however the bytes arrive`() throws {
    var random = SeededGenerator(for: "line scans")
    let parts: [[UInt8]] = [
      [0x0A], [0x0A], Array("text".utf8), Array("é\u{1F600}".utf8), [0xFF], [0xC3], [0xE2, 0x82],
      [0xEF, 0xBB, 0xBF], [0x0D, 0x0A], [0],
    ]
    for _ in 0..<2_000 {
      let count = Int.random(in: 0...20, using: &random)
      let bytes = (0..<count).flatMap { _ in parts.randomElement(using: &random) ?? [] }
      let all = Self.lines(bytes)
      let start = Int.random(in: 0...3, using: &random)
      let end = Bool.random(using: &random) ? nil : start + Int.random(in: 1...4, using: &random)
      var scanner = try LineScanner(from: start, to: end)
      var rest = bytes[...]
      while !rest.isEmpty {
        let piece = rest.prefix(Int.random(in: 1...12, using: &random))
        scanner.take(Array(piece))
        rest = rest.dropFirst(piece.count)
      }
      let scan = scanner.finish()
      let selected = all.dropFirst(start).prefix((end ?? .max) - start)
      #expect(scan.newlines == all.count - 1, "\(bytes) \(start) \(String(describing: end))")
      #expect(
        scan.selectedBytes == Int64(selected.joined(separator: "\n").utf8.count),
        "\(bytes) \(start) \(String(describing: end))"
      )
      guard !selected.isEmpty else { continue }
      let found = bytes[Int(scan.start)..<Int(scan.end)]
      #expect(
        Self.decoded(found) == Array(selected),
        "\(bytes) \(start) \(String(describing: end))"
      )
      #expect(
        Self.decoded(bytes[Int(scan.start)..<Int(scan.firstLineEnd)]) == [selected.first ?? ""]
      )
      #expect(Self.decoded(bytes[Int(scan.lastLineStart)..<Int(scan.end)]) == [selected.last ?? ""])
      #expect(scan.firstLineBytes == Int64(selected.first?.utf8.count ?? 0))
    }
  }

  private static func decoded(_ bytes: ArraySlice<UInt8>) -> [String] {
    bytes.split(separator: 0x0A, omittingEmptySubsequences: false)
      .map { String(decoding: $0, as: UTF8.self) }
  }
}
