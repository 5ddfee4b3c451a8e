/// What arrays and objects contain.
extension SchemaCheck {
  mutating func checkElements(
    _ node: SchemaNode.Box,
    _ rare: SchemaNode.More?,
    _ elements: [JSON],
    reports: Bool,
    _ coverage: inout SchemaCoverage?
  ) -> Bool {
    var isValid = true
    if let least = node.value.minItems, elements.count < least {
      isValid = report("expected at least \(least) items, found \(elements.count)", reports)
    }
    if let most = node.value.maxItems, elements.count > most {
      isValid = report("expected at most \(most) items, found \(elements.count)", reports)
    }
    let prefix = rare?.keywords.prefixItems ?? []
    if !prefix.isEmpty || node.value.items != nil {
      for (index, element) in elements.enumerated() {
        guard isValid || reports else { return false }
        guard let next = index < prefix.count ? prefix[index] : node.value.items else { break }
        let fits = within(.index(index)) { $0.isValid(next, element, reports: reports) }
        if !fits { isValid = false }
      }
      let known = coverage?.firstItems ?? 0
      coverage?.firstItems = max(known, prefix.count)
      if node.value.items != nil { coverage?.hasAllItems = true }
    }
    guard let rare, isValid || reports else { return isValid }
    if let contained = rare.keywords.contains {
      if !checkContained(contained, rare, elements, reports: reports, &coverage) { isValid = false }
    }
    if rare.keywords.uniqueItems, isValid || reports, let (first, second) = repeated(elements) {
      isValid = report("has the same item at \(first) and \(second)", reports)
    }
    return isValid
  }

  private mutating func checkContained(
    _ contained: Int,
    _ rare: SchemaNode.More,
    _ elements: [JSON],
    reports: Bool,
    _ coverage: inout SchemaCoverage?
  ) -> Bool {
    var count = 0
    for (index, element) in elements.enumerated() where isValid(contained, element) {
      count += 1
      coverage?.items.insert(index)
    }
    let least = rare.keywords.minContains ?? 1
    if count < least {
      return report("expected at least \(least) items of a kind, found \(count)", reports)
    }
    if let most = rare.keywords.maxContains, count > most {
      return report("expected at most \(most) items of a kind, found \(count)", reports)
    }
    return true
  }

  /// Finds two equal items.
  private mutating func repeated(_ elements: [JSON]) -> (Int, Int)? {
    var places: [Int: [Int]] = [:]
    for (index, element) in elements.enumerated() {
      var hasher = Hasher()
      stepsLeft -= element.hashValue(into: &hasher)
      let hash = hasher.finalize()
      for other in places[hash] ?? [] {
        stepsLeft -= 1
        // The check is cut off when its next step is asked for.
        if stepsLeft <= 0 { return nil }
        if elements[other].isSameValue(as: element) { return (other, index) }
      }
      places[hash, default: []].append(index)
    }
    return nil
  }

  mutating func checkMembers(
    _ node: SchemaNode.Box,
    _ rare: SchemaNode.More?,
    _ members: JSONObject,
    reports: Bool,
    _ coverage: inout SchemaCoverage?
  ) -> Bool {
    var isValid = true
    for name in node.value.required where members[name] == nil {
      isValid = within(.key(name)) { $0.report("is required", reports) }
    }
    guard isValid || reports else { return false }
    if let rare, !checkNames(rare, members, reports: reports) { isValid = false }
    let patterns = rare?.keywords.patternProperties ?? []
    guard
      !node.value.properties.isEmpty || node.value.additionalProperties != nil || !patterns.isEmpty
    else {
      return isValid
    }
    for (key, value) in members {
      guard isValid || reports, !isExhausted else { return false }
      var schemas = node.value.properties[key].map { [$0] } ?? []
      for (pattern, schema) in patterns where matches(pattern, key) { schemas.append(schema) }
      if schemas.isEmpty, let other = node.value.additionalProperties { schemas.append(other) }
      if !schemas.isEmpty { coverage?.members.insert(key) }
      for next in schemas where isValid || reports {
        let fits = within(.key(key)) { $0.isValid(next, value, reports: reports) }
        if !fits { isValid = false }
      }
    }
    return isValid
  }

  private mutating func checkNames(
    _ rare: SchemaNode.More,
    _ members: JSONObject,
    reports: Bool
  ) -> Bool {
    var isValid = true
    if let least = rare.keywords.minProperties, members.count < least {
      isValid = report("expected at least \(least) members, found \(members.count)", reports)
    }
    if let most = rare.keywords.maxProperties, members.count > most {
      isValid = report("expected at most \(most) members, found \(members.count)", reports)
    }
    for (key, names) in rare.keywords.dependentRequired where members[key] != nil {
      stepsLeft -= names.count
      for name in names where members[name] == nil {
        isValid = within(.key(name)) { $0.report("is required beside \(key.string)", reports) }
      }
    }
    guard let schema = rare.keywords.propertyNames else { return isValid }
    for key in members.keys where isValid || reports {
      if !self.isValid(schema, .string(key)) {
        isValid = within(.key(key)) { $0.report("has a name that is not allowed", reports) }
      }
    }
    return isValid
  }
}

extension JSON {
  /// Hashes the value so that equal values, `1` and `1.0` too, hash alike; returns the work.
  fileprivate func hashValue(into hasher: inout Hasher) -> Int {
    switch self {
    case .null: hasher.combine(0)
    case .bool(let value): hasher.combine(value)
    case .int, .double, .bigInteger: hasher.combine(double ?? 0)
    case .string(let string): hasher.combine(string)
    case .array(let elements):
      var work = 1
      hasher.combine(elements.count)
      for element in elements { work += element.hashValue(into: &hasher) }
      return work
    case .object(let members):
      // Their order does not count.
      var (sum, work) = (0, 1)
      for (key, value) in members {
        var own = Hasher()
        own.combine(key)
        work += value.hashValue(into: &own)
        sum ^= own.finalize()
      }
      hasher.combine(sum)
      return work
    }
    return 1
  }
}
