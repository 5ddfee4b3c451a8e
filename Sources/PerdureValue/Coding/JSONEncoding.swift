extension JSON {
  /// Makes the JSON form of a value.
  ///
  /// Integers stay exact whatever their width, `JSON` and `JSONString` values stay what they are.
  /// Throws `EncodingError` for a number that is not finite, and what the value itself throws.
  public init(encoding value: some Encodable) throws {
    self = try JSONEncoding(codingPath: []).part(value).json
  }
}

/// What an encoder has been given so far.
private final class EncodedNode {
  enum Part {
    case value(JSON)
    case node(EncodedNode)

    var json: JSON {
      switch self {
      case .value(let value): value
      case .node(let node): node.json
      }
    }
  }

  enum Content {
    case value(JSON)
    case object([(key: JSONString, part: Part)])
    case array([Part])
  }

  // A type that encodes nothing has no members.
  var content = Content.object([])

  var json: JSON {
    switch content {
    case .value(let value): value
    case .object(let members): .object(JSONObject(members.map { ($0.key, $0.part.json) }))
    case .array(let parts): .array(parts.map { $0.json })
    }
  }

  func add(_ part: Part, _ key: any CodingKey) {
    var members: [(key: JSONString, part: Part)] = []
    if case .object(let known) = content { members = known }
    content = .value(.null)
    members.append((JSONString(key.stringValue), part))
    content = .object(members)
  }

  func add(_ part: Part) {
    var parts = elements
    content = .value(.null)
    parts.append(part)
    content = .array(parts)
  }

  var elements: [Part] {
    if case .array(let parts) = content { return parts }
    return []
  }
}

/// Encodes into one node; whoever asks for another container than before begins anew.
private struct JSONEncoding: Encoder {
  let codingPath: [any CodingKey]
  var node = EncodedNode()
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
    if case .object = node.content {} else { node.content = .object([]) }
    return KeyedEncodingContainer(Keyed<Key>(encoder: self))
  }

  func unkeyedContainer() -> any UnkeyedEncodingContainer {
    if case .array = node.content {} else { node.content = .array([]) }
    return Unkeyed(encoder: self)
  }

  func singleValueContainer() -> any SingleValueEncodingContainer { Single(encoder: self) }

  func nested(_ key: any CodingKey) -> JSONEncoding { JSONEncoding(codingPath: codingPath + [key]) }

  func part(_ value: some Encodable) throws -> EncodedNode.Part {
    switch value {
    case let value as JSON: return .value(value)
    case let value as JSONString: return .value(.string(value))
    case let value as String: return .value(.string(value))
    case let value as Bool: return .value(.bool(value))
    case let value as Double: return .value(try number(value))
    case let value as Float: return .value(try number(Double(value)))
    case let value as any FixedWidthInteger: return .value(Self.integer(value))
    default:
      let encoder = JSONEncoding(codingPath: codingPath)
      try value.encode(to: encoder)
      return .node(encoder.node)
    }
  }

  private static func integer(_ value: some FixedWidthInteger) -> JSON {
    Int64(exactly: value).map { .int($0) } ?? .bigInteger(String(value))
  }

  private func number(_ value: Double) throws -> JSON {
    if value.isFinite { return .double(value) }
    throw EncodingError.invalidValue(
      value,
      EncodingError.Context(codingPath: codingPath, debugDescription: "JSON has no such number")
    )
  }

  struct Keyed<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let encoder: JSONEncoding
    var codingPath: [any CodingKey] { encoder.codingPath }

    mutating func encodeNil(forKey key: Key) { encoder.node.add(.value(.null), key) }

    mutating func encode<T: Encodable>(_ value: T, forKey key: Key) throws {
      encoder.node.add(try encoder.nested(key).part(value), key)
    }

    private func nested(_ key: any CodingKey) -> JSONEncoding {
      let nested = encoder.nested(key)
      encoder.node.add(.node(nested.node), key)
      return nested
    }

    mutating func nestedContainer<Nested: CodingKey>(
      keyedBy type: Nested.Type,
      forKey key: Key
    ) -> KeyedEncodingContainer<Nested> { nested(key).container(keyedBy: type) }

    mutating func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
      nested(key).unkeyedContainer()
    }

    mutating func superEncoder() -> any Encoder { nested(AnyKey("super")) }

    mutating func superEncoder(forKey key: Key) -> any Encoder { nested(key) }
  }

  struct Unkeyed: UnkeyedEncodingContainer {
    let encoder: JSONEncoding
    var codingPath: [any CodingKey] { encoder.codingPath }
    var count: Int { encoder.node.elements.count }

    mutating func encodeNil() { encoder.node.add(.value(.null)) }

    mutating func encode<T: Encodable>(_ value: T) throws {
      encoder.node.add(try encoder.nested(AnyKey(count)).part(value))
    }

    private func nested() -> JSONEncoding {
      let nested = encoder.nested(AnyKey(count))
      encoder.node.add(.node(nested.node))
      return nested
    }

    mutating func nestedContainer<Nested: CodingKey>(
      keyedBy type: Nested.Type
    ) -> KeyedEncodingContainer<Nested> { nested().container(keyedBy: type) }

    mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
      nested().unkeyedContainer()
    }

    mutating func superEncoder() -> any Encoder { nested() }
  }

  struct Single: SingleValueEncodingContainer {
    let encoder: JSONEncoding
    var codingPath: [any CodingKey] { encoder.codingPath }

    mutating func encodeNil() { encoder.node.content = .value(.null) }

    mutating func encode<T: Encodable>(_ value: T) throws {
      switch try encoder.part(value) {
      case .value(let value): encoder.node.content = .value(value)
      case .node(let node): encoder.node.content = node.content
      }
    }
  }
}

/// A key that is only a name or a position.
struct AnyKey: CodingKey {
  let stringValue: String
  let intValue: Int?

  init(_ index: Int) {
    stringValue = String(index)
    intValue = index
  }

  init(_ name: String) {
    stringValue = name
    intValue = nil
  }

  init?(stringValue: String) { self.init(stringValue) }
  init?(intValue: Int) { self.init(intValue) }
}
