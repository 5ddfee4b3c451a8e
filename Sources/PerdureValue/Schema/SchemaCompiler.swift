/// Turns a schema document into nodes.
///
/// It works from a list instead of recursing, and names places by numbers instead of pointers, so
/// that a hostile document costs no more than its size.
struct SchemaCompiler {
  let document: JSON
  var nodes: [SchemaNode] = []
  /// The document, and what has an `$id` within it.
  var resources: [SchemaResource] = []
  var resourceOfURI: [SchemaURI: Int] = [:]
  /// References, which are followed when all names are known.
  var references: [Reference] = []
  private var waiting: [(node: Int, schema: JSON, place: Place)] = []
  private(set) var nodeOfPlace: [Place: Int] = [:]
  private var placeOfNode: [Place] = []
  private var steps: [Step: Place] = [:]
  private var stepOfPlace: [Step?] = [nil]
  private var patterns: [JSONString: SchemaPattern] = [:]
  private var patternSize = 0

  /// A place in the document; 0 is the whole.
  typealias Place = Int

  private struct Step: Hashable {
    var parent: Place
    var segment: JSONString
  }

  /// A `$ref` or `$dynamicRef` of a node.
  struct Reference {
    var node: Int
    var text: String
    var isDynamic: Bool
  }

  private static let maxNodes = 100_000
  private static let maxSameValueDepth = 64
  private static let maxPatternSize = 200_000

  init(document: JSON) { self.document = document }

  mutating func compile() throws(SchemaError) -> JSONSchema {
    resources = [SchemaResource(uri: .nameless, root: document, place: 0)]
    resourceOfURI[.nameless] = 0
    let root = node(of: document, at: 0, in: 0)
    while true {
      while let (node, schema, place) = waiting.popLast() {
        guard nodes.count <= Self.maxNodes else { throw .tooLarge(at: pointer(place)) }
        try compile(schema, at: place, into: node)
      }
      // Where they lead may be no place that was looked at before.
      guard let reference = references.popLast() else { break }
      try follow(reference)
    }
    try checkSameValueDepth()
    return JSONSchema(nodes: nodes, root: root, anchors: resources.map { $0.dynamicAnchors })
  }

  // MARK: Places

  mutating func node(of schema: JSON, at place: Place, in resource: Int) -> Int {
    if let known = nodeOfPlace[place] { return known }
    nodes.append(SchemaNode())
    nodes[nodes.count - 1].resource = resource
    placeOfNode.append(place)
    nodeOfPlace[place] = nodes.count - 1
    waiting.append((nodes.count - 1, schema, place))
    return nodes.count - 1
  }

  mutating func place(_ segment: JSONString, in parent: Place) -> Place {
    let step = Step(parent: parent, segment: segment)
    if let known = steps[step] { return known }
    stepOfPlace.append(step)
    steps[step] = stepOfPlace.count - 1
    return stepOfPlace.count - 1
  }

  func pointer(_ place: Place) -> String {
    var segments: [String] = []
    var current = place
    while let step = stepOfPlace[current] {
      segments.append(step.segment.string)
      current = step.parent
    }
    return SchemaPointer.text(segments.reversed())
  }

  func pointer(ofNode node: Int) -> String { pointer(placeOfNode[node]) }

  // MARK: Schemas

  private mutating func compile(
    _ schema: JSON,
    at place: Place,
    into node: Int
  ) throws(SchemaError) {
    switch schema {
    case .bool(let allows): nodes[node].isNever = !allows
    case .object(let members):
      var scope = SchemaScope(place: place, node: node, resource: nodes[node].resource)
      try name(members, &scope, schema)
      for (keyword, value) in members { try compile(keyword.string, value, in: &scope) }
      if scope.hasRare { scope.result.more = SchemaNode.More(scope.rare) }
      // References of this node come later and keep what is there.
      nodes[node] = scope.result
    default: throw .invalidKeyword("schema", at: pointer(place), expected: "an object or a boolean")
    }
  }

  func invalid(_ keyword: String, _ scope: SchemaScope, _ expected: String) -> SchemaError {
    .invalidKeyword(keyword, at: pointer(scope.place), expected: expected)
  }

  func length(_ keyword: String, _ value: JSON, _ scope: SchemaScope) throws(SchemaError) -> Int64 {
    if case .bigInteger(let digits) = value, !digits.hasPrefix("-") { return .max }
    guard let length = value.int, length >= 0 else { throw invalid(keyword, scope, "a length") }
    return length
  }

  func names(
    _ keyword: String,
    _ value: JSON,
    _ scope: SchemaScope
  ) throws(SchemaError) -> [JSONString] {
    guard let elements = value.array else {
      throw invalid(keyword, scope, "an array of strings")
    }
    var names: [JSONString] = []
    for element in elements {
      guard let name = element.string else { throw invalid(keyword, scope, "an array of strings") }
      names.append(name)
    }
    return names
  }

  mutating func child(_ keyword: String, _ schema: JSON, _ scope: SchemaScope) -> Int {
    node(of: schema, at: place(JSONString(keyword), in: scope.place), in: scope.resource)
  }

  mutating func children(
    _ keyword: String,
    _ value: JSON,
    _ scope: SchemaScope
  ) throws(SchemaError) -> [(key: JSONString, schema: Int)] {
    guard let members = value.object else {
      throw invalid(keyword, scope, "an object of schemas")
    }
    let group = place(JSONString(keyword), in: scope.place)
    var children: [(key: JSONString, schema: Int)] = []
    for (key, schema) in members {
      children.append((key, node(of: schema, at: place(key, in: group), in: scope.resource)))
    }
    return children
  }

  mutating func list(
    _ keyword: String,
    _ value: JSON,
    _ scope: SchemaScope
  ) throws(SchemaError) -> [Int] {
    guard let schemas = value.array, !schemas.isEmpty else {
      throw invalid(keyword, scope, "a non-empty array of schemas")
    }
    let group = place(JSONString(keyword), in: scope.place)
    var list: [Int] = []
    for (position, schema) in schemas.enumerated() {
      list.append(node(of: schema, at: place("\(position)", in: group), in: scope.resource))
    }
    return list
  }

  mutating func pattern(
    _ keyword: String,
    _ source: JSONString,
    _ scope: SchemaScope
  ) throws(SchemaError) -> SchemaPattern {
    if let known = patterns[source] { return known }
    let pattern: Pattern
    do { pattern = try Pattern(source) } catch {
      throw invalid(keyword, scope, "a regular expression that can be used: \(error.text)")
    }
    patternSize += pattern.program.instructions.count
    guard patternSize <= Self.maxPatternSize else { throw .tooLarge(at: pointer(scope.place)) }
    patterns[source] = SchemaPattern(pattern: pattern, source: source)
    return SchemaPattern(pattern: pattern, source: source)
  }

  // MARK: Bounds

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
}

/// A document, or a part of one that has a name of its own.
struct SchemaResource {
  var uri: SchemaURI
  var root: JSON
  var place: SchemaCompiler.Place
  /// The schemas that `$anchor` and `$dynamicAnchor` name.
  var anchors: [String: Int] = [:]
  var dynamicAnchors: [String: Int] = [:]
}

/// One schema while it is compiled.
struct SchemaScope {
  var place: SchemaCompiler.Place
  var node: Int
  var resource: Int
  var result = SchemaNode()
  var rare = RareKeywords() { didSet { hasRare = true } }
  private(set) var hasRare = false

  init(place: SchemaCompiler.Place, node: Int, resource: Int) {
    self.place = place
    self.node = node
    self.resource = resource
    result.resource = resource
  }
}
