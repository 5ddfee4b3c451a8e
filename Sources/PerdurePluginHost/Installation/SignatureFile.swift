package import PerdureModel
import PerdureValue

/// What a file `NAME.minisig` says: who signed a file, and a comment that is signed with it.
package struct SignatureFile: Sendable {
  /// Whether the hash of the file was signed, and not the file.
  private var isPrehashed: Bool
  private(set) var keyNumber: [UInt8]
  private var signature: [UInt8]
  private var wholeSignature: [UInt8]
  /// What the signer says about the file.
  package private(set) var comment: String

  static let limit = 64 << 10

  /// The number of the key that signed.
  var keyID: String { SignerKey.id(keyNumber) }

  /// Reads the four lines; `path` is named in the sentence for what is none.
  package init(_ text: [UInt8], path: String) throws(PerdureError) {
    let refusal = PerdureError(
      .pluginRefused,
      "the signature \(path) is none of minisign",
      hint: "sign the plugin with minisign -S"
    )
    // By bytes: for a String, both bytes of a line end of other systems are one character.
    var lines: [String] = []
    for line in text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false) {
      let line = line.last == UInt8(ascii: "\r") ? line.dropLast() : line
      guard let line = String(validating: line, as: UTF8.self) else { throw refusal }
      lines.append(line)
    }
    while lines.last?.isEmpty == true { lines.removeLast() }
    let (untrusted, trusted) = ("untrusted comment:", "trusted comment: ")
    guard lines.count == 4, lines[0].hasPrefix(untrusted), lines[2].hasPrefix(trusted),
      let first = Base64.decodeExactly(lines[1]), first.count == 74,
      let second = Base64.decodeExactly(lines[3]), second.count == 64
    else { throw refusal }
    switch Array(first[..<2]) {
    case Array("Ed".utf8): isPrehashed = false
    case Array("ED".utf8): isPrehashed = true
    default: throw refusal
    }
    keyNumber = Array(first[2..<10])
    signature = Array(first[10...])
    wholeSignature = second
    comment = String(lines[2].dropFirst(trusted.count))
  }

  /// Whether the key signed the file and the comment.
  package func isGood(for bytes: [UInt8], by key: SignerKey) -> Bool {
    guard key.number == keyNumber, let message = isPrehashed ? Sodium.hash(bytes) : bytes else {
      return false
    }
    return Sodium.isSignature(signature, of: message, by: key.bytes)
      && Sodium.isSignature(wholeSignature, of: signature + Array(comment.utf8), by: key.bytes)
  }

  /// What the comment says of a plugin under a name, as in `sha256:…`.
  func claim(_ name: String) -> String? {
    let words = comment.split { $0 == " " || $0 == "\t" }
    let prefix = name + ":"
    return words.first { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) }
  }
}
