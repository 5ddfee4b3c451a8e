/// One check of one value, with a bound on its work.
struct SchemaCheck {
  let schema: JSONSchema
  var stepsLeft = 2_000_000
  /// The work that regular expressions may do.
  var patternStepsLeft = 10_000_000
  private var depthLeft = 1_024
  private(set) var isExhausted = false
  private var location: [PathSegment] = []
  private var found: [SchemaViolation] = []
  /// The resources through which the check came to this schema.
  private var scope: [Int] = [0]

  private static let maxViolations = 100

  init(schema: JSONSchema) { self.schema = schema }

  mutating func violations(of value: JSON) -> [SchemaViolation] {
    (found, location) = ([], [])
    let isValid = isValid(schema.root, value, reports: true)
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
  mutating func isValid(_ node: Int, _ value: JSON, reports: Bool = false) -> Bool {
    var nothing: SchemaCoverage?
    return check(node, value, reports: reports, &nothing)
  }

  /// Checks a value and notes in `coverage`, if somebody asks, what of it was looked at.
  mutating func check(
    _ index: Int,
    _ value: JSON,
    reports: Bool,
    _ coverage: inout SchemaCoverage?
  ) -> Bool {
    stepsLeft -= 1
    guard !isExhausted, stepsLeft > 0, depthLeft > 0 else {
      isExhausted = true
      return false
    }
    depthLeft -= 1
    defer { depthLeft += 1 }
    let node = schema.nodes[index]
    let entersResource = scope.last != node.value.resource
    if entersResource { scope.append(node.value.resource) }
    defer { if entersResource { scope.removeLast() } }
    // What a value of the wrong kind contains says nothing new.
    guard checkItself(node, value, reports: reports) else { return false }
    guard let rare = node.value.more else {
      return checkParts(node, nil, value, reports: reports, &coverage)
    }
    guard checkRareItself(rare, value, reports: reports) else { return false }
    guard rare.keywords.unevaluatedItems != nil || rare.keywords.unevaluatedProperties != nil else {
      return checkParts(node, rare, value, reports: reports, &coverage)
    }
    var own: SchemaCoverage? = SchemaCoverage()
    guard checkParts(node, rare, value, reports: reports, &own),
      checkRest(rare, value, reports: reports, &own)
    else { return false }
    cover(&coverage, own)
    return true
  }

  private mutating func checkParts(
    _ node: SchemaNode.Box,
    _ rare: SchemaNode.More?,
    _ value: JSON,
    reports: Bool,
    _ coverage: inout SchemaCoverage?
  ) -> Bool {
    var isValid = true
    if let reference = node.value.reference {
      isValid = check(reference, value, reports: reports, &coverage)
    }
    guard isValid || reports else { return false }
    if let rare, !checkApplicators(rare, value, reports: reports, &coverage) { isValid = false }
    guard isValid || reports else { return false }
    if !checkUnions(node, value, reports: reports, &coverage) { isValid = false }
    guard isValid || reports else { return false }
    switch value {
    case .array(let elements):
      return checkElements(node, rare, elements, reports: reports, &coverage) && isValid
    case .object(let members):
      return checkMembers(node, rare, members, reports: reports, &coverage) && isValid
    default: return isValid
    }
  }

  // MARK: What others use

  mutating func report(_ message: @autoclosure () -> String, _ reports: Bool) -> Bool {
    if reports, found.count < Self.maxViolations {
      found.append(SchemaViolation(location: location, message: message()))
    }
    return false
  }

  mutating func within<Result>(
    _ segment: PathSegment,
    _ body: (inout SchemaCheck) -> Result
  ) -> Result {
    location.append(segment)
    defer { location.removeLast() }
    return body(&self)
  }

  /// Adds what a schema that holds has looked at.
  mutating func cover(_ coverage: inout SchemaCoverage?, _ other: SchemaCoverage?) {
    guard coverage != nil, let other else { return }
    stepsLeft -= other.size
    coverage?.formUnion(other)
  }

  /// Where a dynamic reference leads from here.
  mutating func target(of reference: RareKeywords.DynamicReference) -> Int {
    guard let anchor = reference.anchor else { return reference.node }
    stepsLeft -= scope.count
    for resource in scope {
      if let target = schema.anchors[resource][anchor] { return target }
    }
    return reference.node
  }

  /// Whether a text has a match; a search that takes too long ends the whole check.
  mutating func matches(_ pattern: SchemaPattern, _ text: JSONString) -> Bool {
    guard let result = pattern.pattern.matches(text, steps: &patternStepsLeft) else {
      isExhausted = true
      return false
    }
    return result
  }

  // MARK: One value

  private mutating func checkItself(_ node: SchemaNode.Box, _ value: JSON, reports: Bool) -> Bool {
    if node.value.isNever { return report("is not allowed", reports) }
    if !node.value.types.isEmpty, !node.value.types.contains(where: { $0.matches(value) }) {
      let names = node.value.types.map(\.rawValue).joined(separator: " or ")
      return report("expected \(names), found \(JSONType.name(of: value))", reports)
    }
    if let constant = node.value.constant, !constant.isSameValue(as: value) {
      return report("expected \(constant.compactText)", reports)
    }
    if let allowed = node.value.allowed {
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

  private mutating func checkNumber(_ node: SchemaNode.Box, _ value: JSON, reports: Bool) -> Bool {
    for bound in node.value.bounds {
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
    _ node: SchemaNode.Box,
    _ string: JSONString,
    reports: Bool
  ) -> Bool {
    guard node.value.minLength != nil || node.value.maxLength != nil else { return true }
    let length = Int64(string.codePointCount)
    if let least = node.value.minLength, length < least {
      return report("expected at least \(least) characters, found \(length)", reports)
    }
    if let most = node.value.maxLength, length > most {
      return report("expected at most \(most) characters, found \(length)", reports)
    }
    return true
  }

  private mutating func checkRareItself(
    _ rare: SchemaNode.More,
    _ value: JSON,
    reports: Bool
  ) -> Bool {
    switch value {
    case .int, .double, .bigInteger:
      guard let divisor = rare.keywords.multipleOf, !divisor.divides(value) else { return true }
      return report("expected a multiple of \(divisor.text)", reports)
    case .string(let string):
      guard let pattern = rare.keywords.pattern, !matches(pattern, string) else { return true }
      return report("expected a match of \(JSON.string(pattern.source).compactText)", reports)
    default: return true
    }
  }
}
