import PerdureValue

/// The operations that lead from one value to another, as small as its leaves.
///
/// Both values are walked, however little changed; the operations grow with what changed.
struct Difference {
  private(set) var operations: [Operation] = []

  /// Adds the operations that lead from `old` to `new`, both of which are at `path`.
  mutating func compare(_ path: [PathSegment], _ old: JSON, _ new: JSON) {
    switch (old, new) {
    case (.object(let old), .object(let new)): compare(path, old, new)
    case (.array(let old), .array(let new)): compare(path, old, new)
    default: operations += Self.ofLeaf(path, old, new)
    }
  }

  mutating func add(_ operation: Operation) { operations.append(operation) }

  // MARK: Objects

  private mutating func compare(_ path: [PathSegment], _ old: JSONObject, _ new: JSONObject) {
    let kept = Self.kept(old, new)
    // No path may name some members, so an object that has one is set as a whole; so is one of
    // which nothing stays.
    let isSetWhole =
      kept.isEmpty && !old.isEmpty
      || (old.keys + new.keys).contains(where: PathSegment.unsafeKeys.contains)
    if isSetWhole {
      if !JSON.object(old).isSame(as: .object(new)) {
        operations.append(.whole(path, .object(new)))
      }
      return
    }
    if kept.count < old.count {
      let staying = Set(new.keys.prefix(kept.count))
      // What is deleted and set again moves to the end.
      for key in old.keys where !staying.contains(key) {
        operations.append(.delete(path + [.key(key)]))
      }
    }
    for (position, (key, value)) in new.enumerated() {
      let place = path + [.key(key)]
      if position < kept.count {
        compare(place, kept[position], value)
      } else {
        operations.append(.set(place, value))
      }
    }
  }

  /// The old values of the first members of `new` that may stay where they are: the others must
  /// come after them.
  private static func kept(_ old: JSONObject, _ new: JSONObject) -> [JSON] {
    var kept: [JSON] = []
    var last = -1
    let values = old.values
    for key in new.keys {
      guard let position = old.position(of: key), position > last else { break }
      last = position
      kept.append(values[position])
    }
    return kept
  }

  // MARK: Leaves

  /// The operations that replace `old` as a whole; none if both are the same scalar.
  static func ofLeaf(_ path: [PathSegment], _ old: JSON, _ new: JSON) -> [Operation] {
    if case .string(let old) = old, case .string(let new) = new, !path.isEmpty {
      return ofText(path, old, new)
    }
    switch old {
    // Containers are compared by their parts or not at all.
    case .array, .object: break
    default: if old.isSame(as: new) { return [] }
    }
    return [.whole(path, new)]
  }

  private static let maxOverlap = 65_536

  private static func ofText(
    _ path: [PathSegment],
    _ old: JSONString,
    _ new: JSONString
  ) -> [Operation] {
    if old == new { return [] }
    if let suffix = new.suffix(after: old) { return [.append(path, suffix)] }
    let start = new.utf16Prefix(maxOverlap)
    let overlap = overlap(of: old.utf16Suffix(maxOverlap), with: start)
    guard overlap > 0 else { return [.set(path, .string(new))] }
    var operations = [Operation.trim(path, old.utf16Count - overlap)]
    let rest = new.utf16.dropFirst(overlap)
    if !rest.isEmpty { operations.append(.append(path, JSONString(utf16: rest))) }
    return operations
  }

  /// The length of the longest end of `left` that is a start of `right`.
  private static func overlap(of left: [UInt16], with right: [UInt16]) -> Int {
    guard !right.isEmpty else { return 0 }
    // Knuth, Morris, Pratt: for each start of `right`, the longest shorter start that ends it.
    var shorter = [0]
    shorter.reserveCapacity(right.count)
    for index in right.indices.dropFirst() {
      var length = shorter[index - 1]
      while length > 0, right[length] != right[index] { length = shorter[length - 1] }
      shorter.append(right[length] == right[index] ? length + 1 : 0)
    }
    var length = 0
    for unit in left {
      if length == right.count { length = shorter[length - 1] }
      while length > 0, right[length] != unit { length = shorter[length - 1] }
      if right[length] == unit { length += 1 }
    }
    return length
  }

  // MARK: Size

  /// Replaces the operations since `mark` by one that sets `new` whole, if that is shorter.
  mutating func shorten(since mark: Int, _ path: [PathSegment], _ new: [JSON]) {
    // Few operations are hardly longer than what they change, and cheaper to read.
    guard operations.count - mark > 64 else { return }
    let size = operations[mark...].reduce(0) { $0 + $1.json.roughSize }
    guard size > JSON.array(new).roughSize + 16 else { return }
    operations.removeSubrange(mark...)
    operations.append(.whole(path, .array(new)))
  }
}

extension Operation {
  /// Sets the value at a path, or the whole document.
  static func whole(_ path: [PathSegment], _ value: JSON) -> Operation {
    path.isEmpty ? .replace(value) : .set(path, value)
  }
}

extension JSON {
  /// Whether both have the same text: the order of members counts, and the sign of a zero.
  func isSame(as other: JSON) -> Bool {
    switch (self, other) {
    case (.double(let left), .double(let right)): left.bitPattern == right.bitPattern
    case (.array(let left), .array(let right)):
      left.count == right.count && zip(left, right).allSatisfy { $0.isSame(as: $1) }
    case (.object(let left), .object(let right)):
      left.count == right.count && left.keys == right.keys
        && zip(left.values, right.values).allSatisfy { $0.isSame(as: $1) }
    default: self == other
    }
  }

  /// Adds to a hash that is equal for values that are the same.
  func hashContent(into hasher: inout Hasher) {
    switch self {
    case .null: hasher.combine(0)
    case .bool(let value): hasher.combine(value)
    case .int(let value): hasher.combine(value)
    case .double(let value): hasher.combine(value.bitPattern)
    case .bigInteger(let digits): hasher.combine(digits)
    case .string(let string): hasher.combine(string)
    case .array(let elements):
      hasher.combine(elements.count)
      for element in elements { element.hashContent(into: &hasher) }
    case .object(let members):
      hasher.combine(members.count)
      for (key, value) in members {
        hasher.combine(key)
        value.hashContent(into: &hasher)
      }
    }
  }
}
