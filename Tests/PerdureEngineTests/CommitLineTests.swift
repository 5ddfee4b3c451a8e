import PerdureEngine
import PerdureModel
import Testing

@Suite(.timeLimit(.minutes(5))) struct CommitLineTests {
  @Test func `the line is given in the order in which it was asked for`() async throws {
    let line = CommitLine()
    let order = Log<Int>()
    let isHeld = Event()
    let mayEnd = Event()
    async let first: Void = line.hold {
      isHeld.happen()
      await mayEnd.wait()
    }
    await isHeld.wait()
    var waiting: [Task<Void, any Error>] = []
    for number in 0..<100 {
      let queued = line.waitingCount
      waiting.append(
        Task { try await line.hold { order.add(number) } }
      )
      while line.waitingCount == queued { await Task.yield() }
    }
    mayEnd.happen()
    try await first
    for task in waiting { try await task.value }
    #expect(order.all == Array(0..<100))
  }

  @Test func `only one holds the line at a time`() async throws {
    let line = CommitLine()
    let holders = Log<Int>()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<64 {
        group.addTask {
          try await line.hold {
            holders.add(1)
            await Task.yield()
            holders.add(-1)
          }
        }
      }
      try await group.waitForAll()
    }
    // Everyone who came has left before the next one came.
    #expect(holders.all == (0..<128).map { $0.isMultiple(of: 2) ? 1 : -1 })
  }

  @Test func `a nested use throws`() async throws {
    let line = CommitLine()
    let error = await #expect(throws: PerdureError.self) {
      try await line.hold { try await line.hold {} }
    }
    #expect(error?.code == .nestedCommit)
  }

  @Test func `a child task of the holder may not ask for the line`() async throws {
    let line = CommitLine()
    let error = await #expect(throws: PerdureError.self) {
      try await line.hold {
        async let nested: Void = line.hold {}
        try await nested
      }
    }
    #expect(error?.code == .nestedCommit)
  }

  @Test func `a task that the holder started may use the line afterwards`() async throws {
    let line = CommitLine()
    let isOver = Event()
    let later = try await line.hold {
      Task {
        await isOver.wait()
        try await line.hold {}
      }
    }
    isOver.happen()
    try await later.value
  }

  @Test func `a nested use is found through another line`() async throws {
    let (line, other) = (CommitLine(), CommitLine())
    let error = await #expect(throws: PerdureError.self) {
      try await line.hold { try await other.hold { try await line.hold {} } }
    }
    #expect(error?.code == .nestedCommit)
  }

  @Test func `an error releases the line`() async throws {
    let line = CommitLine()
    await #expect(throws: PerdureError.self) {
      try await line.hold { throw PerdureError(.invalidInput, "no") }
    }
    #expect(try await line.hold { 1 } == 1)
  }
}
