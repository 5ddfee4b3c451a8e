package import PerdureModel
import PerdureValue

/// The public key of whoever signs plugins, as minisign has it.
package struct SignerKey: Sendable, Hashable {
  let bytes: [UInt8]
  let number: [UInt8]

  private static let length = 42
  private static let algorithm = Array("Ed".utf8)

  /// Reads the text of a key, or of a file `minisign.pub` with a comment before it.
  package init(_ text: String) throws(PerdureError) {
    let lines = text.split(whereSeparator: \.isNewline)
      .map { $0.trimmingSpaces }
      .filter { !$0.isEmpty && !$0.hasPrefix("untrusted comment:") }
    guard lines.count == 1, let line = lines.first, let key = Base64.decodeExactly(line),
      key.count == Self.length, key.starts(with: Self.algorithm)
    else {
      throw PerdureError(
        .invalidConfiguration,
        "the signer's key is no public key of minisign",
        hint: "give the file minisign.pub, or the line in it that begins with RW"
      )
    }
    number = Array(key[2..<10])
    bytes = Array(key[10...])
  }

  /// The line of a file `minisign.pub`.
  package var text: String { Base64.encode(Self.algorithm + number + bytes) }

  /// The number under which minisign shows the key.
  package var id: String { Self.id(number) }

  static func id(_ number: [UInt8]) -> String {
    let digits = Array("0123456789ABCDEF".utf8)
    let text = number.reversed().flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
    return String(decoding: text, as: UTF8.self)
  }
}

extension StringProtocol {
  /// The text without spaces and tabs at its ends.
  var trimmingSpaces: SubSequence {
    var part = self[...]
    while let last = part.last, last == " " || last == "\t" { part.removeLast() }
    return part.drop { $0 == " " || $0 == "\t" }
  }
}
