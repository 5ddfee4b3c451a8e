/// Pairs of numbers in order: a map, or an index that leads from one number to several.
///
/// What is known of a task that sleeps or waits must cost a few dozen bytes, and a hash table that
/// has just grown costs several times its contents. These pairs lie in blocks of a fixed size:
/// a pair costs its 16 bytes and the part of a block that is free.
package struct OrderedPairs: Sendable {
  /// One pair; pairs are ordered by key, then by value.
  package struct Pair: Sendable, Equatable, Comparable {
    package var key: Int64
    package var value: Int64

    package static func < (left: Pair, right: Pair) -> Bool {
      left.key == right.key ? left.value < right.value : left.key < right.key
    }
  }

  private static let blockSize = 256

  private var blocks: [[Pair]] = []
  /// How many pairs there are.
  package private(set) var count = 0

  /// Makes an empty one.
  package init() {}

  /// Whether there is no pair.
  package var isEmpty: Bool { count == 0 }

  /// The first pair.
  package var first: Pair? { blocks.first?.first }

  // MARK: As an index

  /// Adds a pair, unless it is there.
  package mutating func insert(_ key: Int64, _ value: Int64) {
    let pair = Pair(key: key, value: value)
    guard !blocks.isEmpty else {
      blocks = [Self.block(with: [pair])]
      count = 1
      return
    }
    let block = min(self.block(for: pair), blocks.count - 1)
    let place = Self.place(of: pair, in: blocks[block])
    if place < blocks[block].count, blocks[block][place] == pair { return }
    count += 1
    guard blocks[block].count >= Self.blockSize else {
      blocks[block].insert(pair, at: place)
      return
    }
    // Ids ascend, so most pairs come behind all others; then the full block stays full.
    if block == blocks.count - 1, place == blocks[block].count {
      blocks.append(Self.block(with: [pair]))
      return
    }
    let half = Self.blockSize / 2
    let upper = Self.block(with: blocks[block][half...])
    blocks[block].removeSubrange(half...)
    blocks.insert(upper, at: block + 1)
    let target = place <= half ? block : block + 1
    blocks[target].insert(pair, at: place <= half ? place : place - half)
  }

  /// Removes a pair, if it is there.
  package mutating func remove(_ key: Int64, _ value: Int64) {
    let pair = Pair(key: key, value: value)
    let block = self.block(for: pair)
    guard block < blocks.count else { return }
    let place = Self.place(of: pair, in: blocks[block])
    guard place < blocks[block].count, blocks[block][place] == pair else { return }
    remove(block, place)
  }

  private mutating func remove(_ block: Int, _ place: Int) {
    count -= 1
    blocks[block].remove(at: place)
    if blocks[block].isEmpty { blocks.remove(at: block) }
  }

  /// The values of a key, in order.
  package func values(of key: Int64) -> [Int64] {
    let start = Pair(key: key, value: .min)
    var values: [Int64] = []
    var block = self.block(for: start)
    guard block < blocks.count else { return [] }
    var place = Self.place(of: start, in: blocks[block])
    while block < blocks.count {
      while place < blocks[block].count {
        guard blocks[block][place].key == key else { return values }
        values.append(blocks[block][place].value)
        place += 1
      }
      block += 1
      place = 0
    }
    return values
  }

  /// The values of all keys up to this one, in order.
  package func values(through key: Int64) -> [Int64] {
    var values: [Int64] = []
    for block in blocks {
      for pair in block {
        if pair.key > key { return values }
        values.append(pair.value)
      }
    }
    return values
  }

  /// The first key that is greater.
  package func firstKey(after key: Int64) -> Int64? {
    let pair = Pair(key: key, value: .max)
    let block = self.block(for: pair)
    guard block < blocks.count else { return nil }
    let place = Self.place(of: pair, in: blocks[block])
    if place < blocks[block].count, blocks[block][place] != pair { return blocks[block][place].key }
    return place + 1 < blocks[block].count ? blocks[block][place + 1].key : nil
  }

  // MARK: As a map

  /// The value of a key that has at most one.
  package subscript(key: Int64) -> Int64? {
    get {
      let start = Pair(key: key, value: .min)
      let block = self.block(for: start)
      guard block < blocks.count else { return nil }
      let place = Self.place(of: start, in: blocks[block])
      guard place < blocks[block].count, blocks[block][place].key == key else { return nil }
      return blocks[block][place].value
    }
    set {
      let start = Pair(key: key, value: .min)
      let block = self.block(for: start)
      if block < blocks.count {
        let place = Self.place(of: start, in: blocks[block])
        if place < blocks[block].count, blocks[block][place].key == key {
          if let newValue { blocks[block][place].value = newValue } else { remove(block, place) }
          return
        }
      }
      if let newValue { insert(key, newValue) }
    }
  }

  /// Visits all pairs in order.
  package func visit(_ body: (Pair) throws -> Void) rethrows {
    for block in blocks { for pair in block { try body(pair) } }
  }

  // MARK: Search

  private static func block(with pairs: some Collection<Pair>) -> [Pair] {
    var block: [Pair] = []
    block.reserveCapacity(blockSize)
    block.append(contentsOf: pairs)
    return block
  }

  /// The first block whose last pair is not before `pair`.
  private func block(for pair: Pair) -> Int {
    var (low, high) = (0, blocks.count)
    while low < high {
      let middle = (low + high) / 2
      if let last = blocks[middle].last, last < pair { low = middle + 1 } else { high = middle }
    }
    return low
  }

  /// The first place whose pair is not before `pair`.
  private static func place(of pair: Pair, in block: [Pair]) -> Int {
    var (low, high) = (0, block.count)
    while low < high {
      let middle = (low + high) / 2
      if block[middle] < pair { low = middle + 1 } else { high = middle }
    }
    return low
  }
}
