import PerdureEngine
import PerdureModel
import PerdureValue
import Testing

@Suite(.timeLimit(.minutes(5))) struct SubmissionPlacementTests {
  private func submission(
    _ bench: StoreBench,
    _ kind: SubmissionRecord.Kind,
    _ state: SubmissionRecord.State = .queued
  ) async throws -> SubmissionID {
    try await bench.session.commit { tx in
      try await tx.createSubmission(in: .root, requestId: nil, kind: kind, state: state).id
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `an input is placed by its entry and a write is done with it`(
    _ kind: StoreKind
  )
    async throws
  {
    let bench = try await StoreBench(kind)
    let input = try await submission(bench, .input)
    let write = try await submission(bench, .write)
    let entry = try await bench.append()
    try await bench.session.commit { tx in
      try await tx.place(input, entry: entry)
      try await tx.place(write, entry: entry)
    }
    let store = bench.session.store
    #expect(try await store.submission(input)?.state == .placed(entry: entry))
    #expect(try await store.submission(write)?.state == .done(entry: entry, answer: nil))
    // Only what is queued can be placed.
    let placed = await bench.error { try await $0.place(input, entry: entry) }
    let settled = await bench.error { try await $0.place(write, entry: entry) }
    #expect([placed?.code, settled?.code] == [.invalidBatch, .invalidBatch])
    // A placed input without a run is no store that an engine leaves, so it is only closed.
    try await bench.session.close()
  }

  @Test(arguments: StoreKind.allCases)
  func `a write whose head lies before the active context ends as stale`(
    _ kind: StoreKind
  )
    async throws
  {
    let bench = try await StoreBench(kind)
    let first = try await bench.append()
    let second = try await bench.append()
    let writes = [
      try await submission(bench, .write), try await submission(bench, .write),
      try await submission(bench, .write),
    ]
    let placed = try await bench.session.commit { tx in
      var start = try await tx.latestHeadMarker(.root)?.head
      let mark = EntryDraft(kind: "mark", head: .entry(second))
      let stale = EntryDraft(kind: "mark", head: .entry(first))
      let reset = EntryDraft(kind: "mark", head: .itself)
      // The first of the same commit moves the start for the second; a reset is never stale.
      return [
        try await tx.placeWrite(writes[0], mark, after: &start)?.head,
        try await tx.placeWrite(writes[1], stale, after: &start)?.head,
        try await tx.placeWrite(writes[2], reset, after: &start)?.head,
      ]
    }
    #expect(placed[0] == second)
    #expect(placed[1] == nil)
    let store = bench.session.store
    #expect(try await store.submission(writes[0])?.status == .done)
    #expect(
      try await store.submission(writes[1])?.state
        == .unanswered(reason: "stale", detail: nil, entry: nil)
    )
    #expect(try await store.submission(writes[2])?.entry == placed[2])
    let marks = try await store.scanEntries(.init(conversationId: .root), .init(limit: 9)).items
    #expect(marks.filter { $0.kind == "mark" }.count == 2)
    try await bench.end()
  }

  @Test func `only a queued write is placed as one`() async throws {
    let bench = try await StoreBench(.memory)
    let input = try await submission(bench, .input)
    let error = await bench.error { tx in
      var start: EntryID?
      try await tx.placeWrite(input, EntryDraft(kind: "t"), after: &start)
    }
    #expect(error?.code == .invalidBatch)
    try await bench.session.close()
  }
}
