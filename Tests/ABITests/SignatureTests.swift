import Foundation
import PerdureModel
import PerdurePluginHost
import Testing

/// Signatures of minisign, those of fixed vectors and those that the program itself makes.
struct SignatureTests {
  private static let message = "a file that is signed\n"
  private static let key = "RWSvhLyDDDpFKwoxPeKauV2gkuy7JcS5VaKajrvly5Vlb8pzTkUlaJ5U"
  private static let prehashed = """
    untrusted comment: signature from minisign secret key
    RUSvhLyDDDpFK1oxjiCHFHAeSz//KkyLQkSWeH1wfgp0iJNACnk1KDbwldHjFijQ1FwPH0q1ecKry7+NKDNag0+ThXK1owKvUww=
    trusted comment: plugin:a.b version:1.0.0
    cESx4Ji1lVNZquLW50oaaKNx5mLcmHBydtgYZXsMevj3hDFFa0EgMgUpfclIzcL2naS1vc4XAWRV6SSnlZJqCQ==

    """
  private static let legacy = """
    untrusted comment: signature from minisign secret key
    RWSvhLyDDDpFK8jUScIDS5IOeQtQ+sG3pCJ+hxUW8i5aiuLdm0aFKvNK0O2HZm/k4mmvBnhHZlfdRuD97ldCUei/1EAFulGaWwQ=
    trusted comment: the older form
    3Uw1Cy92ZBBi8RTrcaTTifHSvFy6UvSyZoVNDkCYRmhhApkX0hNEOxUIgqLeX3C6PKGk6IAytiWiAyo9FRVHCA==

    """

  private func isGood(
    _ text: String,
    message: String = message,
    key: String = key
  ) throws -> Bool {
    let signature = try SignatureFile(Array(text.utf8), path: "x.minisig")
    return signature.isGood(for: Array(message.utf8), by: try SignerKey(key))
  }

  @Test(arguments: [prehashed, legacy])
  func `a signature of either form fits its file`(text: String) throws {
    #expect(try isGood(text))
  }

  @Test(arguments: [prehashed, legacy])
  func `line ends of other systems do not matter`(text: String) throws {
    #expect(try isGood(text.split(separator: "\n").joined(separator: "\r\n")))
  }

  @Test(arguments: [prehashed, legacy])
  func `a signature fits no other file`(text: String) throws {
    #expect(try !isGood(text, message: Self.message + "."))
    #expect(try !isGood(text, message: ""))
  }

  @Test(arguments: [
    (prehashed, "plugin:a.b", "plugin:a.c"), (legacy, "the older", "the elder"),
    (prehashed, "cESx4J", "cESx4K"), (legacy, "3Uw1C", "3Uw1D"), (prehashed, "FK1oxj", "FK1oxk"),
    (legacy, "FK8jUS", "FK8jUT"),
  ])
  func `a signature or a comment with a change does not fit`(
    text: String,
    old: String,
    new: String
  ) throws {
    let changed = text.replacingOccurrences(of: old, with: new)
    #expect(changed != text)
    #expect(try !isGood(changed))
  }

  @Test func `a signature of one form is none of the other`() throws {
    // Only the two letters of the algorithm differ between RUS and RWS.
    #expect(try !isGood(Self.prehashed.replacingOccurrences(of: "RUSvh", with: "RWSvh")))
    #expect(try !isGood(Self.legacy.replacingOccurrences(of: "RWSvh", with: "RUSvh")))
  }

  @Test(arguments: [
    "", "RWSvhLyDDDpFK", "a\nb\nc\nd\n",
    prehashed.replacingOccurrences(of: "trusted comment: ", with: "comment: "),
    prehashed.replacingOccurrences(of: "RUSvh", with: "RVSvh"),
    prehashed.replacingOccurrences(of: "Uww=", with: "Uwx="),
    prehashed + "one line more\n",
  ])
  func `what is no signature is refused with its path`(text: String) {
    let error = #expect(throws: PerdureError.self) {
      try SignatureFile(Array(text.utf8), path: "x.minisig")
    }
    #expect(error?.message == "the signature x.minisig is none of minisign")
  }

  @Test(arguments: [
    key, "  \(key) \n", "untrusted comment: minisign public key 2B453A0C83BC84AF\n\(key)\n",
  ])
  func `a key is read from its line or its file`(text: String) throws {
    let read = try SignerKey(text)
    #expect(read.id == "2B453A0C83BC84AF")
    #expect(read.text == Self.key)
  }

  @Test(arguments: [
    "", "RWS", String(key.dropLast()), key + "AAAA", "RUS" + key.dropFirst(3), "\(key)\n\(key)",
  ])
  func `what is no key is refused`(text: String) {
    #expect(throws: PerdureError.self) { try SignerKey(text) }
  }

  @Test(arguments: [true, false])
  func `what the program minisign signs fits`(isLegacy: Bool) throws {
    let signer = try Signer()
    let path = signer.folder + "/file"
    try Data((0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }).write(
      to: URL(filePath: path)
    )
    try signer.sign(path, comment: "grüße", isLegacy: isLegacy)
    let text = try Data(contentsOf: URL(filePath: path + ".minisig"))
    let signature = try SignatureFile(Array(text), path: path + ".minisig")
    #expect(signature.comment == "grüße")
    let bytes = Array(try Data(contentsOf: URL(filePath: path)))
    #expect(signature.isGood(for: bytes, by: try SignerKey(signer.key)))
    #expect(!signature.isGood(for: bytes, by: try SignerKey(Self.key)))
  }
}

/// A key of the program minisign.
struct Signer {
  let folder: String

  init() throws {
    folder = try Fixtures.folder()
    try Command.run(["minisign", "-G", "-W", "-p", "\(folder)/key.pub", "-s", "\(folder)/key"])
  }

  /// The path of the public key.
  var keyPath: String { folder + "/key.pub" }

  /// The text of the public key.
  var key: String {
    get throws { try String(contentsOfFile: keyPath, encoding: .utf8) }
  }

  /// Signs a file; the signature lies beside it.
  func sign(_ path: String, comment: String? = nil, isLegacy: Bool = false) throws {
    var words = ["minisign", "-S", "-s", folder + "/key", "-m", path]
    if isLegacy { words.append("-l") }
    if let comment { words += ["-t", comment] }
    try Command.run(words)
  }
}
