package import PerdureModel
import PerdureValue
import Synchronization

/// What a request to a model is made of.
struct RequestContext: Sendable {
  var messages: [JSON]
  /// The names of the tools that the messages offer.
  var offeredTools: Set<JSONString>
}

/// The derived contexts of the conversations that have run lately.
///
/// A context is read from storage once; then every staged commit extends it, so that a turn costs
/// what it adds and not what there was. Entries are immutable, so reading happens off the line.
///
/// A conversation that is idle keeps its context for some time after its last use.
package final class ContextStore: Retaining {
  private enum Slot {
    /// Being read; staged entries are collected meanwhile.
    case loading(added: [EntryRecord], waiting: [CheckedContinuation<Void, Never>])
    case ready(ContextCache, Use)
  }

  private struct Use {
    /// The order of the last uses of all slots.
    var order: UInt64
    var time: Int64
  }

  private struct State {
    var slots: [ConversationID: Slot] = [:]
    var uses: UInt64 = 0

    mutating func use(at now: Int64) -> Use {
      uses += 1
      return Use(order: uses, time: now)
    }
  }

  private static let capacity = 512
  private static let pageSize = 256

  private let store: StagedStore
  private let clock: any HostClock
  private let retention: @Sendable () -> Retention
  private let busy: @Sendable () -> Set<ConversationID>
  private let onLoad: @Sendable () -> Void
  private let state = Mutex(State())

  /// Makes an empty store of contexts; it has to be told of every staged commit.
  ///
  /// `busy` are the conversations with live tasks, whose contexts are kept in any case; the others
  /// are kept for `retentionMs`, or for ever. `onLoad` is called when there is one more.
  package init(
    store: StagedStore,
    clock: any HostClock,
    retentionMs: @escaping @Sendable () -> Int64? = { 600_000 },
    busy: @escaping @Sendable () -> Set<ConversationID> = { [] },
    onLoad: @escaping @Sendable () -> Void = {}
  ) {
    self.store = store
    self.clock = clock
    retention = { Retention(milliseconds: retentionMs()) }
    self.busy = busy
    self.onLoad = onLoad
  }

  /// Follows a staged commit.
  package func observe(_ publication: Publication) {
    extend(publication)
    var ended: Set<ConversationID> = []
    for case .task(let record) in publication.changes where !record.isLive {
      ended.insert(record.conversationId)
    }
    if !ended.isEmpty { restart(ended.subtracting(busy())) }
  }

  /// The time of a conversation that becomes idle begins.
  private func restart(_ idle: Set<ConversationID>) {
    guard !idle.isEmpty else { return }
    let keepsNothing = retention().span == 0
    let now = clock.monotonic()
    state.withLock { state in
      for id in idle {
        guard case .ready(let cache, _) = state.slots[id] else { continue }
        state.slots[id] = keepsNothing ? nil : .ready(cache, state.use(at: now))
      }
    }
  }

  private func extend(_ publication: Publication) {
    for case .entry(let entry) in publication.changes {
      state.withLock { state in
        switch state.slots[entry.conversationId] {
        case .loading(let added, let waiting):
          state.slots[entry.conversationId] = .loading(added: added + [entry], waiting: waiting)
        case .ready(var cache, let use):
          // The value leaves its place while it grows, so that it is not copied.
          state.slots[entry.conversationId] = nil
          if cache.append([entry]) {
            state.slots[entry.conversationId] = .ready(cache, use)
          }
        case nil: break
        }
      }
    }
  }

  /// The newest entry that a loaded conversation sees.
  func tail(of conversation: ConversationID) -> EntryID? {
    state.withLock { state in
      guard case .ready(let cache, _) = state.slots[conversation] else { return nil }
      return cache.tail
    }
  }

  /// Runs `body` on the context as it is now.
  func read<Result: Sendable>(
    _ conversation: ConversationID,
    _ body: (inout ContextCache) -> Result
  ) async throws -> Result {
    while true {
      if let result = use(conversation, body) { return result }
      try await load(conversation)
    }
  }

  /// Returns the context up to `cutoff`, or as it is now.
  package func view(
    of conversation: ConversationID,
    upTo cutoff: EntryID?
  ) async throws -> ContextView {
    let view = try await read(conversation) { cache -> ContextView? in
      guard let cutoff, let tail = cache.tail, cutoff < tail else { return cache.view() }
      return cache.view(at: cutoff)
    }
    if let view { return view }
    return ContextView(of: try await scan(conversation, upTo: cutoff))
  }

  /// Returns what a request is made of: the context up to `cutoff`, without its entries.
  ///
  /// Whoever holds the messages while an entry is added makes that entry cost a copy of them all.
  func request(
    of conversation: ConversationID,
    upTo cutoff: EntryID
  ) async throws -> RequestContext {
    let current = try await read(conversation) { cache -> RequestContext? in
      guard cache.tail == cutoff else { return nil }
      return RequestContext(
        messages: cache.messages(),
        offeredTools: Set(cache.prompt.toolNames)
      )
    }
    if let current { return current }
    let messages = try await view(of: conversation, upTo: cutoff).messages
    let offered = PromptState(replaying: messages).toolNames
    return RequestContext(messages: messages, offeredTools: Set(offered))
  }

  private func use<Result: Sendable>(
    _ conversation: ConversationID,
    _ body: (inout ContextCache) -> Result
  ) -> Result? {
    let now = clock.monotonic()
    return state.withLock { state in
      guard case .ready(var cache, _) = state.slots[conversation] else { return nil }
      // The value leaves its place while it is used, so that it is not copied.
      state.slots[conversation] = nil
      let result = body(&cache)
      state.slots[conversation] = .ready(cache, state.use(at: now))
      return result
    }
  }

  private func load(_ conversation: ConversationID) async throws {
    let isFirst = state.withLock { state in
      guard state.slots[conversation] == nil else { return false }
      state.slots[conversation] = .loading(added: [], waiting: [])
      return true
    }
    guard isFirst else { return await waitForLoad(conversation) }
    do {
      let entries = try await scan(conversation, upTo: nil)
      finishLoad(conversation, entries)
    } catch {
      finishLoad(conversation, nil)
      throw error
    }
  }

  private func waitForLoad(_ conversation: ConversationID) async {
    await withCheckedContinuation { continuation in
      let isLoading = state.withLock { state in
        guard case .loading(let added, let waiting) = state.slots[conversation] else {
          return false
        }
        state.slots[conversation] = .loading(added: added, waiting: waiting + [continuation])
        return true
      }
      if !isLoading { continuation.resume() }
    }
  }

  private func finishLoad(_ conversation: ConversationID, _ entries: [EntryRecord]?) {
    let now = clock.monotonic()
    let waiting = state.withLock { state -> [CheckedContinuation<Void, Never>] in
      guard case .loading(let added, let waiting) = state.slots.removeValue(forKey: conversation)
      else { return [] }
      if var entries {
        let newest = entries.last?.id
        entries += added.filter { entry in newest.map { entry.id > $0 } ?? true }
        let use = state.use(at: now)
        state.slots[conversation] = .ready(ContextCache(entries: entries), use)
        Self.evict(&state)
      }
      return waiting
    }
    for continuation in waiting { continuation.resume() }
    onLoad()
  }

  private static func evict(_ state: inout State) {
    guard state.slots.count > capacity else { return }
    let uses = state.slots.compactMap { id, slot -> (ConversationID, UInt64)? in
      if case .ready(_, let use) = slot { return (id, use.order) }
      return nil
    }
    for (id, _) in uses.sorted(by: { $0.1 < $1.1 }).prefix(capacity / 4) { state.slots[id] = nil }
  }

  // MARK: Retention

  /// How many contexts are kept.
  package var count: Int { state.withLock { $0.slots.count } }

  private func idle(
    _ state: borrowing State,
    _ busy: Set<ConversationID>
  ) -> [(
    id: ConversationID, lastUse: Int64
  )] {
    state.slots.compactMap { id, slot in
      guard case .ready(_, let use) = slot, !busy.contains(id) else { return nil }
      return (id, use.time)
    }
  }

  var nextExpiry: Int64? {
    let retention = retention()
    guard retention.span != nil else { return nil }
    let busy = busy()
    let oldest = state.withLock { idle($0, busy).map(\.lastUse).min() }
    return oldest.flatMap { retention.end(of: $0) }?.addingSaturated(retention.grain)
  }

  func expire(at now: Int64) {
    let retention = retention()
    guard retention.span != nil else { return }
    let busy = busy()
    state.withLock { state in
      for (id, lastUse) in idle(state, busy) {
        if let end = retention.end(of: lastUse), end <= now { state.slots[id] = nil }
      }
    }
  }

  /// Reads the active range, oldest first.
  private func scan(
    _ conversation: ConversationID,
    upTo cutoff: EntryID?
  ) async throws -> [EntryRecord] {
    let marker = try await store.latestHeadMarker(conversation, atOrBefore: cutoff)
    let query = EntryQuery(
      conversationId: conversation,
      minEntry: marker?.head,
      maxEntry: cutoff
    )
    var entries: [EntryRecord] = []
    var cursor: Cursor?
    repeat {
      let page = try await store.scanEntries(
        query,
        PageRequest(limit: Self.pageSize, cursor: cursor, order: .ascending)
      )
      entries += page.items
      cursor = page.next
    } while cursor != nil
    return entries
  }

  /// Returns the outcome of a task, or `nil` if it has none yet.
  func outcome(of task: TaskID) async throws -> TaskOutcome? {
    guard case .terminal(let outcome)? = try await store.task(task)?.state else { return nil }
    return outcome
  }

  /// Returns an entry that the conversation sees, or `nil`.
  package func entry(
    _ id: EntryID,
    in conversation: ConversationID
  ) async throws -> EntryRecord? {
    let cached = use(conversation) { cache in
      // Entries are in ascending order, and the newest are asked for most.
      cache.range.last { $0.id <= id }.flatMap { $0.id == id ? $0 : nil }
    }
    if let entry = cached.flatMap({ $0 }) { return entry }
    return try await store.entry(id, visibleIn: conversation)?.entry
  }
}
