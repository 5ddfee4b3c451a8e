/// The number of a durable record, typed by the kind of record it names.
///
/// All kinds share one namespace per store. Values lie in 1 … 2^53−1, so that they are exact in
/// every JSON reader.
public struct Identifier<Record>: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The number.
  public let value: Int64

  /// The greatest number that may be an id.
  public static var greatest: Int64 { 9_007_199_254_740_991 }

  /// Makes an id, or returns `nil` if `value` is outside 1 … 2^53−1.
  public init?(_ value: Int64) {
    guard (1...Self.greatest).contains(value) else { return nil }
    self.value = value
  }

  /// Makes an id from a JSON number, or returns `nil` if it is none.
  public init?(_ json: JSON?) {
    guard let value = json?.int else { return nil }
    self.init(value)
  }

  /// The id as a JSON number.
  public var json: JSON { .int(value) }

  public static func < (left: Identifier, right: Identifier) -> Bool { left.value < right.value }

  public var description: String { String(value) }
}
