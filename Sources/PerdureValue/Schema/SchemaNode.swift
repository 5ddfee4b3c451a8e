/// One schema of a document.
struct SchemaNode: Sendable {
  /// `false` as a schema, which no value satisfies.
  var isNever = false
  var types: [JSONType] = []
  var properties: [JSONString: Int] = [:]
  var required: [JSONString] = []
  var additionalProperties: Int?
  var items: Int?
  var allowed: [JSON]?
  var constant: JSON?
  var anyOf: [Int]?
  var oneOf: [Int]?
  var reference: Int?
  var bounds: [Bound] = []
  var minLength: Int64?
  var maxLength: Int64?
  var minItems: Int64?
  var maxItems: Int64?
  /// The part of the document with an identifier of its own to which it belongs.
  var resource = 0
  /// What most schemas do not have; apart, because nodes are copied for each check.
  var more: More?

  /// One bound of a number.
  struct Bound: Sendable {
    var kind: Kind
    var limit: JSON

    enum Kind: String, CaseIterable, Sendable {
      case minimum
      case maximum
      case exclusiveMinimum
      case exclusiveMaximum
    }
  }

  /// A node that is done; checks go deep and must not copy it at each level.
  final class Box: Sendable {
    let value: SchemaNode

    init(_ value: SchemaNode) { self.value = value }
  }

  /// Keywords that are rare.
  final class More: Sendable {
    let keywords: RareKeywords

    init(_ keywords: RareKeywords) { self.keywords = keywords }
  }

  /// Schemas that look at the same value.
  var sameValue: [Int] {
    var nodes = (reference.map { [$0] } ?? []) + (anyOf ?? []) + (oneOf ?? [])
    guard let rare = more?.keywords else { return nodes }
    nodes += rare.allOf + rare.dependentSchemas.map { $0.schema }
    if let dynamic = rare.dynamicReference, dynamic.anchor == nil { nodes.append(dynamic.node) }
    nodes += [rare.not, rare.condition, rare.then, rare.otherwise].compactMap { $0 }
    return nodes
  }
}

/// Keywords that most schemas do not have.
struct RareKeywords: Sendable {
  var allOf: [Int] = []
  var not: Int?
  var condition: Int?
  var then: Int?
  var otherwise: Int?
  var multipleOf: Decimal?
  var pattern: SchemaPattern?
  var uniqueItems = false
  var prefixItems: [Int] = []
  var contains: Int?
  var minContains: Int64?
  var maxContains: Int64?
  var minProperties: Int64?
  var maxProperties: Int64?
  var patternProperties: [(pattern: SchemaPattern, schema: Int)] = []
  var propertyNames: Int?
  var dependentRequired: [(key: JSONString, names: [JSONString])] = []
  var dependentSchemas: [(key: JSONString, schema: Int)] = []
  var unevaluatedItems: Int?
  var unevaluatedProperties: Int?
  var dynamicReference: DynamicReference?

  /// A `$dynamicRef`: the outermost anchor of this name, or else the schema it leads to itself.
  struct DynamicReference: Sendable {
    var node: Int
    /// Absent if it is like a `$ref`.
    var anchor: String?
  }
}

/// A regular expression and how it was written.
struct SchemaPattern: Sendable {
  var pattern: Pattern
  var source: JSONString
}

/// The types of JSON Schema.
enum JSONType: String, Sendable {
  case null
  case boolean
  case integer
  case number
  case string
  case array
  case object

  func matches(_ value: JSON) -> Bool {
    switch (self, value) {
    case (.null, .null), (.boolean, .bool), (.string, .string), (.array, .array),
      (.object, .object), (.number, .int), (.number, .double), (.number, .bigInteger),
      (.integer, .int), (.integer, .bigInteger):
      true
    case (.integer, .double(let number)): number.rounded() == number
    default: false
    }
  }

  static func name(of value: JSON) -> String {
    switch value {
    case .null: "null"
    case .bool: "boolean"
    case .int, .bigInteger: "integer"
    case .double: "number"
    case .string: "string"
    case .array: "array"
    case .object: "object"
    }
  }
}
