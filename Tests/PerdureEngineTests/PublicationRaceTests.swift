import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct PublicationRaceTests {
  @Test func `a commit is told although another flush wrote it`() async throws {
    let session = try await Session.open(MemoryStorage(), clock: ManualClock())
    try await session.commit { _ = try await $0.createConversation(root: true) }
    let told = Mutex<Int64>(0)
    let stop = session.publications.subscribe { publication in
      told.withLock { $0 = publication.sequence }
    }
    for round in 0..<4_000 {
      let flushing = Task.detached { for _ in 0..<4 { try await session.store.flush() } }
      let (_, publication) = try await session.stage(conversation: .root) { tx in
        _ = try await tx.append(EntryDraft(kind: "note"), to: .root)
      }
      let sequence = try #require(publication?.sequence)
      try await session.store.flush(through: sequence)
      try await flushing.value
      // Whoever delivers may still be about it.
      for _ in 0..<10_000 where told.withLock({ $0 }) < sequence { await Task.yield() }
      try #require(told.withLock { $0 } == sequence, "round \(round)")
    }
    stop()
    try await session.close()
  }
}
