/// Repairs the small mistakes that models make in arguments.
struct SchemaCoercion {
  private let schema: JSONSchema
  private var check: SchemaCheck
  private var stepsLeft = 200_000
  private var depthLeft = 1_024

  init(schema: JSONSchema) {
    self.schema = schema
    check = SchemaCheck(schema: schema)
  }

  mutating func coerce(_ value: JSON) -> JSON { coerce(value, schema.root) }

  private mutating func coerce(_ value: JSON, _ index: Int) -> JSON {
    stepsLeft -= 1
    guard stepsLeft > 0, depthLeft > 0 else { return value }
    depthLeft -= 1
    defer { depthLeft += 1 }
    let node = schema.nodes[index]
    var value = value
    if let reference = node.value.reference { value = coerce(value, reference) }
    for part in node.value.more?.keywords.allOf ?? [] { value = coerce(value, part) }
    for alternatives in [node.value.anyOf, node.value.oneOf] {
      if let alternatives { value = coerce(value, toOneOf: alternatives) }
    }
    if !node.value.types.isEmpty, !node.value.types.contains(where: { $0.matches(value) }) {
      value = node.value.types.lazy.compactMap { Self.scalar(value, as: $0) }.first ?? value
    }
    switch value {
    case .object(let members): return .object(coerce(members, node))
    case .array(let elements):
      let prefix = node.value.more?.keywords.prefixItems ?? []
      guard node.value.items != nil || !prefix.isEmpty else { return value }
      return .array(
        elements.enumerated().map { index, element in
          guard let next = index < prefix.count ? prefix[index] : node.value.items else {
            return element
          }
          return coerce(element, next)
        }
      )
    default: return value
    }
  }

  private mutating func coerce(_ value: JSON, toOneOf alternatives: [Int]) -> JSON {
    if alternatives.contains(where: { check.isValid($0, value) }) { return value }
    for alternative in alternatives {
      let candidate = coerce(value, alternative)
      if check.isValid(alternative, candidate) { return candidate }
    }
    return value
  }

  private mutating func coerce(_ members: JSONObject, _ node: SchemaNode.Box) -> JSONObject {
    guard !node.value.properties.isEmpty || node.value.additionalProperties != nil else {
      return members
    }
    var coerced = JSONObject()
    for (key, value) in members {
      guard let next = node.value.properties[key] ?? node.value.additionalProperties else {
        coerced[key] = value
        continue
      }
      if value.isNull, node.value.properties[key] != nil, !node.value.required.contains(key),
        !check.isValid(next, value)
      {
        continue
      }
      coerced[key] = coerce(value, next)
    }
    return coerced
  }

  /// The scalar of `type` that `value` surely means, or `nil`.
  private static func scalar(_ value: JSON, as type: JSONType) -> JSON? {
    switch (type, value) {
    case (.string, .null): ""
    case (.string, .bool(let truth)): .string(truth ? "true" : "false")
    case (.string, .double(let number)): .string(integral(number)?.compactText ?? "\(number)")
    case (.string, .int), (.string, .bigInteger): .string(value.compactText)
    case (.boolean, .null): false
    case (.boolean, .string("true")): true
    case (.boolean, .string("false")): false
    case (.boolean, .int(1)), (.boolean, .double(1)): true
    case (.boolean, .int(0)), (.boolean, .double(0)): false
    case (.number, .null), (.integer, .null): 0
    case (.number, .bool(let truth)), (.integer, .bool(let truth)): .int(truth ? 1 : 0)
    case (.number, .string(let text)): number(text)
    case (.integer, .string(let text)):
      number(text).flatMap { JSONType.integer.matches($0) ? $0 : JSON?.none }
    case (.null, .string("")), (.null, .int(0)), (.null, .double(0)), (.null, .bool(false)): .null
    default: nil
    }
  }

  private static func number(_ text: JSONString) -> JSON? {
    guard let parsed = try? JSON(parsing: text.bytes), JSONType.number.matches(parsed) else {
      return nil
    }
    if case .double(let number) = parsed, let whole = integral(number) { return whole }
    return parsed
  }

  private static func integral(_ number: Double) -> JSON? {
    Int64(exactly: number).map { .int($0) }
  }
}
