/// A JSON value that keeps the order of keys and keeps integers apart from other numbers.
///
/// Equality compares numbers by case and value, strings by bytes, and objects without regard to
/// the order of their keys; compare `text` where the order counts.
public enum JSON: Sendable, Equatable {
  case null
  case bool(Bool)
  case int(Int64)
  /// A finite number that was not written as an integer.
  case double(Double)
  /// An integer outside the range of `Int64`, as its digits.
  case bigInteger(String)
  case string(JSONString)
  case array([JSON])
  case object(JSONObject)
}

extension JSON {
  /// The elements of an array, or `nil`.
  public var array: [JSON]? {
    if case .array(let elements) = self { return elements }
    return nil
  }

  /// The members of an object, or `nil`.
  public var object: JSONObject? {
    if case .object(let members) = self { return members }
    return nil
  }

  /// The string, or `nil`.
  public var string: JSONString? {
    if case .string(let string) = self { return string }
    return nil
  }

  /// The text of a string for people, or `nil` if this is no string.
  public var text: String? { string?.string }

  /// The truth value, or `nil`.
  public var bool: Bool? {
    if case .bool(let value) = self { return value }
    return nil
  }

  /// The integer, or `nil`; a double without a fraction counts as the integer it equals.
  public var int: Int64? {
    switch self {
    case .int(let value): value
    case .double(let value): Int64(exactly: value)
    default: nil
    }
  }

  /// The number as a double, or `nil`; large integers lose precision here.
  public var double: Double? {
    switch self {
    case .int(let value): Double(value)
    case .double(let value): value
    case .bigInteger(let digits): Double(digits)
    default: nil
    }
  }

  /// Whether this is `null`.
  public var isNull: Bool { self == .null }

  /// The member named `key`, or `nil` if this is no object or has no such member.
  public subscript(key: JSONString) -> JSON? { object?[key] }

  /// Makes a string value.
  public static func string(_ text: String) -> JSON { .string(JSONString(text)) }

  /// Makes an integer value.
  public static func int(_ value: Int) -> JSON { .int(Int64(value)) }
}

// `nil` is no literal for null: in `condition ? value : nil` it would silently mean a value.
extension JSON: ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
  ExpressibleByStringLiteral, ExpressibleByStringInterpolation, ExpressibleByArrayLiteral,
  ExpressibleByDictionaryLiteral
{
  public init(booleanLiteral value: Bool) { self = .bool(value) }
  public init(integerLiteral value: Int64) { self = .int(value) }
  public init(stringLiteral value: String) { self = .string(JSONString(value)) }
  public init(arrayLiteral elements: JSON...) { self = .array(elements) }
  public init(dictionaryLiteral elements: (JSONString, JSON)...) {
    self = .object(JSONObject(elements))
  }
}
