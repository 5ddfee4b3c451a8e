/// One step of a path into a JSON value.
public enum PathSegment: Sendable, Hashable {
  /// A member of an object.
  case key(JSONString)
  /// An element of an array, from 0.
  case index(Int)
}

extension PathSegment: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral {
  public init(stringLiteral value: String) { self = .key(JSONString(value)) }
  public init(integerLiteral value: Int) { self = .index(value) }
}

/// One change of a document, in the form that stores and publications carry.
///
/// The format is that of pi-durable: JSON arrays whose first element names the verb.
public enum Operation: Sendable, Equatable {
  /// `["r", value]`: replaces the whole document.
  case replace(JSON)
  /// `["s", path, value]`: sets a member or element; an index equal to the length appends.
  case set([PathSegment], JSON)
  /// `["d", path]`: deletes a member, or removes an element.
  case delete([PathSegment])
  /// `["a", path, text]`: appends to a string.
  case append([PathSegment], JSONString)
  /// `["t", path, count]`: removes UTF-16 units from the front of a string.
  case trim([PathSegment], Int)
  /// `["p", path, index, remove, items]`: removes elements and inserts others in their place.
  case splice([PathSegment], at: Int, remove: Int, insert: [JSON])
  /// `["m", path, permutation]`: reorders an array; new[i] = old[permutation[i]].
  case reorder([PathSegment], [Int])
}

/// Why operations were refused.
public enum OperationError: Error, Equatable, Sendable, CustomStringConvertible {
  /// The operation is not one of the seven forms.
  case malformed(String)
  /// A path names a member that no path may name.
  case unsafePathSegment(String)
  /// A path does not lead to a value of the kind that the operation needs.
  case unresolvablePath(String)

  public var description: String {
    switch self {
    case .malformed(let detail): "malformed operation: \(detail)"
    case .unsafePathSegment(let segment): "unsafe path segment: \(segment)"
    case .unresolvablePath(let detail): "unresolvable path: \(detail)"
    }
  }
}

extension PathSegment {
  /// Members that no path may name.
  ///
  /// JavaScript would resolve them on a prototype; they are refused so that stores stay portable.
  package static let unsafeKeys: Set<JSONString> = ["__proto__", "constructor", "prototype"]

  init(json: JSON) throws(OperationError) {
    switch json {
    case .string(let key): self = .key(key)
    case .int(let index) where index >= 0:
      guard let index = Int(exactly: index) else {
        throw .malformed("an index is out of range")
      }
      self = .index(index)
    default: throw .malformed("a path segment is \(json.compactText)")
    }
  }

  package var json: JSON {
    switch self {
    case .key(let key): .string(key)
    case .index(let index): .int(index)
    }
  }
}

extension Operation {
  /// Reads one operation from its JSON form.
  public init(json: JSON) throws(OperationError) {
    guard let parts = json.array, let verb = parts.first?.text else {
      throw .malformed("an operation is not an array with a verb")
    }
    func expect(_ count: Int) throws(OperationError) {
      guard parts.count == count else {
        throw .malformed("'\(verb)' has \(parts.count) parts, not \(count)")
      }
    }
    func path() throws(OperationError) -> [PathSegment] {
      guard let segments = parts[1].array else { throw .malformed("'\(verb)' has no path") }
      var path: [PathSegment] = []
      for segment in segments { path.append(try PathSegment(json: segment)) }
      return path
    }
    func count(_ json: JSON) throws(OperationError) -> Int {
      guard case .int(let value) = json, value >= 0, let count = Int(exactly: value) else {
        throw .malformed("'\(verb)' has a count that is no non-negative integer")
      }
      return count
    }
    switch verb {
    case "r":
      try expect(2)
      self = .replace(parts[1])
    case "s":
      try expect(3)
      self = .set(try path(), parts[2])
    case "d":
      try expect(2)
      self = .delete(try path())
    case "a":
      try expect(3)
      guard let text = parts[2].string else { throw .malformed("'a' has no text") }
      self = .append(try path(), text)
    case "t":
      try expect(3)
      self = .trim(try path(), try count(parts[2]))
    case "p":
      try expect(5)
      guard let items = parts[4].array else { throw .malformed("'p' has no items") }
      self = .splice(
        try path(),
        at: try count(parts[2]),
        remove: try count(parts[3]),
        insert: items
      )
    case "m":
      try expect(3)
      guard let order = parts[2].array else { throw .malformed("'m' has no permutation") }
      var permutation: [Int] = []
      for position in order { permutation.append(try count(position)) }
      self = .reorder(try path(), permutation)
    default: throw .malformed("unknown verb '\(verb)'")
    }
  }

  /// The JSON form.
  public var json: JSON {
    func path(_ segments: [PathSegment]) -> JSON { .array(segments.map { $0.json }) }
    return switch self {
    case .replace(let value): ["r", value]
    case .set(let at, let value): ["s", path(at), value]
    case .delete(let at): ["d", path(at)]
    case .append(let at, let text): ["a", path(at), .string(text)]
    case .trim(let at, let count): ["t", path(at), .int(count)]
    case .splice(let at, let index, let remove, let items):
      ["p", path(at), .int(index), .int(remove), .array(items)]
    case .reorder(let at, let order): ["m", path(at), .array(order.map { .int($0) })]
    }
  }

  /// Reads a batch from its JSON form.
  public static func batch(json: JSON) throws(OperationError) -> [Operation] {
    guard let items = json.array else { throw .malformed("a batch is not an array") }
    var operations: [Operation] = []
    operations.reserveCapacity(items.count)
    for item in items { operations.append(try Operation(json: item)) }
    return operations
  }
}
