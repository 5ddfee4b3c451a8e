extension JSON {
  /// Returns the value whose JSON form this is.
  ///
  /// Integers must be exact. A string with a lone surrogate is no `String`; as a `JSONString` or
  /// `JSON` it stays what it is. Throws `DecodingError`, and what the type itself throws.
  public func decoded<Value: Decodable>(as type: Value.Type = Value.self) throws -> Value {
    try JSONDecoding(value: self, codingPath: []).decode(type)
  }
}

/// Decodes from one value.
struct JSONDecoding: Decoder {
  let value: JSON
  let codingPath: [any CodingKey]
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
    guard case .object(let members) = value else { throw mismatch(JSONObject.self, "an object") }
    return KeyedDecodingContainer(Keyed<Key>(members: members, codingPath: codingPath))
  }

  func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
    guard case .array(let elements) = value else { throw mismatch([JSON].self, "an array") }
    return Unkeyed(elements: elements, codingPath: codingPath)
  }

  func singleValueContainer() -> any SingleValueDecodingContainer { Single(decoder: self) }

  func mismatch(_ type: Any.Type, _ wanted: String) -> DecodingError {
    DecodingError.typeMismatch(
      type,
      DecodingError.Context(codingPath: codingPath, debugDescription: "this is not \(wanted)")
    )
  }

  func decode<T: Decodable>(_ type: T.Type) throws -> T {
    guard let leaf = try leaf(type) else { return try T(from: self) }
    guard let result = leaf as? T else { throw mismatch(type, "a \(type)") }
    return result
  }

  /// Returns the value for the types that have a JSON form of their own, else `nil`.
  private func leaf(_ type: Any.Type) throws -> Any? {
    switch type {
    case is JSON.Type: return value
    case is Bool.Type: return try require(value.bool, type, "a truth value")
    case is JSONString.Type: return try require(value.string, type, "a string")
    case is String.Type:
      let string = try require(value.string, type, "a string")
      return try require(string.unicode, type, "Unicode: it holds a lone surrogate")
    case is Double.Type: return try number()
    case is Float.Type:
      let number = Float(try number())
      return try require(number.isFinite ? number : nil, type, "a number of that range")
    case let type as any FixedWidthInteger.Type:
      func exact<I: FixedWidthInteger>(_ type: I.Type) -> Any? {
        switch value {
        case .int(let integer): I(exactly: integer)
        case .double(let number): I(exactly: number)
        case .bigInteger(let digits): I(digits)
        default: nil
        }
      }
      return try require(exact(type), type, "an integer of that range")
    default: return nil
    }
  }

  private func number() throws -> Double {
    let number = try require(value.double, Double.self, "a number")
    return try require(number.isFinite ? number : nil, Double.self, "a number of that range")
  }

  private func require<T>(_ value: T?, _ type: Any.Type, _ wanted: String) throws -> T {
    guard let value else { throw mismatch(type, wanted) }
    return value
  }

  struct Keyed<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let members: JSONObject
    let codingPath: [any CodingKey]

    var allKeys: [Key] {
      members.keys.compactMap { $0.unicode.flatMap { Key(stringValue: $0) } }
    }

    func contains(_ key: Key) -> Bool { members[JSONString(key.stringValue)] != nil }

    private func decoder(_ key: any CodingKey) throws -> JSONDecoding {
      guard let value = members[JSONString(key.stringValue)] else {
        throw DecodingError.keyNotFound(
          key,
          DecodingError.Context(codingPath: codingPath, debugDescription: "there is no such member")
        )
      }
      return JSONDecoding(value: value, codingPath: codingPath + [key])
    }

    func decodeNil(forKey key: Key) throws -> Bool { try decoder(key).value.isNull }

    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
      try decoder(key).decode(type)
    }

    func nestedContainer<Nested: CodingKey>(
      keyedBy type: Nested.Type,
      forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> { try decoder(key).container(keyedBy: type) }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
      try decoder(key).unkeyedContainer()
    }

    func superDecoder() throws -> any Decoder { try decoder(AnyKey("super")) }

    func superDecoder(forKey key: Key) throws -> any Decoder { try decoder(key) }
  }

  struct Unkeyed: UnkeyedDecodingContainer {
    let elements: [JSON]
    let codingPath: [any CodingKey]
    var currentIndex = 0

    var count: Int? { elements.count }
    var isAtEnd: Bool { currentIndex >= elements.count }

    private func current() throws -> JSONDecoding {
      let path = codingPath + [AnyKey(currentIndex)]
      guard elements.indices.contains(currentIndex) else {
        throw DecodingError.valueNotFound(
          JSON.self,
          DecodingError.Context(codingPath: path, debugDescription: "there is no further element")
        )
      }
      return JSONDecoding(value: elements[currentIndex], codingPath: path)
    }

    private mutating func next<T>(_ body: (JSONDecoding) throws -> T) throws -> T {
      let result = try body(try current())
      currentIndex += 1
      return result
    }

    mutating func decodeNil() throws -> Bool {
      guard try current().value.isNull else { return false }
      currentIndex += 1
      return true
    }

    mutating func decode<T: Decodable>(_ type: T.Type) throws -> T {
      try next { try $0.decode(type) }
    }

    mutating func nestedContainer<Nested: CodingKey>(
      keyedBy type: Nested.Type
    ) throws -> KeyedDecodingContainer<Nested> { try next { try $0.container(keyedBy: type) } }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
      try next { try $0.unkeyedContainer() }
    }

    mutating func superDecoder() throws -> any Decoder { try next { $0 } }
  }

  struct Single: SingleValueDecodingContainer {
    let decoder: JSONDecoding
    var codingPath: [any CodingKey] { decoder.codingPath }

    func decodeNil() -> Bool { decoder.value.isNull }

    func decode<T: Decodable>(_ type: T.Type) throws -> T { try decoder.decode(type) }
  }
}
