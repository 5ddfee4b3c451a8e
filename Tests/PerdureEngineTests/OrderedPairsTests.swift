import PerdureEngine
import PerdureTestKit
import Testing

@Suite struct OrderedPairsTests {
  @Test(arguments: ["pairs 1", "pairs 2", "pairs 3"])
  func `random changes leave the same pairs as in a sorted set`(seed: String) {
    var random = SeededGenerator(for: seed)
    var pairs = OrderedPairs()
    var model: Set<[Int64]> = []
    for _ in 0..<20_000 {
      let (key, value) = (Int64(random.int(0...40)), Int64(random.int(0...60)))
      if random.chance(60) {
        pairs.insert(key, value)
        model.insert([key, value])
      } else {
        pairs.remove(key, value)
        model.remove([key, value])
      }
    }
    let sorted = model.sorted { $0.lexicographicallyPrecedes($1) }
    var found: [[Int64]] = []
    pairs.visit { found.append([$0.key, $0.value]) }
    #expect(found == sorted)
    #expect(pairs.count == sorted.count)
    for key in Int64(-1)...41 {
      #expect(pairs.values(of: key) == sorted.filter { $0[0] == key }.map { $0[1] })
      #expect(pairs.values(through: key) == sorted.filter { $0[0] <= key }.map { $0[1] })
      #expect(pairs.firstKey(after: key) == sorted.first { $0[0] > key }?[0])
    }
  }

  @Test func `numbers of every size keep their order`() {
    var random = SeededGenerator(for: "far apart")
    let far: [Int64] = [.min, -(1 << 40), -5, 0, 7, 1 << 31, 1 << 40, .max - 1, .max]
    var pairs = OrderedPairs()
    var model: Set<[Int64]> = []
    for _ in 0..<5_000 {
      let (key, value) = (random.pick(far), random.pick(far) / 3 + Int64(random.int(0...90)))
      if random.chance(70) {
        pairs.insert(key, value)
        model.insert([key, value])
      } else {
        pairs.remove(key, value)
        model.remove([key, value])
      }
    }
    var found: [[Int64]] = []
    pairs.visit { found.append([$0.key, $0.value]) }
    #expect(found == model.sorted { $0.lexicographicallyPrecedes($1) })
  }

  @Test func `random changes leave the same map as a dictionary`() {
    var random = SeededGenerator(for: "map")
    var map = OrderedPairs()
    var model: [Int64: Int64] = [:]
    for step in Int64(0)..<20_000 {
      let key = Int64(random.int(-2_000...2_000))
      let value = random.chance(70) ? step : nil
      map[key] = value
      model[key] = value
    }
    for key in Int64(-2_001)...2_001 { #expect(map[key] == model[key]) }
    #expect(map.count == model.count)
  }
}
