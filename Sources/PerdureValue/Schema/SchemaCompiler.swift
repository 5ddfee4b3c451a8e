/// Turns a schema document into nodes.
///
/// It works from a list instead of recursing, and names places by numbers instead of pointers, so
/// that a hostile document costs no more than its size.
struct SchemaCompiler {
  private let document: JSON
  private var nodes: [SchemaNode] = []
  private var waiting: [(node: Int, schema: JSON, place: Place)] = []
  private var nodeOfPlace: [Place: Int] = [:]
  private var placeOfNode: [Place] = []
  private var steps: [Step: Place] = [:]
  private var stepOfPlace: [Step?] = [nil]

  /// A place in the document; 0 is the whole.
  private typealias Place = Int

  private struct Step: Hashable {
    var parent: Place
    var segment: JSONString
  }

  private static let maxNodes = 100_000
  private static let maxSameValueDepth = 64

  init(document: JSON) { self.document = document }

  mutating func compile() throws(SchemaError) -> (nodes: [SchemaNode], root: Int) {
    let root = node(of: document, at: 0)
    while let (node, schema, place) = waiting.popLast() {
      guard nodes.count <= Self.maxNodes else { throw .tooLarge(at: pointer(place)) }
      nodes[node] = try compile(schema, at: place)
    }
    try checkSameValueDepth()
    return (nodes, root)
  }

  private mutating func node(of schema: JSON, at place: Place) -> Int {
    if let known = nodeOfPlace[place] { return known }
    nodes.append(SchemaNode())
    placeOfNode.append(place)
    nodeOfPlace[place] = nodes.count - 1
    waiting.append((nodes.count - 1, schema, place))
    return nodes.count - 1
  }

  private mutating func place(_ segment: JSONString, in parent: Place) -> Place {
    let step = Step(parent: parent, segment: segment)
    if let known = steps[step] { return known }
    stepOfPlace.append(step)
    steps[step] = stepOfPlace.count - 1
    return stepOfPlace.count - 1
  }

  private func pointer(_ place: Place) -> String {
    var segments: [String] = []
    var current = place
    while let step = stepOfPlace[current] {
      segments.append(step.segment.string)
      current = step.parent
    }
    return SchemaPointer.text(segments.reversed())
  }

  private mutating func compile(_ schema: JSON, at place: Place) throws(SchemaError) -> SchemaNode {
    var node = SchemaNode()
    switch schema {
    case .bool(let allows): node.isNever = !allows
    case .object(let members):
      for (keyword, value) in members {
        try compile(keyword.string, value, at: place, into: &node)
      }
    default: throw .invalidKeyword("schema", at: pointer(place), expected: "an object or a boolean")
    }
    return node
  }

  private mutating func compile(
    _ keyword: String,
    _ value: JSON,
    at place: Place,
    into node: inout SchemaNode
  ) throws(SchemaError) {
    func invalid(_ expected: String) -> SchemaError {
      .invalidKeyword(keyword, at: pointer(place), expected: expected)
    }
    switch keyword {
    case "type": node.types = try types(value, or: invalid("a type or a list of types"))
    case "enum":
      guard let allowed = value.array else { throw invalid("an array") }
      node.allowed = allowed
    case "const": node.constant = value
    case "required":
      guard let names = value.array else { throw invalid("an array of strings") }
      for name in names {
        guard let name = name.string else { throw invalid("an array of strings") }
        node.required.append(name)
      }
    case "properties":
      guard let members = value.object else { throw invalid("an object of schemas") }
      node.properties = children(members, "properties", at: place)
    case "$defs", "definitions":
      guard let members = value.object else { throw invalid("an object of schemas") }
      _ = children(members, JSONString(keyword), at: place)
    case "additionalProperties": node.additionalProperties = child(keyword, value, at: place)
    case "items": node.items = child(keyword, value, at: place)
    case "anyOf": node.anyOf = try alternatives(keyword, value, at: place)
    case "oneOf": node.oneOf = try alternatives(keyword, value, at: place)
    case "minLength": node.minLength = try length(value, or: invalid("a length"))
    case "maxLength": node.maxLength = try length(value, or: invalid("a length"))
    case "minItems": node.minItems = try length(value, or: invalid("a length"))
    case "maxItems": node.maxItems = try length(value, or: invalid("a length"))
    case "$ref": node.reference = try reference(value, at: place)
    // An inner resource would give "#" another meaning.
    case "$id" where place != 0: throw .unsupportedKeyword(keyword, at: pointer(place))
    default:
      if let kind = SchemaNode.Bound.Kind(rawValue: keyword) {
        guard JSONType.number.matches(value) else { throw invalid("a number") }
        node.bounds.append(SchemaNode.Bound(kind: kind, limit: value))
      } else if Self.unsupported.contains(keyword) {
        throw .unsupportedKeyword(keyword, at: pointer(place))
      }
    }
  }

