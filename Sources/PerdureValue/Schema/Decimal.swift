/// A positive number `digits` · 10^`exponent`, to which others are compared exactly.
struct Decimal: Sendable {
  private var digits: UInt64
  private var exponent: Int
  /// As it was written.
  let text: String

  /// Takes a number above zero with at most 19 digits; `nil` for another value.
  init?(_ value: JSON) {
    guard let (written, exponent) = Self.parts(of: value), let digits = UInt64(written), digits > 0
    else { return nil }
    self.digits = digits
    self.exponent = exponent
    self.text = value.compactText
    while self.digits.isMultiple(of: 10) {
      self.digits /= 10
      self.exponent += 1
    }
  }

  /// Whether a number is an integer times this one.
  func divides(_ value: JSON) -> Bool {
    guard let (written, power) = Self.parts(of: value.isNegativeNumber ? value.negated : value)
    else {
      return false
    }
    var shift = power - exponent
    var rest = Substring(written)
    // What this one has more of zeros behind it, the other one must have too.
    while shift < 0, rest.hasSuffix("0"), rest.count > 1 {
      rest.removeLast()
      shift += 1
    }
    if rest.allSatisfy({ $0 == "0" }) { return true }
    guard shift >= 0 else { return false }
    var remainder: UInt64 = 0
    for digit in rest.utf8 { remainder = times10(remainder, plus: UInt64(digit &- 0x30)) }
    for _ in 0..<shift where remainder != 0 { remainder = times10(remainder, plus: 0) }
    return remainder == 0
  }

  private func times10(_ rest: UInt64, plus digit: UInt64) -> UInt64 {
    let product = rest.multipliedFullWidth(by: 10)
    let (low, carries) = product.low.addingReportingOverflow(digit)
    return digits.dividingFullWidth((product.high &+ (carries ? 1 : 0), low)).remainder
  }

  /// The digits of a number that is not negative, without a point, and the power of ten they count.
  private static func parts(of value: JSON) -> (digits: String, exponent: Int)? {
    switch value {
    case .int(let number) where number >= 0: return ("\(number)", 0)
    case .bigInteger(let text) where !text.hasPrefix("-"): return (text, 0)
    case .double(let number) where number >= 0:
      // The shortest decimal that means this double, such as 1.5, 5e-324 or 1e+22.
      let parts = "\(number)".split(separator: "e")
      guard let mantissa = parts.first else { return nil }
      let exponent = parts.count > 1 ? Int(parts[1].drop { $0 == "+" }) : 0
      let pieces = mantissa.split(separator: ".")
      guard let whole = pieces.first, let exponent else { return nil }
      let fraction = pieces.count > 1 && pieces[1] != "0" ? pieces[1] : ""
      let digits = (String(whole) + fraction).drop { $0 == "0" }
      return (digits.isEmpty ? "0" : String(digits), exponent - fraction.count)
    default: return nil
    }
  }
}

extension JSON {
  fileprivate var isNegativeNumber: Bool {
    switch self {
    case .int(let number): number < 0
    case .double(let number): number < 0
    case .bigInteger(let digits): digits.hasPrefix("-")
    default: false
    }
  }

  fileprivate var negated: JSON {
    switch self {
    case .int(.min): .bigInteger("\(Int64.min.magnitude)")
    case .int(let number): .int(-number)
    case .double(let number): .double(-number)
    case .bigInteger(let digits): .bigInteger(String(digits.drop { $0 == "-" }))
    default: self
    }
  }
}
