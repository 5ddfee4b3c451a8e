/// A JSON Schema (2020-12), ready to check values.
///
/// Served are all keywords of the draft that assert something, references and names within the
/// document, and `dependencies` of older drafts. Annotations are ignored, `format` and the
/// `content` keywords among them. Refused is what would have another meaning elsewhere: references
/// to other documents, `$schema` of another maker, and assertions of other drafts, so that nothing
/// passes that its author wanted to forbid.
///
/// Regular expressions are those of ECMA-262 with Unicode, without references back to groups.
public struct JSONSchema: Sendable {
  let nodes: [SchemaNode.Box]
  let root: Int
  /// The dynamic anchors of each resource.
  let anchors: [[String: Int]]

  init(nodes: [SchemaNode], root: Int, anchors: [[String: Int]]) {
    self.nodes = nodes.map { SchemaNode.Box($0) }
    self.root = root
    self.anchors = anchors
  }

  /// Compiles a schema; throws when it has an assertion that is not served or makes no sense.
  public init(compiling document: JSON) throws(SchemaError) {
    var compiler = SchemaCompiler(document: document)
    self = try compiler.compile()
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
