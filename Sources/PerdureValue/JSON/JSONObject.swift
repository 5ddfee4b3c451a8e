/// The members of a JSON object, in the order in which they were added.
///
/// Setting a present key keeps its place; removing a key and setting it again moves it to the end.
/// Equality does not regard the order.
public struct JSONObject: Sendable {
  /// One member.
  public typealias Member = (key: JSONString, value: JSON)

  var keysInOrder: [JSONString] = []
  var valuesInOrder: [JSON] = []
  // Kept only for objects with many members, where a linear search would cost more.
  var positions: [JSONString: Int]?

  private static let indexedFrom = 17

  /// Makes an object without members.
  public init() {}

  /// Makes an object of `members`; a later value of a repeated key wins, in the earlier place.
  public init(_ members: some Sequence<(JSONString, JSON)>) {
    for (key, value) in members { self[key] = value }
  }

  /// The number of members.
  public var count: Int { keysInOrder.count }

  /// Whether there are no members.
  public var isEmpty: Bool { keysInOrder.isEmpty }

  /// The keys in order.
  public var keys: [JSONString] { keysInOrder }

  /// The values in the order of their keys.
  public var values: [JSON] { valuesInOrder }

  /// The value of `key`; setting `nil` removes the member.
  public subscript(key: JSONString) -> JSON? {
    get { position(of: key).map { valuesInOrder[$0] } }
    set {
      switch (position(of: key), newValue) {
      case (let position?, let value?): valuesInOrder[position] = value
      case (let position?, nil): remove(at: position)
      case (nil, let value?): append(key, value)
      case (nil, nil): break
      }
    }
  }

  /// The position of `key` among the members, or `nil`.
  public func position(of key: JSONString) -> Int? {
    if let positions { return positions[key] }
    return keysInOrder.firstIndex(of: key)
  }

  /// Removes the value of `key` for a moment and gives it to `body` to change in place.
  ///
  /// The caller gets what `body` returns, or `nil` if there is no such member. The value is not
  /// copied when nobody else holds it.
  public mutating func update<Result, Failure: Error>(
    _ key: JSONString,
    _ body: (inout JSON) throws(Failure) -> Result
  ) throws(Failure) -> Result? {
    guard let position = position(of: key) else { return nil }
    return try body(&valuesInOrder[position])
  }

  private mutating func append(_ key: JSONString, _ value: JSON) {
    keysInOrder.append(key)
    valuesInOrder.append(value)
    if positions != nil {
      positions?[key] = keysInOrder.count - 1
    } else if keysInOrder.count >= Self.indexedFrom {
      rebuildPositions()
    }
  }

  private mutating func remove(at position: Int) {
    let key = keysInOrder.remove(at: position)
    valuesInOrder.remove(at: position)
    guard positions != nil else { return }
    if position == keysInOrder.count { positions?[key] = nil } else { rebuildPositions() }
  }

  private mutating func rebuildPositions() {
    var rebuilt: [JSONString: Int] = [:]
    rebuilt.reserveCapacity(keysInOrder.count)
    for (position, key) in keysInOrder.enumerated() { rebuilt[key] = position }
    positions = rebuilt
  }
}

extension JSONObject: Equatable {
  public static func == (left: JSONObject, right: JSONObject) -> Bool {
    guard left.count == right.count else { return false }
    for (position, key) in left.keysInOrder.enumerated() {
      if position < right.count, right.keysInOrder[position] == key {
        if left.valuesInOrder[position] != right.valuesInOrder[position] { return false }
      } else {
        guard let other = right[key], other == left.valuesInOrder[position] else { return false }
      }
    }
    return true
  }
}

extension JSONObject: Sequence {
  /// Visits the members in order.
  public struct Iterator: IteratorProtocol {
    private let members: JSONObject
    private var position = 0

    init(_ members: JSONObject) { self.members = members }

    /// Returns the next member, or `nil` after the last.
    public mutating func next() -> Member? {
      guard position < members.count else { return nil }
      defer { position += 1 }
      return (members.keysInOrder[position], members.valuesInOrder[position])
    }
  }

  /// Visits the members in order.
  public func makeIterator() -> Iterator { Iterator(self) }

  /// How many members there are to visit.
  public var underestimatedCount: Int { count }
}

extension JSONObject: ExpressibleByDictionaryLiteral {
  public init(dictionaryLiteral elements: (JSONString, JSON)...) {
    keysInOrder.reserveCapacity(elements.count)
    valuesInOrder.reserveCapacity(elements.count)
    for (key, value) in elements { self[key] = value }
  }
}
