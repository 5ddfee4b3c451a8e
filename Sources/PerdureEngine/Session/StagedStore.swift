package import PerdureModel
import PerdureValue
import Synchronization

/// The layer of commits that are decided but not yet on disk, above any storage.
///
/// A commit is staged: checked, numbered and visible to the next reader here. Later it is flushed
/// together with others, as one group. Staging is serialised by the caller (the Session line);
/// flushes and reads may come from anywhere. The first storage error is final.
package final class StagedStore: Sendable {
  struct Staged<Record: Sendable>: Sendable {
    var record: Record
    var sequence: Int64
  }

  /// What is staged or being flushed, by record; storage knows the rest.
  struct Overlay: Sendable {
    var conversations: [ConversationID: Staged<ConversationRecord>] = [:]
    var entries: [EntryID: Staged<EntryRecord>] = [:]
    var tasks: [TaskID: Staged<TaskRecord>] = [:]
    var submissions: [SubmissionID: Staged<SubmissionRecord>] = [:]
    var documents: [DocumentID: Staged<DocumentRecord>] = [:]
    /// The last staged commit that takes records away; reads wait until it is on disk.
    var removal: Int64?
  }

  struct State {
    var counters: StoreCounters
    var durable: StoreCounters
    /// The last commit that is on disk and of which the flush observer has been told.
    var settled: Int64
    var pending: [Batch] = []
    var pendingBytes = 0
    var overlay = Overlay()
    /// Conversations that have been read or written here; their records never change.
    var conversations: [ConversationID: ConversationRecord] = [:]
    /// Submissions that were written here and go on; the end of their run asks for them.
    var unsettled: [SubmissionID: SubmissionRecord] = [:]
    /// How many commits have taken records away, for reads that one of them overtook.
    var removals = 0
    var isFlushing = false
    /// How many others the last flush served beside the one who led it.
    var lastServed = 0
    var waiters: [(sequence: Int64, continuation: CheckedContinuation<Void, any Error>)] = []
    var failure: PerdureError?
    var isClosed = false
    /// How many calls of the storage have not returned.
    var underway = 0
    var idleWaiters: [CheckedContinuation<Void, Never>] = []
  }

  /// Called after each flush with the last sequence number that is on disk.
  package typealias FlushObserver = @Sendable (Int64) -> Void
  /// Called once with the error that ended the store.
  package typealias FailureObserver = @Sendable (PerdureError) -> Void

  package let storage: any Storage
  let state: Mutex<State>
  private let clock: any HostClock
  private let onFlush: FlushObserver
  private let onFailure: FailureObserver

  private init(
    storage: any Storage,
    counters: StoreCounters,
    clock: any HostClock,
    onFlush: @escaping FlushObserver,
    onFailure: @escaping FailureObserver
  ) {
    self.storage = storage
    self.clock = clock
    self.onFlush = onFlush
    self.onFailure = onFailure
    state = Mutex(
      State(counters: counters, durable: counters, settled: counters.nextSequence - 1)
    )
  }

  /// Makes a staging layer over an open storage.
  package static func open(
    _ storage: any Storage,
    clock: any HostClock,
    onFlush: @escaping FlushObserver = { _ in },
    onFailure: @escaping FailureObserver = { _ in }
  ) async throws -> StagedStore {
    StagedStore(
      storage: storage,
      counters: try await storage.counters(),
      clock: clock,
      onFlush: onFlush,
      onFailure: onFailure
    )
  }

  /// Returns an id that no record has had; throws when there are none left.
  package func mintId() throws -> Int64 {
    try state.withLock { state in
      try Self.check(state)
      guard state.counters.nextId <= ConversationID.greatest else {
        throw PerdureError(.invalidBatch, "ID space is exhausted")
      }
      defer { state.counters.nextId += 1 }
      return state.counters.nextId
    }
  }

  /// The last sequence number that was staged.
  package var lastStaged: Int64 { state.withLock { $0.counters.nextSequence - 1 } }

  /// How many bytes are staged and not yet being flushed, roughly.
  package var stagedBytes: Int { state.withLock { $0.pendingBytes } }

  /// Checks a commit, gives it a sequence number and shows it to readers of this layer.
  ///
  /// `facts` are what the caller knows of the records it replaces; without them they are looked
  /// up. Throws `invalidBatch` and changes nothing if the commit breaks a rule of the store.
  package func stage(
    _ writes: [StorageWrite],
    extras: [ExtraWrite] = [],
    facts: BatchFacts? = nil
  ) async throws -> (sequence: Int64, effects: BatchEffects) {
    let sequence = try state.withLock { state in
      try Self.check(state)
      return state.counters.nextSequence
    }
    let batch = Batch(sequence: sequence, writes: writes, extras: extras, at: clock.now())
    let known: BatchFacts
    if let facts { known = facts } else { known = try await self.facts(BatchNeeds(batch)) }
    let effects = try BatchEffects(batch, known)
    try state.withLock { state in
      try Self.check(state)
      state.counters.nextSequence = sequence + 1
      state.counters.nextId = max(state.counters.nextId, effects.nextId)
      state.pending.append(batch)
      state.pendingBytes += Self.roughSize(of: batch)
      state.overlay.add(effects, sequence)
      state.remember(effects)
      if !effects.removals.isEmpty {
        state.removals += 1
        for removal in effects.removals {
          if let id = ConversationID(removal.reference.id) { state.conversations[id] = nil }
          if let id = SubmissionID(removal.reference.id) { state.unsettled[id] = nil }
        }
      }
    }
    return (sequence, effects)
  }

  /// Returns when everything staged so far is on disk.
  package func flush() async throws {
    try await flush(through: lastStaged)
  }

  /// Returns when the commit `sequence` is on disk and the flush observer has been told.
  package func flush(through sequence: Int64) async throws {
    let mustLead = try state.withLock { state -> Bool? in
      if state.settled >= sequence { return nil }
      try Self.check(state)
      if state.isFlushing { return false }
      state.isFlushing = true
      return true
    }
    switch mustLead {
    case nil: return
    case true?:
      if state.withLock({ $0.lastServed > 0 }) { await gather() }
      try await leadFlush()
    case false?:
      try await withCheckedThrowingContinuation { continuation in
        let verdict = state.withLock { state -> Result<Void, any Error>? in
          if state.settled >= sequence { return .success(()) }
          if let failure = state.failure { return .failure(Self.failed(failure)) }
          // The flush ended meanwhile: this caller leads the next one.
          if !state.isFlushing { return .success(()) }
          state.waiters.append((sequence, continuation))
          return nil
        }
        if let verdict { continuation.resume(with: verdict) }
      }
      try await flush(through: sequence)
    }
  }

  // With this many waiting a flush costs each of them little; more would only wait longer.
  private static let enoughWaiters = 16
  private static let longestGathering = 16

  /// Lets those who will ask for the disk in a moment come first, so that one flush serves them all.
  ///
  /// It is over as soon as a round of everything that can run brought nothing new. Who works alone
  /// never comes here: the flush before must have served several.
  private func gather() async {
    var before = state.withLock { (sequence: $0.counters.nextSequence, waiters: $0.waiters.count) }
    for _ in 0..<Self.longestGathering {
      await giveWay()
      let now = state.withLock { (sequence: $0.counters.nextSequence, waiters: $0.waiters.count) }
      if now == before || now.waiters >= Self.enoughWaiters { return }
      before = now
    }
  }

  /// Writes what is staged, as the only one who does.
  private func leadFlush() async throws {
    let (group, expected, target) = try state.withLock { state in
      // It may have failed while others were waited for, and then nobody waits any more.
      if let failure = state.failure { throw Self.failed(failure) }
      defer {
        state.pending = []
        state.pendingBytes = 0
      }
      return (state.pending, state.durable, state.counters)
    }
    do {
      if !group.isEmpty {
        // A task of its own: whoever leads the flush may be cancelled, the flush may not. It begins
        // on this thread, because waking another one costs more than handing the group over.
        let write = Task.immediateDetached { [self] in
          try await counted {
            try await storage.apply(group, expecting: expected, nextId: target.nextId)
          }
        }
        try await write.value
      }
    } catch {
      throw fail(error)
    }
    finishFlush(of: group, to: target)
  }

  private func finishFlush(of group: [Batch], to target: StoreCounters) {
    state.withLock { state in
      state.durable = target
      for batch in group { state.overlay.remove(batch) }
    }
    onFlush(target.nextSequence - 1)
    let (satisfied, goesOn) = state.withLock { state in
      state.settled = target.nextSequence - 1
      let satisfied = state.waiters.filter { $0.sequence < target.nextSequence }
      state.waiters.removeAll { $0.sequence < target.nextSequence }
      state.lastServed = satisfied.count
      state.isFlushing = !state.waiters.isEmpty
      return (satisfied, state.isFlushing)
    }
    for waiter in satisfied { waiter.continuation.resume() }
    // Whoever came while this flush ran is served by a task of its own, so that its leader's
    // caller does not wait for others.
    guard goesOn else { return }
    Task.detached { [self] in
      await gather()
      try? await leadFlush()
    }
  }

  /// Writes what is staged and gives the space of what was removed back, if the storage can.
  ///
  /// Commits may be staged meanwhile. A storage that refuses is as it was.
  package func compact() async throws {
    try await flush()
    try await (storage as? any CompactingStorage)?.compact()
  }

  /// Records the first storage error and tells everybody who waits; returns what callers see.
  @discardableResult
  package func fail(_ error: any Error) -> PerdureError {
    let cause =
      (error as? PerdureError)
      ?? PerdureError(.storageFailed, "the store failed", cause: "\(error)")
    let (first, waiters, isFirst) = state.withLock { state in
      let isFirst = state.failure == nil
      if isFirst { state.failure = cause }
      defer { state.waiters = [] }
      state.isFlushing = false
      return (state.failure ?? cause, state.waiters, isFirst)
    }
    for waiter in waiters { waiter.continuation.resume(throwing: Self.failed(first)) }
    if isFirst { onFailure(first) }
    return Self.failed(first)
  }

  /// Flushes what is staged, refuses everything later and closes the storage; called once.
  package func close() async throws {
    let failure: (any Error)?
    do {
      try await flush()
      failure = nil
    } catch {
      failure = error
    }
    state.withLock { $0.isClosed = true }
    await waitUntilIdle()
    await storage.close()
    if let failure { throw failure }
  }

  /// Runs a call of the storage, which is not closed meanwhile.
  func counted<Result>(_ call: () async throws -> Result) async throws -> Result {
    state.withLock { $0.underway += 1 }
    defer {
      let waiters = state.withLock { state -> [CheckedContinuation<Void, Never>] in
        state.underway -= 1
        guard state.underway == 0 else { return [] }
        defer { state.idleWaiters = [] }
        return state.idleWaiters
      }
      for waiter in waiters { waiter.resume() }
    }
    return try await call()
  }

  private func waitUntilIdle() async {
    await withCheckedContinuation { continuation in
      let isIdle = state.withLock { state in
        if state.underway > 0 { state.idleWaiters.append(continuation) }
        return state.underway == 0
      }
      if isIdle { continuation.resume() }
    }
  }

  static func failed(_ cause: PerdureError) -> PerdureError {
    PerdureError(
      .sessionFailed,
      "the session failed: \(cause.message)",
      hint: cause.hint ?? "close it and open the store again",
      details: ["code": .string(cause.code.rawValue)],
      cause: cause.cause
    )
  }

  static func check(_ state: borrowing State) throws {
    if let failure = state.failure { throw failed(failure) }
    if state.isClosed { throw PerdureError(.closed, "the store is closed") }
  }

  private static func roughSize(of batch: Batch) -> Int {
    // An estimate is enough: it only decides when a large backlog is written early.
    var size = 64 * batch.extras.count
    for write in batch.writes {
      switch write {
      case .entry(let entry): size += 256 + (entry.model ?? []).reduce(0) { $0 + $1.roughSize }
      case .changeDocument(_, .base(_, let value)): size += 64 + value.roughSize
      case .changeDocument(_, .delta(_, let operations)):
        size += 64 + operations.reduce(0) { $0 + $1.json.roughSize }
      case .createDocument(_, _, let value): size += 64 + value.roughSize
      case .remove: size += 16
      default: size += 256
      }
    }
    return size
  }
}

