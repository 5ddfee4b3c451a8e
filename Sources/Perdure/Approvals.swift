import PerdureEngine
public import PerdureModel

extension Harness {
  /// Returns the questions about calls that wait for a person, as they are on disk, by id.
  public func pendingApprovals() async throws -> [Approval] {
    if let failure = engine.scheduler.refusal, failure.code == .sessionFailed { throw failure }
    // Nobody may have asked for the disk since a call began to wait.
    try await engine.session.barrier()
    return try await reader.pendingApprovals()
  }

  /// Returns a question, whatever became of it, or `nil` if there is none of this id.
  public func approval(_ id: TaskID) async throws -> Approval? {
    try await task(id).flatMap { Approval($0) }
  }

  /// The questions that wait, now and after each change.
  ///
  /// Whoever reads slowly gets the newest list and not each one. The sequence ends when the store is
  /// being closed, and throws `sessionFailed` when it failed.
  public var approvals: ApprovalList { ApprovalList(self) }

  /// Lets the call be made for which a question waits; returns once that is on disk.
  ///
  /// The call goes on if tasks run here, and else after the next `resume`. Hooks and arguments are
  /// judged again first. `choice` is one of the question's own. Throws `notFound` if there is no such
  /// question, and `invalidRequest` if it does not wait any more.
  @discardableResult
  public func approve(
    _ id: TaskID,
    choice: String? = nil,
    note: String? = nil,
    by: String? = nil
  ) async throws -> Approval {
    try await engine.decide(id, .yes(choice, note, by))
  }

  /// Denies the call for which a question waits; returns once that is on disk.
  ///
  /// The model gets an error result `blocked` with the reason, and the other questions about the call
  /// are withdrawn. Throws as `approve` does.
  @discardableResult
  public func deny(
    _ id: TaskID,
    choice: String? = nil,
    reason: String? = nil,
    by: String? = nil
  ) async throws -> Approval {
    try await engine.decide(id, .no(choice, reason, by))
  }
}

extension OpenStore {
  /// Approves as `Harness.approve` does, in a store that nobody runs; nothing runs by that.
  @discardableResult
  public func approve(
    _ id: TaskID,
    choice: String? = nil,
    note: String? = nil,
    by: String? = nil
  ) async throws -> Approval {
    try await decide(id, .yes(choice, note, by))
  }

  /// Denies as `Harness.deny` does, in a store that nobody runs; nothing runs by that.
  @discardableResult
  public func deny(
    _ id: TaskID,
    choice: String? = nil,
    reason: String? = nil,
    by: String? = nil
  ) async throws -> Approval {
    try await decide(id, .no(choice, reason, by))
  }

  private func decide(_ id: TaskID, _ decision: ApprovalDecision) async throws -> Approval {
    try await Session.open(storage, clock: SystemClock()).decide(id, decision)
  }
}

extension ApprovalDecision {
  fileprivate static func yes(_ choice: String?, _ note: String?, _ by: String?) -> Self {
    Self(isAllowed: true, choice: choice, by: by, note: note)
  }

  fileprivate static func no(_ choice: String?, _ reason: String?, _ by: String?) -> Self {
    Self(isAllowed: false, choice: choice, by: by, note: reason)
  }
}

extension StoreReader {
  /// Returns the questions about calls that wait for a person, by id.
  public func pendingApprovals() async throws -> [Approval] {
    var approvals: [Approval] = []
    for status in TaskState.Status.allCases where status != .terminal {
      approvals += try await Page.all {
        try await storage.scanTasks(TaskQuery(kind: Approval.kind, status: status), $0)
      }.compactMap { Approval($0) }
    }
    return approvals.filter { $0.status == .pending }.sorted { $0.id < $1.id }
  }
}

/// The questions that wait, as a sequence of lists.
public struct ApprovalList: AsyncSequence, Sendable {
  public typealias Element = [Approval]

  private let harness: Harness

  init(_ harness: Harness) { self.harness = harness }

  /// Takes the lists one by one.
  public struct Iterator: AsyncIteratorProtocol {
    private let harness: Harness
    // One signal is enough, however many commits it stands for.
    private var changes: AsyncStream<Void>.Iterator
    private var last: [Approval]?

    init(_ harness: Harness) {
      self.harness = harness
      let (stream, signal) = AsyncStream.makeStream(
        of: Void.self,
        bufferingPolicy: .bufferingNewest(1)
      )
      changes = stream.makeAsyncIterator()
      let session = harness.engine.session
      let unsubscribe = session.subscribe { publication in
        let concerns = publication.changes.contains { change in
          if case .task(let record) = change { return record.kind == Approval.kind }
          return false
        }
        if concerns { signal.yield() }
      }
      let forget = session.onEnd { _ in signal.finish() }
      signal.onTermination = { _ in
        unsubscribe()
        forget()
      }
    }

    /// Returns the next list that differs from the one before, or `nil` after the last.
    public mutating func next() async throws -> [Approval]? {
      while true {
        if last != nil, await changes.next(isolation: #isolation) == nil { return try end() }
        let now: [Approval]
        do {
          now = try await harness.pendingApprovals()
        } catch let error as PerdureError where error.code == .closed {
          return nil
        }
        if now == last { continue }
        last = now
        return now
      }
    }

    private func end() throws -> [Approval]? {
      if let failure = harness.refusal, failure.code == .sessionFailed { throw failure }
      return nil
    }
  }

  /// Begins to read.
  public func makeAsyncIterator() -> Iterator { Iterator(harness) }
}
