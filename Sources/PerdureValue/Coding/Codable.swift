// Inside Perdure's own coders these three stay as they are; the forms below serve any other coder.

extension JSON: Codable {
  public init(from decoder: any Decoder) throws {
    if let own = decoder as? JSONDecoding {
      self = own.value
    } else if let container = try? decoder.container(keyedBy: AnyKey.self) {
      var members = JSONObject()
      for key in container.allKeys {
        members[JSONString(key.stringValue)] = try container.decode(JSON.self, forKey: key)
      }
      self = .object(members)
    } else if var container = try? decoder.unkeyedContainer() {
      var elements: [JSON] = []
      while !container.isAtEnd { elements.append(try container.decode(JSON.self)) }
      self = .array(elements)
    } else {
      self = try JSON(scalar: try decoder.singleValueContainer())
    }
  }

  private init(scalar container: any SingleValueDecodingContainer) throws {
    if container.decodeNil() {
      self = .null
    } else if let value = try? container.decode(Bool.self) {
      self = .bool(value)
    } else if let value = try? container.decode(Int64.self) {
      self = .int(value)
    } else if let value = try? container.decode(Double.self) {
      self = .double(value)
    } else {
      self = .string(try container.decode(String.self))
    }
  }

  public func encode(to encoder: any Encoder) throws {
    switch self {
    case .object(let members):
      var container = encoder.container(keyedBy: AnyKey.self)
      for (key, value) in members { try container.encode(value, forKey: AnyKey(key.string)) }
    case .array(let elements):
      var container = encoder.unkeyedContainer()
      for element in elements { try container.encode(element) }
    default:
      var container = encoder.singleValueContainer()
      switch self {
      case .bool(let value): try container.encode(value)
      case .int(let value): try container.encode(value)
      case .double(let value): try container.encode(value)
      case .bigInteger(let digits): try container.encode(Double(digits) ?? 0)
      case .string(let string): try container.encode(string)
      case .null, .object, .array: try container.encodeNil()
      }
    }
  }
}

extension JSONString: Codable {
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    if decoder is JSONDecoding {
      self = try container.decode(JSONString.self)
    } else {
      self.init(try container.decode(String.self))
    }
  }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(string)
  }
}

extension Identifier: Codable {
  public init(from decoder: any Decoder) throws {
    let container = try decoder.singleValueContainer()
    guard let id = Identifier(try container.decode(Int64.self)) else {
      throw DecodingError.dataCorruptedError(in: container, debugDescription: "no id in range")
    }
    self = id
  }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.singleValueContainer()
    try container.encode(value)
  }
}
