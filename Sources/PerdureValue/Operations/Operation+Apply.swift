extension JSON {
  /// Returns the value to which `path` leads, or `nil`.
  public func value(at path: some Collection<PathSegment>) -> JSON? {
    var value = self
    for segment in path {
      switch (segment, value) {
      case (.key(let key), .object(let members)):
        guard let member = members[key] else { return nil }
        value = member
      case (.index(let index), .array(let elements)):
        guard elements.indices.contains(index) else { return nil }
        value = elements[index]
      default: return nil
      }
    }
    return value
  }

  /// Returns this value after `operations`, applied in order; unchanged parts are shared.
  ///
  /// Throws at the first operation that cannot be applied; nothing changes then.
  public func applying(_ operations: [Operation]) throws(OperationError) -> JSON {
    var value = self
    for operation in operations { try value.apply(operation) }
    return value
  }

  /// Applies one operation in place; a failed operation leaves the value as it was.
  ///
  /// Nothing is copied that nobody else holds: appending to a string costs what is appended.
  public mutating func apply(_ operation: Operation) throws(OperationError) {
    switch operation {
    case .replace(let value):
      try value.checkDepth(under: [])
      self = value
    case .set(let path, let value): try set(path, value)
    case .delete(let path): try delete(path)
    case .append(let path, let text):
      try change(path) { (target) throws(OperationError) in try target.append(text) }
    case .trim(let path, let count):
      try change(path) { (target) throws(OperationError) in try target.trim(count) }
    case .splice(let path, let index, let remove, let items):
      for item in items { try item.checkDepth(under: path, below: 1) }
      try change(path, mayBeRoot: true) { (target) throws(OperationError) in
        try target.splice(at: index, remove: remove, insert: items)
      }
    case .reorder(let path, let order):
      try change(path, mayBeRoot: true) { (target) throws(OperationError) in
        try target.reorder(order)
      }
    }
  }

  private mutating func set(_ path: [PathSegment], _ value: JSON) throws(OperationError) {
    guard let last = path.last else { throw .malformed("'s' needs a path") }
    try Self.check(last)
    try value.checkDepth(under: path)
    try change(path.dropLast(), mayBeRoot: true) { (target) throws(OperationError) in
      try target.set(last, value)
    }
  }

  // A container leaves its place while it is changed, so that nobody else holds it and nothing is
  // copied. It is taken out by a plain `guard case`: a pattern over a tuple would hold it too.

  private mutating func set(_ segment: PathSegment, _ value: JSON) throws(OperationError) {
    switch segment {
    case .key(let key):
      guard case .object(var members) = self else { throw segment.isMisplaced }
      self = .null
      members[key] = value
      self = .object(members)
    case .index(let index):
      guard case .array(var elements) = self else { throw segment.isMisplaced }
      guard (0...elements.count).contains(index) else {
        throw segment.isOutOfRange(of: elements.count)
      }
      self = .null
      if index == elements.count { elements.append(value) } else { elements[index] = value }
      self = .array(elements)
    }
  }

  private mutating func delete(_ path: [PathSegment]) throws(OperationError) {
    guard let last = path.last else { throw .malformed("'d' needs a path") }
    try Self.check(last)
    try change(path.dropLast(), mayBeRoot: true) { (target) throws(OperationError) in
      try target.delete(last)
    }
  }

  private mutating func delete(_ segment: PathSegment) throws(OperationError) {
    switch segment {
    case .key(let key):
      guard case .object(var members) = self else { throw segment.isMisplaced }
      self = .null
      members[key] = nil
      self = .object(members)
    case .index(let index):
      guard case .array(var elements) = self else { throw segment.isMisplaced }
      guard elements.indices.contains(index) else {
        throw segment.isOutOfRange(of: elements.count)
      }
      self = .null
      elements.remove(at: index)
      self = .array(elements)
    }
  }

  private static func check(_ segment: PathSegment) throws(OperationError) {
    if case .key(let key) = segment, PathSegment.unsafeKeys.contains(key) {
      throw .unsafePathSegment(key.string)
    }
  }

  /// Refuses a value that would make its document deeper than a parser accepts.
  private func checkDepth(under path: [PathSegment], below more: Int = 0) throws(OperationError) {
    let limit = JSON.ParseOptions().maxDepth
    guard !nests(deeperThan: limit - path.count - more) else {
      throw .malformed("the value would nest deeper than \(limit)")
    }
  }

  private func nests(deeperThan limit: Int) -> Bool {
    switch self {
    case .array(let elements):
      limit <= 0 || elements.contains { $0.nests(deeperThan: limit - 1) }
    case .object(let members):
      limit <= 0 || members.valuesInOrder.contains { $0.nests(deeperThan: limit - 1) }
    default: limit < 0
    }
  }

  /// Walks to the value at `path` and lets `body` change it where it lies.
  private mutating func change(
    _ path: some RandomAccessCollection<PathSegment>,
    mayBeRoot: Bool = false,
    _ body: (inout JSON) throws(OperationError) -> Void
  ) throws(OperationError) {
    let path = Array(path)
    guard mayBeRoot || !path.isEmpty else { throw .malformed("an operation needs a path") }
    for segment in path { try Self.check(segment) }
    try descend(path, 0, body)
  }

  private mutating func descend(
    _ path: [PathSegment],
    _ position: Int,
    _ body: (inout JSON) throws(OperationError) -> Void
  ) throws(OperationError) {
    guard position < path.count else { return try body(&self) }
    let segment = path[position]
    switch segment {
    case .key(let key):
      guard case .object(var members) = self else { throw segment.isMisplaced }
      self = .null
      defer { self = .object(members) }
      let found: Void? = try members.update(key) { (child) throws(OperationError) in
        try child.descend(path, position + 1, body)
      }
      guard found != nil else { throw .unresolvablePath("no member '\(key.string)'") }
    case .index(let index):
      guard case .array(var elements) = self else { throw segment.isMisplaced }
      guard elements.indices.contains(index) else {
        throw segment.isOutOfRange(of: elements.count)
      }
      self = .null
      defer { self = .array(elements) }
      try elements[index].descend(path, position + 1, body)
    }
  }

  private mutating func append(_ text: JSONString) throws(OperationError) {
    guard case .string(var string) = self else { throw .unresolvablePath("not a string") }
    self = .null
    string.append(text)
    self = .string(string)
  }

  private mutating func trim(_ count: Int) throws(OperationError) {
    guard case .string(let string) = self else { throw .unresolvablePath("not a string") }
    guard count >= 0 else { throw .malformed("a trim of \(count) units") }
    guard let rest = string.dropping(utf16Units: count) else {
      throw .unresolvablePath("a trim of \(count) units of a string of \(string.utf16Count)")
    }
    self = .string(rest)
  }

  private mutating func splice(
    at index: Int,
    remove: Int,
    insert items: [JSON]
  ) throws(OperationError) {
    guard case .array(var elements) = self else { throw .unresolvablePath("not an array") }
    guard (0...elements.count).contains(index), (0...elements.count - index).contains(remove)
    else {
      throw .unresolvablePath("a splice of \(remove) at \(index) of \(elements.count) elements")
    }
    self = .null
    elements.replaceSubrange(index..<(index + remove), with: items)
    self = .array(elements)
  }

  private mutating func reorder(_ order: [Int]) throws(OperationError) {
    guard case .array(let elements) = self else { throw .unresolvablePath("not an array") }
    guard order.count == elements.count else {
      throw .unresolvablePath("an order of \(order.count) for \(elements.count) elements")
    }
    var seen = [Bool](repeating: false, count: order.count)
    for position in order {
      guard seen.indices.contains(position), !seen[position] else {
        throw .malformed("an order names a position twice or one that does not exist")
      }
      seen[position] = true
    }
    self = .array(order.map { elements[$0] })
  }
}

extension PathSegment {
  fileprivate var isMisplaced: OperationError {
    .unresolvablePath("\(json.compactText) in a value of another kind")
  }

  fileprivate func isOutOfRange(of count: Int) -> OperationError {
    .unresolvablePath("index \(json.compactText) of \(count) elements")
  }
}

/// Returns what a value becomes by a batch of operations, as `JSON.applying` does.
public func applyOperations(
  _ operations: [Operation],
  to value: JSON
) throws(OperationError) -> JSON { try value.applying(operations) }
