/// A JSON Schema (2020-12), ready to check values.
///
/// Served are `type`, `properties`, `required`, `additionalProperties`, `items`, `enum`, `const`,
/// `anyOf`, `oneOf`, the bounds of numbers, the lengths of strings and arrays, and `$ref` within
/// the document. Annotations are ignored; a schema with any other assertion is refused, so that
/// nothing passes that its author wanted to forbid.
public struct JSONSchema: Sendable {
  let nodes: [SchemaNode]
  let root: Int

  /// Compiles a schema; throws when it has an assertion that is not served or makes no sense.
  public init(compiling document: JSON) throws(SchemaError) {
    var compiler = SchemaCompiler(document: document)
    (nodes, root) = try compiler.compile()
  }

  /// Returns how `value` breaks the schema, at most a hundred ways; empty if it is valid.
  ///
  /// The work is bounded: a check that takes too long is itself a violation.
  public func validate(_ value: JSON) -> [SchemaViolation] {
    var check = SchemaCheck(schema: self)
    return check.violations(of: value)
  }

  /// Returns `value` with the small mistakes of models repaired; it may still be invalid.
  ///
  /// A null for an optional property that cannot be null is dropped. Scalars become the wanted
  /// type where that is possible without doubt: `"5"` a number, `"true"` and `1` a boolean, a
  /// number a string, null the empty value. Of a union the first member that fits is taken.
  public func coerce(_ value: JSON) -> JSON {
    var coercion = SchemaCoercion(schema: self)
    return coercion.coerce(value)
  }
}

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

  /// Schemas that look at the same value.
  var sameValue: [Int] { (reference.map { [$0] } ?? []) + (anyOf ?? []) + (oneOf ?? []) }
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
