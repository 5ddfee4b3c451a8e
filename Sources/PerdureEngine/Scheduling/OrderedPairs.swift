/// Pairs of numbers in order: a map, or an index that leads from one number to several.
///
/// What is known of a task that sleeps or waits must cost a few dozen bytes, and a hash table that
/// has just grown costs several times its contents. These pairs lie in blocks of neighbours, each
/// written as its distance from the first one of its block: a pair costs 8 bytes and the part of a
/// block that is free.
package struct OrderedPairs: Sendable {
  /// One pair; pairs are ordered by key, then by value.
  package struct Pair: Sendable, Equatable, Comparable {
    package var key: Int64
    package var value: Int64

    package static func < (left: Pair, right: Pair) -> Bool {
      left.key == right.key ? left.value < right.value : left.key < right.key
    }
  }

  /// Pairs that lie near each other, in order.
  private struct Block: Sendable {
    struct Entry: Sendable {
      var key: Int32
      var value: Int32
    }

    private let base: Pair
    private var entries: [Entry] = []

    init(_ first: Pair, capacity: Int = 0) {
      base = first
      entries.reserveCapacity(capacity)
      entries.append(Entry(key: 0, value: 0))
    }

    private init(base: Pair, entries: some Collection<Entry>) {
      self.base = base
      self.entries.reserveCapacity(OrderedPairs.blockSize)
      self.entries.append(contentsOf: entries)
    }

    var count: Int { entries.count }
    var isEmpty: Bool { entries.isEmpty }
    var last: Pair? { entries.isEmpty ? nil : self[entries.count - 1] }

    subscript(place: Int) -> Pair {
      let entry = entries[place]
      return Pair(key: base.key + Int64(entry.key), value: base.value + Int64(entry.value))
    }

    private func entry(_ pair: Pair) -> Entry? {
      func distance(_ number: Int64, _ base: Int64) -> Int32? {
        let (difference, overflow) = number.subtractingReportingOverflow(base)
        return overflow ? nil : Int32(exactly: difference)
      }
      guard let key = distance(pair.key, base.key), let value = distance(pair.value, base.value)
      else { return nil }
      return Entry(key: key, value: value)
    }

    /// Inserts a pair unless it is too far from the others; returns whether it did.
    mutating func insert(_ pair: Pair, at place: Int) -> Bool {
      guard let entry = entry(pair) else { return false }
      entries.insert(entry, at: place)
      return true
    }

    mutating func remove(at place: Int) { entries.remove(at: place) }

    /// Takes everything from a place on out of the block.
    mutating func split(at place: Int) -> Block {
      let upper = Block(base: base, entries: entries[place...])
      entries.removeSubrange(place...)
      return upper
    }
  }

  private static let blockSize = 256

  private var blocks: [Block] = []
  /// How many pairs there are.
  package private(set) var count = 0

  /// Makes an empty one.
  package init() {}

  /// Whether there is no pair.
  package var isEmpty: Bool { count == 0 }

  /// The first pair.
  package var first: Pair? { blocks.first.map { $0[0] } }

  // MARK: As an index

  /// Adds a pair, unless it is there.
  package mutating func insert(_ key: Int64, _ value: Int64) {
    let pair = Pair(key: key, value: value)
    guard !blocks.isEmpty else {
      blocks = [Block(pair)]
      count = 1
      return
    }
    let block = min(self.block(for: pair), blocks.count - 1)
    let place = Self.place(of: pair, in: blocks[block])
    if place < blocks[block].count, blocks[block][place] == pair { return }
    count += 1
    if blocks[block].count >= Self.blockSize {
      insert(pair, intoFull: block, at: place)
    } else if !blocks[block].insert(pair, at: place) {
      insert(pair, apartFrom: block, at: place)
    }
  }

  private mutating func insert(_ pair: Pair, intoFull block: Int, at place: Int) {
    // Ids are read upwards or downwards, so most pairs come behind or before all others; then the
    // full block stays full.
    if block == 0, place == 0 {
      blocks.insert(Block(pair, capacity: Self.blockSize), at: 0)
      return
    }
    if block == blocks.count - 1, place == blocks[block].count {
      blocks.append(Block(pair, capacity: Self.blockSize))
      return
    }
    let half = Self.blockSize / 2
    blocks.insert(blocks[block].split(at: half), at: block + 1)
    let target = place <= half ? block : block + 1
    let rest = place <= half ? place : place - half
    if !blocks[target].insert(pair, at: rest) { insert(pair, apartFrom: target, at: rest) }
  }

  /// Inserts a pair as a block of its own, because it is too far from its neighbours.
  private mutating func insert(_ pair: Pair, apartFrom block: Int, at place: Int) {
    if place == 0 {
      blocks.insert(Block(pair), at: block)
      return
    }
    if place < blocks[block].count {
      blocks.insert(blocks[block].split(at: place), at: block + 1)
    }
    blocks.insert(Block(pair), at: block + 1)
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
      for place in 0..<block.count {
        if block[place].key > key { return values }
        values.append(block[place].value)
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
          remove(block, place)
        }
      }
      if let newValue { insert(key, newValue) }
    }
  }

  /// Visits all pairs in order.
  package func visit(_ body: (Pair) throws -> Void) rethrows {
    for block in blocks {
      for place in 0..<block.count { try body(block[place]) }
    }
  }

  // MARK: Search

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
  private static func place(of pair: Pair, in block: Block) -> Int {
    var (low, high) = (0, block.count)
    while low < high {
      let middle = (low + high) / 2
      if block[middle] < pair { low = middle + 1 } else { high = middle }
    }
    return low
  }
}
