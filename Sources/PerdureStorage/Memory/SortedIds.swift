import PerdureModel

/// Ids in ascending order; adding the greatest is cheap, because that is how records arrive.
struct SortedIds {
  private(set) var values: [Int64]

  init() { values = [] }

  /// Takes ids that ascend already.
  init(ascending values: [Int64]) { self.values = values }

  /// The first position whose id is not less than `id`.
  private func position(_ id: Int64) -> Int {
    var low = 0
    var high = values.count
    while low < high {
      let middle = (low + high) / 2
      if values[middle] < id { low = middle + 1 } else { high = middle }
    }
    return low
  }

  mutating func insert(_ id: Int64) {
    if values.last.map({ $0 < id }) ?? true {
      values.append(id)
      return
    }
    let place = position(id)
    if values[place] != id { values.insert(id, at: place) }
  }

  mutating func remove(_ id: Int64) {
    let place = position(id)
    if place < values.count, values[place] == id { values.remove(at: place) }
  }

  /// The greatest id that is at most `upper`.
  func last(atMost upper: Int64) -> Int64? {
    let end = upper == Int64.max ? values.count : position(upper + 1)
    return end > 0 ? values[end - 1] : nil
  }

  /// Returns what `select` makes of the ids behind `after` until there are `limit` of them.
  func scan<Item>(
    _ order: ScanOrder,
    after: Int64?,
    limit: Int,
    _ select: (Int64) -> Item?
  ) -> [Item] {
    let start: Int64
    switch order {
    case .ascending: start = after.map { $0 == Int64.max ? $0 : $0 + 1 } ?? 0
    case .descending: start = after.map { $0 - 1 } ?? Int64.max
    }
    return scan(order == .ascending ? start...Int64.max : 0...max(start, 0), order, limit, select)
  }

  /// Returns what `select` makes of the ids in `bounds` until there are `limit` of them.
  func scan<Item>(
    _ bounds: ClosedRange<Int64>,
    _ order: ScanOrder,
    _ limit: Int,
    _ select: (Int64) -> Item?
  ) -> [Item] {
    let begin = position(bounds.lowerBound)
    let end = bounds.upperBound == Int64.max ? values.count : position(bounds.upperBound + 1)
    var items: [Item] = []
    var offset = 0
    while offset < end - begin, items.count < limit {
      let place = order == .ascending ? begin + offset : end - 1 - offset
      if let item = select(values[place]) { items.append(item) }
      offset += 1
    }
    return items
  }
}
