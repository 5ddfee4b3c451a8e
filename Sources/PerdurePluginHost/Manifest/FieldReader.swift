import PerdureValue

/// Reads the members of an object that somebody else wrote.
///
/// Members that nobody asks for are noted and ignored, unless `must` names them; a value of the wrong
/// type is refused, never converted.
struct FieldReader {
  let members: JSONObject
  let pointer: String
  private var known = ["must"]
  /// Pointers to members that nobody asked for, here and below; those of `x-` are left out.
  private(set) var unknown: [String] = []

  init(_ members: JSONObject, at pointer: String = "") {
    self.members = members
    self.pointer = pointer
  }

  /// The pointer to a member.
  func path(_ name: String) -> String {
    let escaped = name.split(separator: "~", omittingEmptySubsequences: false).joined(
      separator: "~0"
    ).split(separator: "/", omittingEmptySubsequences: false).joined(separator: "~1")
    return "\(pointer)/\(escaped)"
  }

  /// Gives a value of any kind.
  mutating func any(_ name: String) -> JSON? {
    // Most messages have no members at all.
    if members.isEmpty { return nil }
    known.append(name)
    return members[JSONString(name)]
  }

  /// Insists on a value that was read.
  func required<Value>(_ name: String, _ value: Value?) throws(BorderProblem) -> Value {
    guard let value else { throw .shape("a missing member", at: path(name)) }
    return value
  }

  /// Gives a string.
  mutating func string(_ name: String) throws(BorderProblem) -> String? {
    guard let value = any(name) else { return nil }
    guard let text = value.string?.unicode else { throw wrong(name, "a string") }
    return text
  }

  /// Gives a truth value.
  mutating func bool(_ name: String) throws(BorderProblem) -> Bool? {
    guard let value = any(name) else { return nil }
    guard let bool = value.bool else { throw wrong(name, "true or false") }
    return bool
  }

  /// Gives an integer within `range`.
  mutating func integer(
    _ name: String,
    in range: ClosedRange<Int64>
  ) throws(BorderProblem) -> Int? {
    guard let value = any(name) else { return nil }
    guard case .int(let number) = value, range.contains(number) else {
      throw wrong(name, "an integer from \(range.lowerBound) to \(range.upperBound)")
    }
    return Int(number)
  }

  /// Gives a number that is not negative.
  mutating func count(_ name: String) throws(BorderProblem) -> Int? {
    try integer(name, in: 0...(1 << 53 - 1))
  }

  /// Gives a reader of an object.
  mutating func object(_ name: String) throws(BorderProblem) -> FieldReader? {
    guard let value = any(name) else { return nil }
    guard let object = value.object else { throw wrong(name, "an object") }
    return FieldReader(object, at: path(name))
  }

  /// Gives one of the words of an enum; a word that this version does not know is refused.
  mutating func word<Word: RawRepresentable & CaseIterable>(
    _ name: String,
    as type: Word.Type
  ) throws(BorderProblem) -> Word? where Word.RawValue == String {
    guard let value = any(name) else { return nil }
    if let text = value.string?.unicode, let word = Word(rawValue: text) { return word }
    throw wrong(name, "one of " + Word.allCases.map(\.rawValue).joined(separator: ", "))
  }

  /// Gives the elements of an array, each read with its pointer.
  mutating func optionalArray<Element>(
    _ name: String,
    _ read: (JSON, String) throws(BorderProblem) -> Element
  ) throws(BorderProblem) -> [Element]? {
    guard let value = any(name) else { return nil }
    guard let values = value.array else { throw wrong(name, "an array") }
    var elements: [Element] = []
    for (index, value) in values.enumerated() {
      elements.append(try read(value, "\(path(name))/\(index)"))
    }
    return elements
  }

  /// Gives the elements of an array of objects; absent is empty.
  mutating func objects<Element>(
    _ name: String,
    _ read: (inout FieldReader) throws(BorderProblem) -> Element
  ) throws(BorderProblem) -> [Element] {
    var unknown: [String] = []
    let elements = try optionalArray(name) { (value, at) throws(BorderProblem) in
      guard let object = value.object else { throw .shape("a value that is no object", at: at) }
      var reader = FieldReader(object, at: at)
      let element = try read(&reader)
      try reader.finish()
      unknown += reader.unknown
      return element
    }
    self.unknown += unknown
    return elements ?? []
  }

  /// Gives the elements of an array of strings; absent is empty.
  mutating func strings(_ name: String) throws(BorderProblem) -> [String] {
    try optionalArray(name) { (value, at) throws(BorderProblem) in
      guard let text = value.string?.unicode else {
        throw .shape("a value that is no string", at: at)
      }
      return text
    } ?? []
  }

  /// Gives what `read` makes of an object with its own `must`; `nil` if it is absent.
  mutating func section<Value>(
    _ name: String,
    _ read: (inout FieldReader) throws(BorderProblem) -> Value
  ) throws(BorderProblem) -> Value? {
    guard var reader = try object(name) else { return nil }
    let value = try read(&reader)
    try reader.finish()
    unknown += reader.unknown
    return value
  }

  /// Refuses members that `must` names and nobody asked for, and notes the others; call it after
  /// all were read.
  mutating func finish() throws(BorderProblem) {
    if members.isEmpty { return }
    for name in try strings("must") where !known.contains(name) {
      throw .shape(
        "a member in \"must\" that this version does not know (\(name))",
        at: path("must")
      )
    }
    for key in members.keys where !known.contains(key.string) && !key.string.hasPrefix("x-") {
      unknown.append(path(key.string))
    }
  }

  private func wrong(_ name: String, _ expected: String) -> BorderProblem {
    .shape("a value that is not \(expected)", at: path(name))
  }
}
