import PerdureValue

extension JSON {
  /// Returns this value with the members of its objects in the order that they have in `other`.
  ///
  /// The order of a dictionary differs from run to run; taking it over would be no change that
  /// anybody made. An element of an array is arranged like the one that it was before, also if it
  /// has moved.
  func arranged(like other: JSON) -> JSON {
    switch (self, other) {
    case (.object(let members), .object(let old)):
      var arranged = JSONObject()
      for (key, before) in old {
        if let value = members[key] { arranged[key] = value.arranged(like: before) }
      }
      for (key, value) in members where old[key] == nil { arranged[key] = value }
      return .object(arranged)
    case (.array(let elements), .array(let old)):
      return .array(Self.arranged(elements, like: old))
    default: return self
    }
  }

  private static func arranged(_ elements: [JSON], like old: [JSON]) -> [JSON] {
    // Only objects have members, so most arrays need no search.
    guard elements.contains(where: \.hasMembers) else { return elements }
    var places: [Int: [Int]]?
    // Where the element would have been before, if what precedes it is any guide.
    var expected = 0
    return elements.map { element in
      defer { expected += 1 }
      let neighbour = old.indices.contains(expected) ? old[expected] : nil
      if let neighbour, element.hasContent(of: neighbour) { return neighbour }
      let known = places ?? Dictionary(grouping: old.indices) { old[$0].contentHash }
      places = known
      if let place = known[element.contentHash]?.first(where: { element.hasContent(of: old[$0]) }) {
        expected = place
        return old[place]
      }
      return neighbour.map { element.arranged(like: $0) } ?? element
    }
  }

  private var hasMembers: Bool {
    switch self {
    case .object: true
    case .array(let elements): elements.contains(where: \.hasMembers)
    default: false
    }
  }

  /// Whether both are the same but for the order of members.
  private func hasContent(of other: JSON) -> Bool {
    switch (self, other) {
    // A zero with a sign is another value.
    case (.double(let left), .double(let right)): left.bitPattern == right.bitPattern
    case (.array(let left), .array(let right)):
      left.count == right.count && zip(left, right).allSatisfy { $0.hasContent(of: $1) }
    case (.object(let left), .object(let right)):
      left.count == right.count
        && left.allSatisfy { key, value in right[key].map { value.hasContent(of: $0) } ?? false }
    default: self == other
    }
  }

  /// A hash that does not regard the order of members.
  private var contentHash: Int {
    switch self {
    case .null: 1
    case .bool(let value): value.hashValue
    case .int(let value): value.hashValue
    case .double(let value): value.bitPattern.hashValue
    case .bigInteger(let digits): digits.hashValue
    case .string(let string): string.hashValue
    case .array(let elements):
      elements.reduce(elements.count) { $0 &* 31 &+ $1.contentHash }
    case .object(let members):
      members.reduce(members.count) { hash, member in
        hash ^ (member.key.hashValue &* 31 &+ member.value.contentHash)
      }
    }
  }
}