  private func types(_ value: JSON, or error: SchemaError) throws(SchemaError) -> [JSONType] {
    var types: [JSONType] = []
    for name in value.array ?? [value] {
      guard let type = name.text.flatMap(JSONType.init(rawValue:)) else { throw error }
      types.append(type)
    }
    guard !types.isEmpty else { throw error }
    return types
  }

  private func length(_ value: JSON, or error: SchemaError) throws(SchemaError) -> Int64 {
    if case .bigInteger(let digits) = value, !digits.hasPrefix("-") { return .max }
    guard let length = value.int, length >= 0 else { throw error }
    return length
  }

  private mutating func child(_ keyword: String, _ schema: JSON, at parent: Place) -> Int {
    node(of: schema, at: place(JSONString(keyword), in: parent))
  }

  private mutating func children(
    _ members: JSONObject,
    _ keyword: JSONString,
    at parent: Place
  ) -> [JSONString: Int] {
    let group = place(keyword, in: parent)
    var children: [JSONString: Int] = [:]
    for (key, schema) in members { children[key] = node(of: schema, at: place(key, in: group)) }
    return children
  }

  private mutating func alternatives(
    _ keyword: String,
    _ value: JSON,
    at parent: Place
  ) throws(SchemaError) -> [Int] {
    guard let schemas = value.array, !schemas.isEmpty else {
      throw .invalidKeyword(keyword, at: pointer(parent), expected: "a non-empty array of schemas")
    }
    let group = place(JSONString(keyword), in: parent)
    var alternatives: [Int] = []
    for (position, schema) in schemas.enumerated() {
      alternatives.append(node(of: schema, at: place("\(position)", in: group)))
    }
    return alternatives
  }

  private mutating func reference(_ value: JSON, at origin: Place) throws(SchemaError) -> Int {
    guard let text = value.string?.unicode else {
      throw .invalidKeyword("$ref", at: pointer(origin), expected: "a reference")
    }
    let unresolved = SchemaError.unresolvedReference(text, at: pointer(origin))
    guard text.utf8.first == UInt8(ascii: "#"),
      let segments = SchemaPointer.segments(ofFragment: String(text.dropFirst()))
    else { throw unresolved }
    var (target, targetPlace) = (document, 0)
    for segment in segments {
      switch target {
      case .object(let members):
        guard let member = members[segment] else { throw unresolved }
        target = member
      case .array(let elements):
        guard let index = Int(segment.string), "\(index)" == segment.string,
          elements.indices.contains(index)
        else { throw unresolved }
        target = elements[index]
      default: throw unresolved
      }
      targetPlace = place(segment, in: targetPlace)
    }
    return node(of: target, at: targetPlace)
  }

  /// Refuses schemas that would be applied to one value without end, or in a very long chain.
  private func checkSameValueDepth() throws(SchemaError) {
    var incoming = [Int](repeating: 0, count: nodes.count)
    for node in nodes { for next in node.sameValue { incoming[next] += 1 } }
    var depth = [Int](repeating: 1, count: nodes.count)
    var ready = nodes.indices.filter { incoming[$0] == 0 }
    while let current = ready.popLast() {
      guard depth[current] <= Self.maxSameValueDepth else {
        throw .tooLarge(at: pointer(placeOfNode[current]))
      }
      for next in nodes[current].sameValue {
        depth[next] = max(depth[next], depth[current] + 1)
        incoming[next] -= 1
        if incoming[next] == 0 { ready.append(next) }
      }
    }
    if let endless = incoming.firstIndex(where: { $0 > 0 }) {
      throw .endlessReference(at: pointer(placeOfNode[endless]))
    }
  }

  /// Assertions and references of any draft that are not served.
  private static let unsupported: Set<String> = [
    "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef", "$vocabulary",
    "additionalItems", "allOf", "contains", "dependencies", "dependentRequired", "dependentSchemas",
    "disallow", "divisibleBy", "else", "extends", "if", "id", "maxContains", "maxProperties",
    "minContains", "minProperties", "multipleOf", "not", "nullable", "pattern",
    "patternProperties", "prefixItems", "propertyNames", "then", "unevaluatedItems",
    "unevaluatedProperties", "uniqueItems",
  ]
}
