extension JSON {
  /// Whether this is the same value as `other` where `1` and `1.0` are one number.
  func isSameValue(as other: JSON) -> Bool {
    switch (self, other) {
    case (.array(let left), .array(let right)):
      return left.count == right.count
        && zip(left, right).allSatisfy { $0.isSameValue(as: $1) }
    case (.object(let left), .object(let right)):
      return left.count == right.count
        && left.allSatisfy { member in
          right[member.key].map { member.value.isSameValue(as: $0) } ?? false
        }
    default:
      if isNumber, other.isNumber { return Self.numericOrder(self, other) == 0 }
      return self == other
    }
  }

  private var isNumber: Bool {
    switch self {
    case .int, .double, .bigInteger: true
    default: false
    }
  }

  /// Below zero if `left` is the smaller number, above zero if it is the greater one.
  ///
  /// Exact but for an integer beyond `Int64` beside a double, which is rounded to one.
  static func numericOrder(_ left: JSON, _ right: JSON) -> Int {
    switch (left, right) {
    case (.int(let left), .int(let right)): left < right ? -1 : left > right ? 1 : 0
    case (.int(let left), .double(let right)): order(left, right)
    case (.double(let left), .int(let right)): -order(right, left)
    case (.int, .bigInteger(let digits)): digits.hasPrefix("-") ? 1 : -1
    case (.bigInteger(let digits), .int): digits.hasPrefix("-") ? -1 : 1
    case (.bigInteger(let left), .bigInteger(let right)): order(left, right)
    default: order(left.double ?? .nan, right.double ?? .nan)
    }
  }

  private static func order(_ left: Double, _ right: Double) -> Int {
    left < right ? -1 : left > right ? 1 : 0
  }

  private static func order(_ left: Int64, _ right: Double) -> Int {
    if right >= 0x1p63 { return -1 }
    if right < -0x1p63 { return 1 }
    let whole = right.rounded(.down)
    guard let limit = Int64(exactly: whole) else { return 0 }
    if left != limit { return left < limit ? -1 : 1 }
    return right > whole ? -1 : 0
  }

  /// Both are written without leading zeros.
  private static func order(_ left: String, _ right: String) -> Int {
    let (leftIsNegative, rightIsNegative) = (left.hasPrefix("-"), right.hasPrefix("-"))
    guard leftIsNegative == rightIsNegative else { return leftIsNegative ? -1 : 1 }
    let (leftCount, rightCount) = (left.utf8.count, right.utf8.count)
    let magnitude =
      if leftCount != rightCount {
        leftCount < rightCount ? -1 : 1
      } else {
        left == right ? 0 : left < right ? -1 : 1
      }
    return leftIsNegative ? -magnitude : magnitude
  }
}
