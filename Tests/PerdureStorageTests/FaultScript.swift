import PerdureModel
import PerdureStorage

/// Groups that a store accepts, with what it holds after each of their commits.
struct FaultScript {
  private(set) var groups: [[Batch]] = []
  private(set) var contents: [[String]] = []
  let nextId: Int64 = 1_000
  let last: Int64

  init(seed: UInt64, groups wanted: Int) async throws {
    let judge = MemoryStorage()
    var random = RandomGroups(state: seed)
    while groups.count < wanted {
      let group = random.group()
      let counters = random.counters
      let answer = await sentence {
        try await judge.apply(group, expecting: counters, nextId: 1_000)
      }
      guard answer == "no error" else { continue }
      groups.append(group)
      random.counters = StoreCounters(
        nextSequence: counters.nextSequence + Int64(group.count),
        nextId: nextId
      )
    }
    last = random.counters.nextSequence
    let memory = MemoryStorage()
    contents.append(try await dump(memory, last))
    for batch in groups.joined() {
      let counters = try await memory.counters()
      try await memory.apply([batch], expecting: counters, nextId: nextId)
      contents.append(try await dump(memory, last))
    }
  }
}
