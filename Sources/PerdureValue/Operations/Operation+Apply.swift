extension JSON {
  /// Returns this value after `operations`, applied in order; unchanged parts are shared.
  ///
  /// Throws at the first operation that cannot be applied; nothing changes then.
  public func applying(_ operations: [Operation]) throws(OperationError) -> JSON {
    var value = self
    for operation in operations { try value.apply(operation) }
    return value
  }

  /// Applies one operation in place; a failed operation leaves the value as it was.
  public mutating func apply(_ operation: Operation) throws(OperationError) {
    switch operation {
    case .replace(let value): self = value
    case .set(let path, let value): try set(path, value)
    case .delete(let path): try delete(path)
    case .append(let path, let text):
      try change(path) { (target) throws(OperationError) in
        guard case .string(let old) = target else { throw .unresolvablePath("not a string") }
        target = .null
        target = .string(old.appending(text))
      }
    case .trim(let path, let count):
      try change(path) { (target) throws(OperationError) in
        guard case .string(let old) = target else { throw .unresolvablePath("not a string") }
        let units = old.utf16
        guard count <= units.count else {
          throw .unresolvablePath("a trim of \(count) units of a string of \(units.count)")
        }
        target = .string(JSONString(utf16: units[count...]))
      }
    case .splice(let path, let index, let remove, let items):
      try change(path, mayBeRoot: true) { (target) throws(OperationError) in
        try target.splice(at: index, remove: remove, insert: items)
      }
    case .reorder(let path, let order):
      try change(path, mayBeRoot: true) { (target) throws(OperationError) in
        try target.reorder(order)
      }
    }
  }

  private mutating func set(
    _ path: [PathSegment],
    _ value: JSON
  ) throws(OperationError) {
    guard let last = path.last else { throw .malformed("'s' needs a path") }
    try check(path)
    try change(path.dropLast(), mayBeRoot: true) { (target) throws(OperationError) in
      switch (last, target) {
      case (.key(let key), .object(var members)):
        target = .null
        members[key] = value
        target = .object(members)
      case (.index(let index), .array(var elements)):
        guard index <= elements.count else {
          throw .unresolvablePath("index \(index) of \(elements.count) elements")
        }
        target = .null
        if index == elements.count { elements.append(value) } else { elements[index] = value }
        target = .array(elements)
      default: throw .unresolvablePath("\(last.json.compactText) in a value of another kind")
      }
    }
  }

  private mutating func delete(_ path: [PathSegment]) throws(OperationError) {
    guard let last = path.last else { throw .malformed("'d' needs a path") }
    try check(path)
    try change(path.dropLast(), mayBeRoot: true) { (target) throws(OperationError) in
      switch (last, target) {
      case (.key(let key), .object(var members)):
        target = .null
        members[key] = nil
        target = .object(members)
      case (.index(let index), .array(var elements)):
        guard index < elements.count else {
          throw .unresolvablePath("index \(index) of \(elements.count) elements")
        }
        target = .null
        elements.remove(at: index)
        target = .array(elements)
      default: throw .unresolvablePath("\(last.json.compactText) in a value of another kind")
      }
    }
  }

  private func check(_ path: [PathSegment]) throws(OperationError) {
    for case .key(let key) in path where PathSegment.unsafeKeys.contains(key) {
      throw .unsafePathSegment(key.string)
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
    try check(path)
    try descend(path, 0, body)
  }

  private mutating func descend(
    _ path: [PathSegment],
    _ position: Int,
    _ body: (inout JSON) throws(OperationError) -> Void
  ) throws(OperationError) {
    guard position < path.count else { return try body(&self) }
    switch (path[position], self) {
    case (.key(let key), .object(var members)):
      // The value leaves its place while it is changed, so that nothing is copied.
      self = .null
      defer { self = .object(members) }
      let found: Void? = try members.update(key) { (child) throws(OperationError) in
        try child.descend(path, position + 1, body)
      }
      guard found != nil else { throw .unresolvablePath("no member '\(key.string)'") }
    case (.index(let index), .array(var elements)):
      guard index < elements.count else {
        throw .unresolvablePath("index \(index) of \(elements.count) elements")
      }
      self = .null
      defer { self = .array(elements) }
      try elements[index].descend(path, position + 1, body)
    default:
      throw .unresolvablePath("\(path[position].json.compactText) in a value of another kind")
    }
  }

  private mutating func splice(
    at index: Int,
    remove: Int,
    insert items: [JSON]
  ) throws(OperationError) {
    guard case .array(var elements) = self else { throw .unresolvablePath("not an array") }
    guard index <= elements.count, remove <= elements.count - index else {
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
      guard position < order.count, !seen[position] else {
        throw .malformed("an order names a position twice or one that does not exist")
      }
      seen[position] = true
    }
    self = .array(order.map { elements[$0] })
  }
}
