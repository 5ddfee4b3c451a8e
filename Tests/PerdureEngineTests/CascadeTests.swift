import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct CascadeTests {
  /// Counts how often all submissions of a status are looked through.
  private final class ScanningStorage: ForwardingStorage {
    let base: any Storage
    let scans = Mutex(0)

    init(_ base: any Storage) { self.base = base }

    func scanSubmissions(
      _ query: SubmissionQuery,
      _ page: PageRequest
    ) async throws -> Page<SubmissionRecord> {
      scans.withLock { $0 += 1 }
      return try await base.scanSubmissions(query, page)
    }
  }

  @Test func `new work beside an abort does not make everything looked through`() async throws {
    let storages = Log<ScanningStorage>()
    var bench = TestBench()
    bench.front = { base in
      let storage = ScanningStorage(base)
      storages.add(storage)
      return storage
    }
    let (isAborting, mayEnd) = (Event(), Event())
    let slow = TestTask(
      "slow",
      phases: ["start": { _, _ in await Event().waitOrCancel() }],
      abort: { runtime, _ in
        isAborting.happen()
        await mayEnd.wait()
        try await runtime.commit { _, _ in .terminal(.aborted(reason: nil)) }
      }
    )
    let quick = TestTask("quick") { runtime, _ in
      try await runtime.commit { _, _ in .terminal(.completed(result: .null)) }
    }
    let engine = try await bench.open([slow, quick])
    let aborted = try await engine.create(slow)
    _ = try await engine.abortTask(aborted)
    await isAborting.wait()
    let storage = try #require(storages.all.first)
    let before = storage.scans.withLock { $0 }
    for _ in 0..<5 { _ = try await engine.outcome(try await engine.create(quick)) }
    #expect(storage.scans.withLock { $0 } == before)
    mayEnd.happen()
    _ = try await engine.outcome(aborted)
    try await bench.end(engine)
  }
}
