import PerdureModel
import PerdureStorage
import Synchronization

extension SQLConnectionConformance {
  static let sharingCases: [Case] = [
    Case("whoever calls during a transaction waits for its end") { connection in
      try table(connection)
      let seen = Mutex<Result<[[SQLValue]], any Error>?>(nil)
      let hasBegun = Atomic(false)
      let other = try Party()
      let party = try Party()
      try await party.run {
        try connection.transaction { handle in
          try insert(1, handle)
          other.start {
            hasBegun.store(true, ordering: .sequentiallyConsistent)
            let result = Result { try ids(connection) }
            seen.withLock { $0 = result }
          }
          while !hasBegun.load(ordering: .sequentiallyConsistent) {}
          for id in Int64(2)...200 { try insert(id, handle) }
          guard seen.withLock({ $0 == nil }) else {
            throw ConformanceFailure("a read ran in the middle of a transaction")
          }
        }
      }
      try await other.run {}
      try expect(try seen.withLock { try $0?.get().count }, 200, "rows")
    },
    Case("transactions of several threads come one after another") { connection in
      try connection.execute("CREATE TABLE n (value INTEGER); INSERT INTO n VALUES (0)")
      let parties = try (0..<4).map { _ in try Party() }
      try await withThrowingTaskGroup { group in
        for party in parties {
          group.addTask {
            try await party.run {
              for _ in 0..<25 { try increment(connection) }
            }
          }
        }
        try await group.waitForAll()
      }
      try expect(try connection.first("SELECT value FROM n", []), [.int(100)], "the count")
    },
    Case("the calls of one thread run in their order") { connection in
      try table(connection)
      let party = try Party()
      try await party.run {
        for id in Int64(1)...50 {
          try insert(id, connection)
          try expect(try connection.first("SELECT max(id) FROM t", []), [.int(id)], "the newest")
        }
      }
    },
  ]

  private static func increment(_ connection: any SQLConnection) throws {
    try connection.transaction { handle in
      guard case .int(let value) = try handle.first("SELECT value FROM n", [])?.first else {
        throw ConformanceFailure("no value")
      }
      try handle.run("UPDATE n SET value = ?", [.int(value + 1)])
    }
  }

  /// A thread of its own, because calls of a connection wait.
  private final class Party: Sendable {
    private let thread: JobThread

    init() throws { thread = try JobThread.start() }

    deinit { _ = thread.enqueue(last: true) {} }

    func start(_ body: @escaping @Sendable () -> Void) { _ = thread.enqueue(body) }

    func run(_ body: @escaping @Sendable () throws -> Void) async throws {
      try await withCheckedThrowingContinuation { waiter in
        start { waiter.resume(with: Result(catching: body)) }
      }
    }
  }
}
