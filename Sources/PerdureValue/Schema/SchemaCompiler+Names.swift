/// The keywords that name schemas, and references to them.
extension SchemaCompiler {
  /// The drafts whose keywords mean here what they mean there, or are refused.
  private static let drafts = ["http://json-schema.org/", "https://json-schema.org/"]

  /// Takes the names of a schema before anything in it is looked at.
  mutating func name(
    _ members: JSONObject,
    _ scope: inout SchemaScope,
    _ schema: JSON
  ) throws(SchemaError) {
    if let value = members["$schema"] {
      guard let text = value.text else { throw invalid("$schema", scope, "a URI") }
      // Another one may give keywords another meaning.
      guard Self.drafts.contains(where: { text.hasPrefix($0) }) else {
        throw .unsupportedKeyword("$schema", at: pointer(scope.place))
      }
    }
    if let value = members["$id"] {
      guard let text = value.string?.unicode else { throw invalid("$id", scope, "a URI") }
      let (uri, fragment) = SchemaURI.split(text)
      guard fragment ?? "" == "" else { throw invalid("$id", scope, "a URI without a fragment") }
      try enter(uri, &scope, schema)
    }
    for keyword in ["$anchor", "$dynamicAnchor"] {
      guard let value = members[JSONString(keyword)] else { continue }
      guard let name = value.string?.unicode, Self.isAnchor(name) else {
        throw invalid(keyword, scope, "a name")
      }
      let known = resources[scope.resource].anchors[name]
      guard known == nil || known == scope.node else {
        throw invalid(keyword, scope, "a name that nothing else has")
      }
      resources[scope.resource].anchors[name] = scope.node
      if keyword == "$dynamicAnchor" {
        resources[scope.resource].dynamicAnchors[name] = scope.node
      }
    }
  }

  private mutating func enter(
    _ uri: SchemaURI,
    _ scope: inout SchemaScope,
    _ schema: JSON
  ) throws(SchemaError) {
    let uri = uri.resolved(in: resources[scope.resource].uri)
    if scope.place == 0 {
      resources[0].uri = uri
      resourceOfURI = [uri: 0]
      return
    }
    guard resourceOfURI[uri] == nil else {
      throw invalid("$id", scope, "a URI that nothing else has")
    }
    resourceOfURI[uri] = resources.count
    resources.append(SchemaResource(uri: uri, root: schema, place: scope.place))
    scope.resource = resources.count - 1
    scope.result.resource = scope.resource
  }

  private static func isAnchor(_ name: String) -> Bool {
    guard let first = name.utf8.first, first < 0x80 else { return false }
    let scalars = name.unicodeScalars
    func isLetter(_ scalar: Unicode.Scalar) -> Bool {
      ("a"..."z").contains(scalar) || ("A"..."Z").contains(scalar) || scalar == "_"
    }
    return scalars.first.map(isLetter) ?? false
      && scalars.allSatisfy { isLetter($0) || ("0"..."9").contains($0) || $0 == "-" || $0 == "." }
  }

  // MARK: References

  /// Notes where a reference leads.
  mutating func follow(_ reference: Reference) throws(SchemaError) {
    let origin = reference.node
    let unresolved = SchemaError.unresolvedReference(
      reference.text,
      at: pointer(ofNode: origin)
    )
    let (relative, fragment) = SchemaURI.split(reference.text)
    let uri = relative.resolved(in: resources[nodes[origin].resource].uri)
    guard let resource = resourceOfURI[uri] else { throw unresolved }
    let target: Int
    if let fragment, !fragment.isEmpty, fragment.utf8.first != UInt8(ascii: "/") {
      guard let anchor = SchemaPointer.percentDecoded(fragment).flatMap({ anchor($0, resource) })
      else { throw unresolved }
      target = anchor
    } else {
      guard let segments = SchemaPointer.segments(ofFragment: fragment ?? ""),
        let found = find(segments, in: resource)
      else { throw unresolved }
      target = found
    }
    guard reference.isDynamic else {
      nodes[origin].reference = target
      return
    }
    let name = fragment.flatMap { resources[resource].dynamicAnchors[$0] == target ? $0 : nil }
    var rare = nodes[origin].more?.keywords ?? RareKeywords()
    rare.dynamicReference = RareKeywords.DynamicReference(node: target, anchor: name)
    nodes[origin].more = SchemaNode.More(rare)
  }

  private func anchor(_ name: [UInt8], _ resource: Int) -> Int? {
    resources[resource].anchors[String(decoding: name, as: UTF8.self)]
  }

  private mutating func find(_ segments: [JSONString], in resource: Int) -> Int? {
    var (target, place) = (resources[resource].root, resources[resource].place)
    var resource = resource
    for segment in segments {
      switch target {
      case .object(let members):
        guard let member = members[segment] else { return nil }
        target = member
      case .array(let elements):
        guard let index = Int(segment.string), "\(index)" == segment.string,
          elements.indices.contains(index)
        else { return nil }
        target = elements[index]
      default: return nil
      }
      place = self.place(segment, in: place)
      // On the way it may come into a part that has a name of its own.
      if let known = nodeOfPlace[place] { resource = nodes[known].resource }
    }
    return node(of: target, at: place, in: resource)
  }
}
