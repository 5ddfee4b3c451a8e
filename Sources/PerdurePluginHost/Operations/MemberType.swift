import PerdureValue

/// What kind of value a member of an operation's input is.
indirect enum MemberType: Sendable {
  case text
  /// A string of at most 512 bytes: a name of a memo, a key, an id of a request.
  case short
  /// What the host gave out for the time of a call.
  case handle
  /// The number of a record.
  case id
  case integer(ClosedRange<Int64>)
  case number
  case bool
  case json
  case object
  case word([String])
  case list(MemberType, ClosedRange<Int>)
  /// What a document belongs to: `"session"`, `{conversation}` or `{task}`.
  case place
  /// What a user says: a text, or a list of items.
  case content
  case either([MemberType])

  static let count = MemberType.integer(0...(1 << 53 - 1))

  /// The type as the documentation names it.
  var text: String {
    switch self {
    case .text, .short: "string"
    case .handle: "handle"
    case .id: "id"
    case .integer: "integer"
    case .number: "number"
    case .bool: "bool"
    case .json: "JSON"
    case .object: "object"
    case .word(let words): words.map { "\"\($0)\"" }.joined(separator: " or ")
    case .list(let element, _): "list of \(element.text)"
    case .place: "place"
    case .content: "content"
    case .either(let types): types.map(\.text).joined(separator: " or ")
    }
  }

  /// Says what is wrong with a value, if something is.
  func check(_ value: JSON, at pointer: String) throws(BorderProblem) {
    guard try fits(value, at: pointer) else {
      throw .shape("a value that is not \(wanted)", at: pointer)
    }
  }

  private func fits(_ value: JSON, at pointer: String) throws(BorderProblem) -> Bool {
    switch self {
    case .text: value.string?.unicode != nil
    case .short: (value.string?.unicode?.utf8.count).map { $0 <= 512 } ?? false
    case .handle: (value.string?.unicode?.utf8.count).map { (1...64).contains($0) } ?? false
    case .id: value.int.map { (1...(1 << 53 - 1)).contains($0) } ?? false
    case .integer(let range): Self.integer(value).map { range.contains($0) } ?? false
    case .number: value.double != nil
    case .bool: value.bool != nil
    case .json: true
    case .object: value.object != nil
    case .word(let words): value.text.map { words.contains($0) } ?? false
    case .list(let element, let range): try fits(value, element, range, at: pointer)
    case .place: Self.isPlace(value)
    case .content: try Self.isContent(value, at: pointer)
    case .either(let types): Self.fits(value, oneOf: types, at: pointer)
    }
  }

  // Which of them was meant nobody knows, so none can say what is wrong inside.
  private static func fits(_ value: JSON, oneOf types: [MemberType], at pointer: String) -> Bool {
    for type in types {
      do throws(BorderProblem) {
        if try type.fits(value, at: pointer) { return true }
      } catch { continue }
    }
    return false
  }

  private static func integer(_ value: JSON) -> Int64? {
    if case .int(let number) = value { number } else { nil }
  }

  private func fits(
    _ value: JSON,
    _ element: MemberType,
    _ range: ClosedRange<Int>,
    at pointer: String
  ) throws(BorderProblem) -> Bool {
    guard let values = value.array else { return false }
    guard range.contains(values.count) else {
      throw .shape(
        "a list that does not have \(range.lowerBound) to \(range.upperBound) members",
        at: pointer
      )
    }
    for (index, value) in values.enumerated() {
      try element.check(value, at: "\(pointer)/\(index)")
    }
    return true
  }

  private static func isPlace(_ value: JSON) -> Bool {
    if value.text == "session" { return true }
    guard let object = value.object, object.count == 1 else { return false }
    let id = object["conversation"] ?? object["task"]
    return id?.int.map { (1...(1 << 53 - 1)).contains($0) } ?? false
  }

  private static func isContent(_ value: JSON, at pointer: String) throws(BorderProblem) -> Bool {
    if value.string != nil { return true }
    guard let items = value.array, !items.isEmpty else { return false }
    for (index, item) in items.enumerated() {
      _ = try ToolCompletion.contentItem(item, "\(pointer)/\(index)")
    }
    return true
  }

  /// What follows "a value that is not ".
  private var wanted: String {
    switch self {
    case .text: "a string"
    case .short: "a string of at most 512 bytes"
    case .handle: "a handle"
    case .id: "the id of a record"
    case .integer(let range): "an integer from \(range.lowerBound) to \(range.upperBound)"
    case .number: "a number"
    case .bool: "true or false"
    case .json: "JSON"
    case .object: "an object"
    case .word(let words): "one of \(words.joined(separator: ", "))"
    case .list: "an array"
    case .place: "\"session\" or an object with a conversation or a task"
    case .content: "a text or a list of items"
    case .either(let types): types.map(\.wanted).joined(separator: " or ")
    }
  }
}
