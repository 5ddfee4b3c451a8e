/// The keywords that say what is allowed.
extension SchemaCompiler {
  mutating func compile(
    _ keyword: String,
    _ value: JSON,
    in scope: inout SchemaScope
  ) throws(SchemaError) {
    switch keyword {
    case "type": scope.result.types = try types(value, scope)
    case "enum":
      guard let allowed = value.array else { throw invalid(keyword, scope, "an array") }
      scope.result.allowed = allowed
    case "const": scope.result.constant = value
    case "required": scope.result.required = try names(keyword, value, scope)
    case "properties":
      for (key, schema) in try children(keyword, value, scope) {
        scope.result.properties[key] = schema
      }
    case "$defs", "definitions": _ = try children(keyword, value, scope)
    case "additionalProperties": scope.result.additionalProperties = child(keyword, value, scope)
    case "items": scope.result.items = child(keyword, value, scope)
    case "anyOf": scope.result.anyOf = try list(keyword, value, scope)
    case "oneOf": scope.result.oneOf = try list(keyword, value, scope)
    case "minLength": scope.result.minLength = try length(keyword, value, scope)
    case "maxLength": scope.result.maxLength = try length(keyword, value, scope)
    case "minItems": scope.result.minItems = try length(keyword, value, scope)
    case "maxItems": scope.result.maxItems = try length(keyword, value, scope)
    case "$ref", "$dynamicRef":
      guard let text = value.string?.unicode else { throw invalid(keyword, scope, "a reference") }
      references.append(
        Reference(node: scope.node, text: text, isDynamic: keyword == "$dynamicRef")
      )
    default:
      if let kind = SchemaNode.Bound.Kind(rawValue: keyword) {
        guard JSONType.number.matches(value) else { throw invalid(keyword, scope, "a number") }
        scope.result.bounds.append(SchemaNode.Bound(kind: kind, limit: value))
      } else {
        try compileRare(keyword, value, in: &scope)
      }
    }
  }

  private mutating func compileRare(
    _ keyword: String,
    _ value: JSON,
    in scope: inout SchemaScope
  ) throws(SchemaError) {
    switch keyword {
    case "allOf": scope.rare.allOf = try list(keyword, value, scope)
    case "not": scope.rare.not = child(keyword, value, scope)
    case "if": scope.rare.condition = child(keyword, value, scope)
    case "then": scope.rare.then = child(keyword, value, scope)
    case "else": scope.rare.otherwise = child(keyword, value, scope)
    case "prefixItems": scope.rare.prefixItems = try list(keyword, value, scope)
    case "contains": scope.rare.contains = child(keyword, value, scope)
    case "minContains": scope.rare.minContains = try length(keyword, value, scope)
    case "maxContains": scope.rare.maxContains = try length(keyword, value, scope)
    case "minProperties": scope.rare.minProperties = try length(keyword, value, scope)
    case "maxProperties": scope.rare.maxProperties = try length(keyword, value, scope)
    case "propertyNames": scope.rare.propertyNames = child(keyword, value, scope)
    case "unevaluatedItems": scope.rare.unevaluatedItems = child(keyword, value, scope)
    case "unevaluatedProperties": scope.rare.unevaluatedProperties = child(keyword, value, scope)
    case "dependentSchemas":
      scope.rare.dependentSchemas += try children(keyword, value, scope)
    case "uniqueItems":
      guard let isUnique = value.bool else { throw invalid(keyword, scope, "a boolean") }
      scope.rare.uniqueItems = isUnique
    case "multipleOf":
      guard let divisor = Decimal(value) else {
        throw invalid(keyword, scope, "a number above zero with at most 19 digits")
      }
      scope.rare.multipleOf = divisor
    case "pattern":
      guard let source = value.string else { throw invalid(keyword, scope, "a string") }
      scope.rare.pattern = try pattern(keyword, source, scope)
    case "patternProperties":
      for (key, schema) in try children(keyword, value, scope) {
        scope.rare.patternProperties.append((try pattern(keyword, key, scope), schema))
      }
    case "dependentRequired":
      guard let members = value.object else {
        throw invalid(keyword, scope, "an object of arrays of strings")
      }
      for (key, value) in members {
        scope.rare.dependentRequired.append((key, try names(keyword, value, scope)))
      }
    case "dependencies": try compileDependencies(value, in: &scope)
    default:
      if Self.unsupported.contains(keyword) {
        throw .unsupportedKeyword(keyword, at: pointer(scope.place))
      }
    }
  }

  /// What older drafts had in place of two keywords.
  private mutating func compileDependencies(
    _ value: JSON,
    in scope: inout SchemaScope
  ) throws(SchemaError) {
    guard let members = value.object else {
      throw invalid("dependencies", scope, "an object of schemas or arrays of strings")
    }
    let group = place("dependencies", in: scope.place)
    for (key, value) in members {
      if value.array != nil {
        scope.rare.dependentRequired.append((key, try names("dependencies", value, scope)))
      } else {
        let schema = node(of: value, at: place(key, in: group), in: scope.resource)
        scope.rare.dependentSchemas.append((key, schema))
      }
    }
  }

  private func types(_ value: JSON, _ scope: SchemaScope) throws(SchemaError) -> [JSONType] {
    let error = invalid("type", scope, "a type or a list of types")
    var types: [JSONType] = []
    for name in value.array ?? [value] {
      guard let type = name.text.flatMap(JSONType.init(rawValue:)) else { throw error }
      types.append(type)
    }
    guard !types.isEmpty else { throw error }
    return types
  }

  /// Assertions and references of other drafts.
  private static let unsupported: Set<String> = [
    "$recursiveAnchor", "$recursiveRef", "additionalItems", "disallow", "divisibleBy", "extends",
    "id", "nullable",
  ]
}
