import PerdureValue

/// A value of a script together with the way to it, for errors that say where they are.
struct ScriptNode {
  /// What is wrong, and at which value.
  struct Problem: Error {
    var path: [JSONStep]
    var message: String
  }

  let value: JSON
  let path: [JSONStep]

  init(_ value: JSON, path: [JSONStep] = []) {
    self.value = value
    self.path = path
  }

  /// The way as people write it: `turns[0].steps[2].text`.
  static func describe(_ path: [JSONStep]) -> String {
    var text = ""
    for step in path {
      switch step {
      case .key(let key): text += text.isEmpty ? key.string : ".\(key.string)"
      case .element(let index): text += "[\(index)]"
      }
    }
    return text.isEmpty ? "the top" : text
  }

  func problem(_ message: String) -> Problem { Problem(path: path, message: message) }

  func expected(_ what: String) -> Problem {
    problem("expected \(what) at \(Self.describe(path)), found \(kind)")
  }

  private var kind: String {
    switch value {
    case .null: "null"
    case .bool(let value): "\(value)"
    case .int(let value): "\(value)"
    case .double, .bigInteger: "a number"
    case .string: "a string"
    case .array: "an array"
    case .object: "an object"
    }
  }

  /// Checks that this is an object with no other members than these; `note` is always allowed.
  func requireMembers(_ known: [JSONString]) throws(Problem) {
    guard let object = value.object else { throw expected("an object") }
    let known = known + ["note"]
    for (key, value) in object where !known.contains(key) {
      let list = known.map(\.string).joined(separator: ", ")
      let place = Self.describe(path)
      throw ScriptNode(value, path: path + [.key(key)]).problem(
        "unknown member '\(key.string)' at \(place), expected one of \(list)"
      )
    }
  }

  /// The member of that name, if there is one.
  func member(_ key: JSONString) -> ScriptNode? {
    value[key].map { ScriptNode($0, path: path + [.key(key)]) }
  }

  func required(_ key: JSONString, _ what: String) throws(Problem) -> ScriptNode {
    guard let node = member(key) else {
      throw problem("expected \(what) '\(key.string)' at \(Self.describe(path)), found none")
    }
    return node
  }

  func string() throws(Problem) -> String {
    guard let text = value.string?.unicode else { throw expected("a string") }
    return text
  }

  func name() throws(Problem) -> String {
    let text = try string()
    guard !text.isEmpty else {
      throw problem("expected a name at \(Self.describe(path)), found ''")
    }
    return text
  }

  func integer(_ range: ClosedRange<Int64>) throws(Problem) -> Int64 {
    guard let number = value.int, range.contains(number) else {
      throw expected("a whole number from \(range.lowerBound) to \(range.upperBound)")
    }
    return number
  }

  func isTrue() throws(Problem) {
    guard value.bool == true else { throw expected("true") }
  }

  /// The elements of an array that is not empty.
  func elements() throws(Problem) -> [ScriptNode] {
    guard let elements = value.array else { throw expected("an array") }
    guard !elements.isEmpty else { throw problem("the array at \(Self.describe(path)) is empty") }
    return elements.enumerated().map { ScriptNode($0.element, path: path + [.element($0.offset)]) }
  }
}
