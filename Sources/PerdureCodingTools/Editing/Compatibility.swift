@_spi(_Unicode) import Swift

/// Makes one text of those that look alike, for the search of what an edit is to replace.
enum Compatibility {
  /// The decompositions of the table by code point.
  private static let decompositions: [UInt32: [UInt32]] = {
    var found: [UInt32: [UInt32]] = [:]
    for word in CompatibilityTable.text.split(whereSeparator: { $0 == " " || $0 == "\n" }) {
      let sides = word.split(separator: "=")
      let source = sides[0].split(separator: "*").compactMap { UInt32($0, radix: 16) }
      let targets = sides[1].split(separator: "+").compactMap { UInt32($0, radix: 16) }
      guard let first = source.first, let target = targets.first else { continue }
      let count = source.count > 1 ? source[1] : 1
      if count == 1 {
        found[first] = targets
      } else {
        for step in 0..<count { found[first + step] = [target + step] }
      }
    }
    return found
  }()

  /// The text in the form NFKC, with plain quotes, dashes and spaces.
  static func plain(_ text: String) -> String {
    var decomposed = String.UnicodeScalarView()
    for scalar in text.unicodeScalars {
      if let mapped = simple(scalar) {
        decomposed.append(mapped)
      } else if let targets = decompositions[scalar.value] {
        decomposed.append(contentsOf: targets.compactMap(Unicode.Scalar.init))
      } else {
        decomposed.append(scalar)
      }
    }
    return composed(String(decomposed))
  }

  /// The form NFC.
  static func composed(_ text: String) -> String {
    var scalars = String.UnicodeScalarView()
    scalars.append(contentsOf: text._nfc)
    return String(scalars)
  }

  /// The form NFD.
  static func decomposed(_ text: String) -> String {
    var scalars = String.UnicodeScalarView()
    scalars.append(contentsOf: text._nfd)
    return String(scalars)
  }

  /// Quotes, dashes and spaces that people and models mix up with those of ASCII.
  private static func simple(_ scalar: Unicode.Scalar) -> Unicode.Scalar? {
    switch scalar.value {
    case 0x2018...0x201B: "'"
    case 0x201C...0x201F: "\""
    case 0x2010...0x2015, 0x2212: "-"
    case 0x00A0, 0x2002...0x200A, 0x202F, 0x205F, 0x3000: " "
    default: nil
    }
  }
}
