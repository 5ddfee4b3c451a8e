import PerdureValue

/// Chance that can be repeated.
struct SeededChance: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var word = state
    word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
    return word ^ (word >> 31)
  }
}

/// Makes values that fit a JSON Schema, and values that do not.
struct SchemaSamples {
  private let document: JSON
  private let schema: JSONSchema
  private var chance: SeededChance

  private static let attempts = 60
  private static let depthLimit = 6

  /// Throws if the schema cannot be compiled.
  init(_ document: JSON, seed: UInt64) throws {
    self.document = document
    schema = try JSONSchema(compiling: document)
    chance = SeededChance(seed: seed)
  }

  // MARK: What fits

  /// Gives a value that fits, or `nil` if none was found.
  mutating func valid() -> JSON? {
    for _ in 0..<Self.attempts {
      let value = value(of: document, 0)
      if schema.validate(value).isEmpty { return value }
    }
    return schema.validate([:]).isEmpty ? [:] : nil
  }

  /// Gives the examples that the schema itself has and that fit.
  var examples: (good: [JSON], bad: [JSON]) {
    let all = document["examples"]?.array ?? []
    return (
      all.filter { schema.validate($0).isEmpty }, all.filter { !schema.validate($0).isEmpty }
    )
  }

  private mutating func value(of node: JSON, _ depth: Int) -> JSON {
    if let target = node["$ref"]?.text.flatMap(resolved), depth < Self.depthLimit {
      return value(of: target, depth + 1)
    }
    if let constant = node["const"] { return constant }
    if let choice = node["enum"]?.array?.randomElement(using: &chance) { return choice }
    for key in ["oneOf", "anyOf"] as [JSONString] {
      guard let choice = node[key]?.array?.randomElement(using: &chance) else { continue }
      return merged(value(of: choice, depth + 1), with: node, depth)
    }
    if let parts = node["allOf"]?.array {
      return parts.reduce(plain(node, depth)) { merged($0, with: $1, depth) }
    }
    return plain(node, depth)
  }

  /// A value that also has the members that `node` asks for.
  private mutating func merged(_ base: JSON, with node: JSON, _ depth: Int) -> JSON {
    guard var members = base.object, node["properties"] != nil else { return base }
    for (key, value) in object(node, depth) where members[key] == nil { members[key] = value }
    return .object(members)
  }

  private func resolved(_ reference: String) -> JSON? {
    guard reference.hasPrefix("#/") else { return reference == "#" ? document : nil }
    return reference.dropFirst(2).split(separator: "/").reduce(document) { node, part in
      node?[JSONString(String(part))]
    } ?? nil
  }

  private mutating func plain(_ node: JSON, _ depth: Int) -> JSON {
    var type = node["type"]?.text
    if type == nil { type = node["type"]?.array?.randomElement(using: &chance)?.text }
    if type == nil, node["properties"] != nil { type = "object" }
    if type == nil, node["items"] != nil { type = "array" }
    switch type {
    case "object": return .object(object(node, depth))
    case "array": return .array(elements(node, depth))
    case "string": return .string(text(node))
    case "integer": return .int(integer(node))
    case "number": return Bool.random(using: &chance) ? .int(integer(node)) : .double(number(node))
    case "boolean": return .bool(Bool.random(using: &chance))
    case "null": return .null
    default:
      return [.string(text(node)), .int(integer(node)), .bool(true), .object([:])]
        .randomElement(using: &chance) ?? .null
    }
  }

  private mutating func object(_ node: JSON, _ depth: Int) -> JSONObject {
    let required = (node["required"]?.array ?? []).compactMap(\.string)
    var members = JSONObject()
    for (key, schema) in node["properties"]?.object ?? [:] {
      let isWanted = required.contains(key)
      guard isWanted || (depth < Self.depthLimit && Bool.random(using: &chance)) else { continue }
      members[key] = value(of: schema, depth + 1)
    }
    for key in required where members[key] == nil { members[key] = .string(text(.null)) }
    return members
  }

  private mutating func elements(_ node: JSON, _ depth: Int) -> [JSON] {
    let least = Int(node["minItems"]?.int ?? 0)
    let most = min(Int(node["maxItems"]?.int ?? Int64(least + 3)), least + 3)
    let count =
      depth >= Self.depthLimit ? least : Int.random(in: least...max(least, most), using: &chance)
    let fixed = node["prefixItems"]?.array ?? []
    let element = node["items"] ?? .bool(true)
    return (0..<min(count, 64)).map { place in
      value(of: place < fixed.count ? fixed[place] : element, depth + 1)
    }
  }

  private mutating func integer(_ node: JSON) -> Int64 {
    let least = node["minimum"]?.int ?? node["exclusiveMinimum"]?.int.map { $0 &+ 1 }
    let most = node["maximum"]?.int ?? node["exclusiveMaximum"]?.int.map { $0 &- 1 }
    let low = least ?? min(most ?? 0, 0)
    // Small by default: such a number often says how long or how much.
    let high = max(low, min(most ?? Int64.max, low.addingReportingOverflow(100).partialValue))
    let step = max(1, node["multipleOf"]?.int ?? 1)
    let value = Int64.random(in: low...high, using: &chance)
    let rounded = value / step * step
    return rounded < low ? rounded + step : rounded
  }

  private mutating func number(_ node: JSON) -> Double {
    let low = node["minimum"]?.double ?? node["exclusiveMinimum"]?.double ?? 0
    let high = max(low, node["maximum"]?.double ?? node["exclusiveMaximum"]?.double ?? low + 100)
    return Double.random(in: low...high, using: &chance)
  }

  private static let alphabet: [Character] = [
    "a", "b", "c", "x", "0", "7", " ", "-", "_", ".", "\"", "\\", "\n", "é", "λ", "漢", "😀",
  ]

  private mutating func text(_ node: JSON) -> String {
    switch node["format"]?.text {
    case "uri", "url": return "https://example.org/check"
    case "date": return "2024-02-29"
    case "date-time": return "2024-02-29T12:00:00Z"
    case "email": return "check@example.org"
    default: break
    }
    let least = Int(node["minLength"]?.int ?? 0)
    let most = min(Int(node["maxLength"]?.int ?? Int64(least + 24)), least + 24)
    let count = Int.random(in: least...max(least, most), using: &chance)
    // Patterns mostly ask for plain words.
    let letters = node["pattern"] == nil ? Self.alphabet : ["a", "b", "0", "1"]
    return String((0..<min(count, 4_096)).map { _ in letters.randomElement(using: &chance) ?? "a" })
  }

  // MARK: What does not fit

  /// Gives objects that do not fit, from slightly wrong to absurd.
  mutating func invalid() -> [JSON] {
    let base = valid()?.object ?? [:]
    var found: [JSON] = [[:]]
    for key in base.keys {
      var less = base
      less[key] = nil
      found.append(.object(less))
      for wrong in Self.wrong {
        var changed = base
        changed[key] = wrong
        found.append(.object(changed))
      }
    }
    var more = base
    more["no such member \u{1F600}"] = [["deep": .array([.null])]]
    found.append(.object(more))
    let bad = found.filter { !schema.validate($0).isEmpty }
    return Array(bad.shuffled(using: &chance).prefix(12))
  }

  private static let wrong: [JSON] = [
    .null, true, -1, .double(1e300), .bigInteger("123456789012345678901234567890"), "", [], [:],
    .string(String(repeating: "x", count: 70_000)), .array(Array(repeating: 0, count: 1_000)),
    (0..<60).reduce(.null) { nested, _ in .array([nested]) },
  ]
}
