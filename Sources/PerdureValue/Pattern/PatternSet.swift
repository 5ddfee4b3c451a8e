/// A set of code points.
struct PatternSet: Sendable {
  /// One part of a set.
  enum Item: Sendable {
    case range(ClosedRange<UInt32>)
    case property(PatternProperty, isNegative: Bool)
    case set(PatternSet)
  }

  var items: [Item] = []
  var isNegative = false

  init(_ ranges: ClosedRange<UInt32>..., isNegative: Bool = false) {
    items = ranges.map { .range($0) }
    self.isNegative = isNegative
  }

  init(_ point: UInt32) { items = [.range(point...point)] }

  init(items: [Item], isNegative: Bool) {
    self.items = items
    self.isNegative = isNegative
  }

  func contains(_ point: UInt32) -> Bool {
    let isListed = items.contains { item in
      switch item {
      case .range(let range): range.contains(point)
      case .property(let property, let isNegative): property.holds(for: point) != isNegative
      case .set(let set): set.contains(point)
      }
    }
    return isListed != isNegative
  }

  static let digits = PatternSet(0x30...0x39)
  static let word = PatternSet(0x30...0x39, 0x41...0x5A, 0x5F...0x5F, 0x61...0x7A)
  static let space = PatternSet(
    0x09...0x0D,
    0x20...0x20,
    0xA0...0xA0,
    0x1680...0x1680,
    0x2000...0x200A,
    0x2028...0x2029,
    0x202F...0x202F,
    0x205F...0x205F,
    0x3000...0x3000,
    0xFEFF...0xFEFF
  )
  /// What a dot stands for: everything but the ends of lines.
  static let dot = PatternSet(
    0x0A...0x0A,
    0x0D...0x0D,
    0x2028...0x2029,
    isNegative: true
  )

  func inverted() -> PatternSet { PatternSet(items: items, isNegative: !isNegative) }
}

/// A property of code points that expressions can name.
enum PatternProperty: Sendable {
  case any
  case ascii
  case assigned
  case categories(Set<Unicode.GeneralCategory>)
  case binary(@Sendable (Unicode.Scalar.Properties) -> Bool)

  func holds(for point: UInt32) -> Bool {
    // Surrogates are code points without a scalar.
    let scalar = Unicode.Scalar(point)
    switch self {
    case .any: return true
    case .ascii: return point < 0x80
    case .assigned: return scalar.map { $0.properties.generalCategory != .unassigned } ?? true
    case .categories(let categories):
      return categories.contains(scalar?.properties.generalCategory ?? .surrogate)
    case .binary(let test): return scalar.map { test($0.properties) } ?? false
    }
  }

  /// The property of a name such as `L`, `Letter`, `gc=Lu` or `Alphabetic`, or `nil`.
  init?(named name: String) {
    let parts = name.split(separator: "=", omittingEmptySubsequences: false).map(String.init)
    switch parts.count {
    case 1: break
    case 2 where parts[0] == "General_Category" || parts[0] == "gc":
      guard let categories = Self.categories(parts[1]) else { return nil }
      self = .categories(categories)
      return
    default: return nil
    }
    switch name {
    case "Any": self = .any
    case "ASCII": self = .ascii
    case "Assigned": self = .assigned
    default:
      if let categories = Self.categories(name) {
        self = .categories(categories)
      } else if let test = Self.tests[name] {
        self = .binary(test)
      } else {
        return nil
      }
    }
  }

  private static let tests: [String: @Sendable (Unicode.Scalar.Properties) -> Bool] = [
    "Alphabetic": { $0.isAlphabetic }, "Alpha": { $0.isAlphabetic },
    "Lowercase": { $0.isLowercase }, "Lower": { $0.isLowercase },
    "Uppercase": { $0.isUppercase }, "Upper": { $0.isUppercase },
    "White_Space": { $0.isWhitespace }, "space": { $0.isWhitespace },
    "ID_Start": { $0.isIDStart }, "IDS": { $0.isIDStart },
    "ID_Continue": { $0.isIDContinue }, "IDC": { $0.isIDContinue },
    "XID_Start": { $0.isXIDStart }, "XIDS": { $0.isXIDStart },
    "XID_Continue": { $0.isXIDContinue }, "XIDC": { $0.isXIDContinue },
    "Emoji": { $0.isEmoji }, "Emoji_Presentation": { $0.isEmojiPresentation },
    "Hex_Digit": { $0.isHexDigit }, "Hex": { $0.isHexDigit },
    "ASCII_Hex_Digit": { $0.isASCIIHexDigit }, "AHex": { $0.isASCIIHexDigit },
    "Ideographic": { $0.isIdeographic }, "Ideo": { $0.isIdeographic },
    "Cased": { $0.isCased }, "Dash": { $0.isDash }, "Math": { $0.isMath },
    "Diacritic": { $0.isDiacritic }, "Dia": { $0.isDiacritic },
  ]