extension JSON {
  /// About how many bytes the text has; costs one visit of each value and no printing.
  package var roughSize: Int {
    switch self {
    case .null, .bool, .int, .double: 8
    case .bigInteger(let digits): digits.utf8.count
    case .string(let string): string.utf8Count + 2
    case .array(let elements): elements.reduce(2) { $0 + $1.roughSize + 1 }
    case .object(let members):
      members.values.reduce(members.keys.reduce(2) { $0 + $1.utf8Count + 4 }) { $0 + $1.roughSize }
    }
  }
}

extension StagedStore.State {
  private static let knownRecords = 4_096

  /// Keeps what will be asked for again on the line, where a read that goes to storage would make
  /// everybody wait for the flush under way.
  mutating func remember(_ effects: BatchEffects) {
    for record in effects.conversations { remember(record) }
    for record in effects.submissions {
      if unsettled.count >= Self.knownRecords { unsettled = [:] }
      unsettled[record.id] = record.isSettled ? nil : record
    }
  }

  mutating func remember(_ record: ConversationRecord) {
    if conversations.count >= Self.knownRecords { conversations = [:] }
    conversations[record.id] = record
  }
}

extension StagedStore.Overlay {
  mutating func add(_ effects: BatchEffects, _ sequence: Int64) {
    for record in effects.conversations {
      conversations[record.id] = .init(record: record, sequence: sequence)
    }
    for record in effects.entries { entries[record.id] = .init(record: record, sequence: sequence) }
    for record in effects.tasks { tasks[record.id] = .init(record: record, sequence: sequence) }
    for record in effects.submissions {
      submissions[record.id] = .init(record: record, sequence: sequence)
    }
    for effect in effects.documents {
      documents[effect.record.id] = .init(record: effect.record, sequence: sequence)
    }
    if !effects.removals.isEmpty { removal = sequence }
  }

  /// Forgets what a flushed batch wrote, unless a later batch wrote it again.
  mutating func remove(_ batch: Batch) {
    func drop<ID: Hashable, Record: Sendable>(
      _ id: ID,
      from records: inout [ID: StagedStore.Staged<Record>]
    ) {
      if let staged = records[id], staged.sequence <= batch.sequence { records[id] = nil }
    }
    for write in batch.writes {
      switch write {
      case .conversation(let record): drop(record.id, from: &conversations)
      case .entry(let record): drop(record.id, from: &entries)
      case .task(let record): drop(record.id, from: &tasks)
      case .submission(let record): drop(record.id, from: &submissions)
      case .createDocument(let record, _, _), .copyDocument(let record, _, _):
        drop(record.id, from: &documents)
      case .changeDocument(let id, _), .retireDocument(let id): drop(id, from: &documents)
      case .remove: break
      }
    }
    if let last = removal, last <= batch.sequence { removal = nil }
  }
}
