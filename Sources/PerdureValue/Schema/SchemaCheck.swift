/// One check of one value, with a bound on its work.
struct SchemaCheck {
  private let schema: JSONSchema
  private var stepsLeft = 2_000_000
  private var depthLeft = 1_024
  private var isExhausted = false
  private var location: [PathSegment] = []
  private var found: [SchemaViolation] = []

  private static let maxViolations = 100

  init(schema: JSONSchema) { self.schema = schema }

  mutating func violations(of value: JSON) -> [SchemaViolation] {
    (found, location) = ([], [])
    let isValid = check(schema.root, value, reports: true)
    if isExhausted {
      // What was found before may be wrong: a check that was cut off counts as failed.
      let message = "the check takes too much work or nests too deeply"
      found = [SchemaViolation(location: [], message: message)]
    } else if !isValid, found.isEmpty {
      found.append(SchemaViolation(location: [], message: "the value is not allowed"))
    }
    return found
  }

  /// Whether `value` satisfies a schema of the document; the work counts with all other checks.
  mutating func isValid(_ node: Int, _ value: JSON) -> Bool {
    check(node, value, reports: false)
  }

  private mutating func check(_ index: Int, _ value: JSON, reports: Bool) -> Bool {
    stepsLeft -= 1
    guard !isExhausted, stepsLeft > 0, depthLeft > 0 else {
      isExhausted = true
      return false
    }
    depthLeft -= 1
    defer { depthLeft += 1 }
    let node = schema.nodes[index]
    // What a value of the wrong kind contains says nothing new.
    guard checkItself(node, value, reports: reports) else { return false }
    var isValid = true
    if let reference = node.reference, !check(reference, value, reports: reports) {
      isValid = false
    }
    guard isValid || reports else { return false }
    if !checkUnions(node, value, reports: reports) { isValid = false }
    guard isValid || reports else { return false }
    switch value {
    case .array(let elements):
      return checkElements(node, elements, reports: reports) && isValid
    case .object(let members):
      return checkMembers(node, members, reports: reports) && isValid
    default: return isValid
    }
  }

  private mutating func report(_ message: @autoclosure () -> String, _ reports: Bool) -> Bool {
    if reports, found.count < Self.maxViolations {
      found.append(SchemaViolation(location: location, message: message()))
    }
    return false
  }

  private mutating func checkItself(_ node: SchemaNode, _ value: JSON, reports: Bool) -> Bool {
    if node.isNever { return report("is not allowed", reports) }
    if !node.types.isEmpty, !node.types.contains(where: { $0.matches(value) }) {
      let names = node.types.map(\.rawValue).joined(separator: " or ")
      return report("expected \(names), found \(JSONType.name(of: value))", reports)
    }
    if let constant = node.constant, !constant.isSameValue(as: value) {
      return report("expected \(constant.compactText)", reports)
    }
    if let allowed = node.allowed {
      stepsLeft -= allowed.count
      if !allowed.contains(where: { $0.isSameValue(as: value) }) {
        let texts = allowed.prefix(20).map(\.compactText).joined(separator: ", ")
        return report("expected one of \(texts)\(allowed.count > 20 ? ", …" : "")", reports)
      }
    }
    switch value {
    case .int, .double, .bigInteger: return checkNumber(node, value, reports: reports)
    case .string(let string): return checkString(node, string, reports: reports)
    default: return true
    }
  }

  private mutating func checkNumber(_ node: SchemaNode, _ value: JSON, reports: Bool) -> Bool {
    for bound in node.bounds {
      let order = JSON.numericOrder(value, bound.limit)
      let limit = bound.limit.compactText
      switch bound.kind {
      case .minimum where order < 0: return report("expected at least \(limit)", reports)
      case .maximum where order > 0: return report("expected at most \(limit)", reports)
      case .exclusiveMinimum where order <= 0: return report("expected more than \(limit)", reports)
      case .exclusiveMaximum where order >= 0: return report("expected less than \(limit)", reports)
      default: break
      }
    }
    return true
  }

  private mutating func checkString(
    _ node: SchemaNode,
    _ string: JSONString,
    reports: Bool
  ) -> Bool {
    guard node.minLength != nil || node.maxLength != nil else { return true }
    let length = Int64(string.codePointCount)
    if let least = node.minLength, length < least {
      return report("expected at least \(least) characters, found \(length)", reports)
    }
    if let most = node.maxLength, length > most {
      return report("expected at most \(most) characters, found \(length)", reports)
    }
    return true
  }

  private mutating func checkUnions(_ node: SchemaNode, _ value: JSON, reports: Bool) -> Bool {
    var isValid = true
    if let alternatives = node.anyOf {
      var fits = false
      for alternative in alternatives where !fits {
        fits = check(alternative, value, reports: false)
      }
      if !fits { isValid = report("fits none of the alternatives", reports) }
    }
    if let alternatives = node.oneOf {
      var fitting = 0
      for alternative in alternatives where check(alternative, value, reports: false) {
        fitting += 1
      }
      if fitting != 1 {
        isValid = report(
          fitting == 0
            ? "fits none of the alternatives" : "fits \(fitting) alternatives instead of one",
          reports
        )
      }
    }
    return isValid
  }

  private mutating func checkElements(
    _ node: SchemaNode,
    _ elements: [JSON],
    reports: Bool
  ) -> Bool {
    var isValid = true
    if let least = node.minItems, elements.count < least {
      isValid = report("expected at least \(least) items, found \(elements.count)", reports)
    }
    if let most = node.maxItems, elements.count > most {
      isValid = report("expected at most \(most) items, found \(elements.count)", reports)
    }
    guard let items = node.items else { return isValid }
    for (index, element) in elements.enumerated() {
      guard isValid || reports else { return false }
      location.append(.index(index))
      if !check(items, element, reports: reports) { isValid = false }
      location.removeLast()
    }
    return isValid
  }

  private mutating func checkMembers(
    _ node: SchemaNode,
    _ members: JSONObject,
    reports: Bool
  ) -> Bool {
    var isValid = true
    for name in node.required where members[name] == nil {
      location.append(.key(name))
      isValid = report("is required", reports)
      location.removeLast()
    }
    guard !node.properties.isEmpty || node.additionalProperties != nil else { return isValid }
    for (key, value) in members {
      guard isValid || reports else { return false }
      guard let next = node.properties[key] ?? node.additionalProperties else { continue }
      location.append(.key(key))
      if !check(next, value, reports: reports) { isValid = false }
      location.removeLast()
    }
    return isValid
  }
}
