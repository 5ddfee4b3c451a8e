import PerdureValue

/// The operations that lead from one value to another, as small as its leaves.
struct Difference {
  private(set) var operations: [Operation] = []

  /// Adds the operations that lead from `old` to `new`, both of which are at `path`.
  mutating func compare(_ path: [PathSegment], _ old: JSON, _ new: JSON) {
    switch (old, new) {
    case (.object(let old), .object(let new)) where Self.keepsOrder(old, new):
      for (key, _) in old where new[key] == nil { operations.append(.delete(path + [.key(key)])) }
      for (key, value) in new {
        let place = path + [.key(key)]
        if let before = old[key] {
          compare(place, before, value)
        } else {
          operations.append(.set(place, value))
        }
      }
    case (.array(let old), .array(let new)) where new.count >= old.count:
      for (index, before) in old.enumerated() {
        compare(path + [.index(index)], before, new[index])
      }
      if new.count > old.count {
        let added = Array(new[old.count...])
        operations.append(.splice(path, at: old.count, remove: 0, insert: added))
      }
    default: operations += Self.ofLeaf(path, old, new)
    }
  }

  /// The operations that replace `old` as a whole; none if both are the same scalar.
  static func ofLeaf(_ path: [PathSegment], _ old: JSON, _ new: JSON) -> [Operation] {
    if case .string(let old) = old, case .string(let new) = new, !path.isEmpty {
      return ofText(path, old, new)
    }
    if isSameScalar(old, new) { return [] }
    return [path.isEmpty ? .replace(new) : .set(path, new)]
  }

  /// Whether changing `old` member by member ends in the order of `new`.
  private static func keepsOrder(_ old: JSONObject, _ new: JSONObject) -> Bool {
    var expected = new.keys.makeIterator()
    // Members that stay keep their order among each other and come before the new ones.
    for key in old.keys where new[key] != nil {
      guard expected.next() == key else { return false }
    }
    // No path may name these, so an object that has one is set as a whole.
    return !(old.keys + new.keys).contains(where: PathSegment.unsafeKeys.contains)
  }

  private static func isSameScalar(_ old: JSON, _ new: JSON) -> Bool {
    switch (old, new) {
    // A zero with a sign is another text, though an equal number.
    case (.double(let old), .double(let new)): old.bitPattern == new.bitPattern
    case (.array, _), (.object, _): false
    default: old == new
    }
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
}
