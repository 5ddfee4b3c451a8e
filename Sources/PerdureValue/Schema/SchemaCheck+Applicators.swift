/// Schemas that look at the same value, and at what others left.
extension SchemaCheck {
  mutating func checkUnions(
    _ node: SchemaNode.Box,
    _ value: JSON,
    reports: Bool,
    _ coverage: inout SchemaCoverage?
  ) -> Bool {
    var isValid = true
    if let alternatives = node.value.anyOf {
      var fits = false
      // Who asks what was looked at has to know all that fit.
      for alternative in alternatives where !fits || coverage != nil {
        if holds(alternative, value, &coverage) { fits = true }
      }
      if !fits { isValid = report("fits none of the alternatives", reports) }
    }
    if let alternatives = node.value.oneOf {
      var fitting = 0
      for alternative in alternatives where holds(alternative, value, &coverage) { fitting += 1 }
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

  /// Whether a schema holds; what it looked at counts only then.
  private mutating func holds(
    _ node: Int,
    _ value: JSON,
    _ coverage: inout SchemaCoverage?
  ) -> Bool {
    var branch = coverage == nil ? nil : SchemaCoverage()
    guard check(node, value, reports: false, &branch) else { return false }
    cover(&coverage, branch)
    return true
  }

  mutating func checkApplicators(
    _ rare: SchemaNode.More,
    _ value: JSON,
    reports: Bool,
    _ coverage: inout SchemaCoverage?
  ) -> Bool {
    var isValid = true
    var demanded = rare.keywords.allOf
    if let reference = rare.keywords.dynamicReference { demanded.append(target(of: reference)) }
    if case .object(let members) = value {
      for (key, node) in rare.keywords.dependentSchemas where members[key] != nil {
        demanded.append(node)
      }
    }
    if let condition = rare.keywords.condition {
      let branch = holds(condition, value, &coverage) ? rare.keywords.then : rare.keywords.otherwise
      if let branch { demanded.append(branch) }
    }
    for node in demanded where isValid || reports {
      if !check(node, value, reports: reports, &coverage) { isValid = false }
    }
    if let not = rare.keywords.not, isValid || reports {
      var nothing: SchemaCoverage?
      if check(not, value, reports: false, &nothing) {
        isValid = report("fits what it must not fit", reports)
      }
    }
    return isValid
  }

  /// Checks what no other part of the schema has looked at.
  mutating func checkRest(
    _ rare: SchemaNode.More,
    _ value: JSON,
    reports: Bool,
    _ coverage: inout SchemaCoverage?
  ) -> Bool {
    guard let known = coverage else { return true }
    var isValid = true
    switch value {
    case .array(let elements):
      guard let rest = rare.keywords.unevaluatedItems, !known.hasAllItems else { return true }
      for (index, element) in elements.enumerated()
      where (isValid || reports) && !known.contains(item: index) {
        let fits = within(.index(index)) { $0.isValid(rest, element, reports: reports) }
        if !fits { isValid = false }
      }
      coverage?.hasAllItems = true
    case .object(let members):
      guard let rest = rare.keywords.unevaluatedProperties, !known.hasAllMembers else {
        return true
      }
      for (key, member) in members where (isValid || reports) && !known.members.contains(key) {
        let fits = within(.key(key)) { $0.isValid(rest, member, reports: reports) }
        if !fits { isValid = false }
      }
      coverage?.hasAllMembers = true
    default: break
    }
    return isValid
  }
}

/// What of an array or object schemas have looked at.
struct SchemaCoverage {
  var members: Set<JSONString> = []
  var hasAllMembers = false
  /// How many items from the first.
  var firstItems = 0
  var items: Set<Int> = []
  var hasAllItems = false

  var size: Int { members.count + items.count }

  func contains(item: Int) -> Bool { hasAllItems || item < firstItems || items.contains(item) }

  mutating func formUnion(_ other: SchemaCoverage) {
    members.formUnion(other.members)
    items.formUnion(other.items)
    firstItems = max(firstItems, other.firstItems)
    hasAllMembers = hasAllMembers || other.hasAllMembers
    hasAllItems = hasAllItems || other.hasAllItems
  }
}