  private static func categories(_ name: String) -> Set<Unicode.GeneralCategory>? {
    for (short, long, categories) in groups where name == short || long.contains(name) {
      return categories
    }
    return nil
  }

  private static let groups: [(String, [String], Set<Unicode.GeneralCategory>)] = [
    (
      "L", ["Letter"],
      [.uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter]
    ),
    ("LC", ["Cased_Letter"], [.uppercaseLetter, .lowercaseLetter, .titlecaseLetter]),
    ("Lu", ["Uppercase_Letter"], [.uppercaseLetter]),
    ("Ll", ["Lowercase_Letter"], [.lowercaseLetter]),
    ("Lt", ["Titlecase_Letter"], [.titlecaseLetter]),
    ("Lm", ["Modifier_Letter"], [.modifierLetter]), ("Lo", ["Other_Letter"], [.otherLetter]),
    ("M", ["Mark", "Combining_Mark"], [.nonspacingMark, .spacingMark, .enclosingMark]),
    ("Mn", ["Nonspacing_Mark"], [.nonspacingMark]), ("Mc", ["Spacing_Mark"], [.spacingMark]),
    ("Me", ["Enclosing_Mark"], [.enclosingMark]),
    ("N", ["Number"], [.decimalNumber, .letterNumber, .otherNumber]),
    ("Nd", ["Decimal_Number", "digit"], [.decimalNumber]),
    ("Nl", ["Letter_Number"], [.letterNumber]), ("No", ["Other_Number"], [.otherNumber]),
    (
      "P", ["Punctuation", "punct"],
      [
        .connectorPunctuation, .dashPunctuation, .openPunctuation, .closePunctuation,
        .initialPunctuation, .finalPunctuation, .otherPunctuation,
      ]
    ),
    ("Pc", ["Connector_Punctuation"], [.connectorPunctuation]),
    ("Pd", ["Dash_Punctuation"], [.dashPunctuation]),
    ("Ps", ["Open_Punctuation"], [.openPunctuation]),
    ("Pe", ["Close_Punctuation"], [.closePunctuation]),
    ("Pi", ["Initial_Punctuation"], [.initialPunctuation]),
    ("Pf", ["Final_Punctuation"], [.finalPunctuation]),
    ("Po", ["Other_Punctuation"], [.otherPunctuation]),
    ("S", ["Symbol"], [.mathSymbol, .currencySymbol, .modifierSymbol, .otherSymbol]),
    ("Sm", ["Math_Symbol"], [.mathSymbol]), ("Sc", ["Currency_Symbol"], [.currencySymbol]),
    ("Sk", ["Modifier_Symbol"], [.modifierSymbol]), ("So", ["Other_Symbol"], [.otherSymbol]),
    ("Z", ["Separator"], [.spaceSeparator, .lineSeparator, .paragraphSeparator]),
    ("Zs", ["Space_Separator"], [.spaceSeparator]), ("Zl", ["Line_Separator"], [.lineSeparator]),
    ("Zp", ["Paragraph_Separator"], [.paragraphSeparator]),
    ("C", ["Other"], [.control, .format, .surrogate, .privateUse, .unassigned]),
    ("Cc", ["Control", "cntrl"], [.control]), ("Cf", ["Format"], [.format]),
    ("Cs", ["Surrogate"], [.surrogate]), ("Co", ["Private_Use"], [.privateUse]),
    ("Cn", ["Unassigned"], [.unassigned]),
  ]
}
