import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

struct AgreementTests {
  @Test(arguments: UInt64(1)...Effort.choose(12, long: 300))
  func `all backends make the same of random groups`(seed: UInt64) async throws {
    let folder = TemporaryFolder()
    let sqlite = try await openStore(folder)
    var jsonl = try await JSONLStorage.open(path: folder.file("jsonl"), durability: .normal)
    let memory = MemoryStorage()
    var groups = RandomGroups(state: seed)
    var accepted = 0
    for step in 0..<150 {
      let group = groups.group()
      let (counters, nextId) = (groups.counters, max(groups.counters.nextId, 1_000))
      var sentences: [String] = []
      for storage in [sqlite, jsonl, memory] as [any Storage] {
        let sentence = await sentence {
          try await storage.apply(group, expecting: counters, nextId: nextId)
        }
        sentences.append(sentence)
      }
      #expect(Set(sentences).count == 1, "seed \(seed), step \(step): \(sentences)")
      guard sentences.first == "no error" else { continue }
      accepted += 1
      groups.counters = StoreCounters(
        nextSequence: counters.nextSequence + Int64(group.count),
        nextId: nextId
      )
      if accepted % 11 == 0 {
        try await jsonl.compact()
        try await sqlite.compact()
      }
      guard accepted % 7 == 0 else { continue }
      await jsonl.close()
      jsonl = try await JSONLStorage.open(path: folder.file("jsonl"), durability: .normal)
    }
    // Ids that were removed are not used again, so some seeds soon have little left to write.
    #expect(accepted >= 5, "seed \(seed)")
    let last = groups.counters.nextSequence
    let wanted = try await dump(memory, last)
    for storage in [sqlite, jsonl] as [any Storage] {
      #expect(try await storage.counters() == groups.counters, "seed \(seed)")
    }
    #expect(try await dump(sqlite, last) == wanted, "seed \(seed)")
    #expect(try await dump(jsonl, last) == wanted, "seed \(seed)")
    await sqlite.close()
    await jsonl.close()
  }
}
