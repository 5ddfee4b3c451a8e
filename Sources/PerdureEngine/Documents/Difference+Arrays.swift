import PerdureValue

/// How arrays are compared.
///
/// What both begin and end with is passed over. In between, elements that are the same are found
/// by their hashes; the others are compared in pairs where they lie between the same neighbours.
extension Difference {
  /// Where an element of the new array comes from.
  private enum Origin {
    /// The element of the old array at this index, unchanged.
    case same(Int)
    /// The element of the old array at this index, changed in place.
    case changed(Int)
    case inserted

    var index: Int? {
      switch self {
      case .same(let index), .changed(let index): index
      case .inserted: nil
      }
    }
  }

  // Beyond this many elements between start and end no element is looked for elsewhere.
  private static let maxMatched = 65_536

  mutating func compare(_ path: [PathSegment], _ old: [JSON], _ new: [JSON]) {
    let shorter = min(old.count, new.count)
    var start = 0
    while start < shorter, old[start].isSame(as: new[start]) { start += 1 }
    var end = 0
    while end < shorter - start, old[old.count - 1 - end].isSame(as: new[new.count - 1 - end]) {
      end += 1
    }
    let (left, right) = (old[start..<(old.count - end)], new[start..<(new.count - end)])
    let mark = operations.count
    if left.isEmpty {
      if !right.isEmpty {
        add(.splice(path, at: start, remove: 0, insert: Array(right)))
      }
    } else if right.isEmpty {
      add(.splice(path, at: start, remove: left.count, insert: []))
    } else {
      move(path, old, new, left, right)
      shorten(since: mark, path, new)
    }
  }

  private mutating func move(
    _ path: [PathSegment],
    _ old: [JSON],
    _ new: [JSON],
    _ left: ArraySlice<JSON>,
    _ right: ArraySlice<JSON>
  ) {
    var origins = Self.match(left, right)
    let isReordered = Self.settleOrder(&origins, left, old.count)
    if !isReordered { Self.pair(&origins, left) }
    // Removals from the end, so that the indices before them stay.
    let kept = Set(origins.compactMap { $0.index })
    var survivors = left.indices.filter { kept.contains($0) }
    remove(path, left, kept)
    if isReordered {
      let order = origins.compactMap { $0.index }
      let places = Dictionary(
        uniqueKeysWithValues: survivors.enumerated().map { ($1, left.startIndex + $0) }
      )
      let rest = (left.startIndex + survivors.count)..<(old.count - left.count + survivors.count)
      add(.reorder(path, Array(0..<left.startIndex) + order.compactMap { places[$0] } + rest))
      survivors = order
    }
    insert(path, origins, right)
    for (offset, origin) in origins.enumerated() {
      guard case .changed(let index) = origin else { continue }
      let place = right.startIndex + offset
      compare(path + [.index(place)], left[index], right[place])
    }
  }

  private mutating func remove(
    _ path: [PathSegment],
    _ left: ArraySlice<JSON>,
    _ kept: Set<Int>
  ) {
    var index = left.endIndex
    while index > left.startIndex {
      let last = index
      while index > left.startIndex, !kept.contains(index - 1) { index -= 1 }
      if index < last { add(.splice(path, at: index, remove: last - index, insert: [])) }
      index -= 1
    }
  }

  private mutating func insert(
    _ path: [PathSegment],
    _ origins: [Origin],
    _ right: ArraySlice<JSON>
  ) {
    var offset = 0
    while offset < origins.count {
      let first = offset
      while offset < origins.count, origins[offset].index == nil { offset += 1 }
      if first < offset {
        let place = right.startIndex + first
        let items = Array(right[place..<(right.startIndex + offset)])
        add(.splice(path, at: place, remove: 0, insert: items))
      }
      offset += 1
    }
  }

  // MARK: Matching

  /// Finds for each new element an old one that is the same, each old one at most once.
  private static func match(_ left: ArraySlice<JSON>, _ right: ArraySlice<JSON>) -> [Origin] {
    let isOne = left.count == 1 && right.count == 1
    guard !isOne, max(left.count, right.count) <= maxMatched else {
      return Array(repeating: .inserted, count: right.count)
    }
    var places: [Int: [Int]] = [:]
    // From the end, so that the first of equal elements is taken first.
    for index in left.indices.reversed() { places[hash(left[index]), default: []].append(index) }
    return right.map { element in
      let hash = hash(element)
      guard let index = places[hash]?.last, left[index].isSame(as: element) else {
        return .inserted
      }
      places[hash]?.removeLast()
      return .same(index)
    }
  }

  private static func hash(_ element: JSON) -> Int {
    var hasher = Hasher()
    element.hashContent(into: &hasher)
    return hasher.finalize()
  }

  /// Decides what becomes of elements that changed their order, and returns whether all of them
  /// are reordered; otherwise those that moved are taken out and inserted again.
  private static func settleOrder(
    _ origins: inout [Origin],
    _ left: ArraySlice<JSON>,
    _ count: Int
  ) -> Bool {
    let indices = origins.compactMap { $0.index }
    let staying = longestRise(indices)
    guard staying.count < indices.count else { return false }
    let movingCost = indices.filter { !staying.contains($0) }.reduce(0) {
      $0 + 32 + left[$1].roughSize
    }
    // An order names every index of the array.
    let digits = count.description.utf8.count
    if movingCost > count * (digits + 1) { return true }
    for offset in origins.indices {
      if let index = origins[offset].index, !staying.contains(index) { origins[offset] = .inserted }
    }
    return false
  }

  /// The members of a longest subsequence that rises.
  private static func longestRise(_ numbers: [Int]) -> Set<Int> {
    // For each length, the place of the smallest number that ends a rise of that length.
    var ends: [Int] = []
    var before: [Int?] = []
    for (place, number) in numbers.enumerated() {
      var (low, high) = (0, ends.count)
      while low < high {
        let middle = (low + high) / 2
        if numbers[ends[middle]] < number { low = middle + 1 } else { high = middle }
      }
      before.append(low > 0 ? ends[low - 1] : nil)
      if low == ends.count { ends.append(place) } else { ends[low] = place }
    }
    var rise: Set<Int> = []
    var place = ends.last
    while let current = place {
      rise.insert(numbers[current])
      place = before[current]
    }
    return rise
  }

  /// Pairs the elements that were not found with those that lie between the same neighbours.
  private static func pair(_ origins: inout [Origin], _ left: ArraySlice<JSON>) {
    var next = left.startIndex
    var offset = 0
    while offset < origins.count {
      if let index = origins[offset].index {
        next = index + 1
        offset += 1
        continue
      }
      // The old elements before the next one that stays are free.
      let following = origins[offset...].firstIndex { $0.index != nil }
      let limit = following.flatMap { origins[$0].index } ?? left.endIndex
      let last = following ?? origins.count
      while offset < last, next < limit {
        origins[offset] = .changed(next)
        next += 1
        offset += 1
      }
      offset = last
    }
  }
}
