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

    /// How many entries the derived contexts hold together.
    var held = 0
    /// The conversations in which something runs or waits, with their live tasks.
    var live: [ConversationID: Set<TaskID>] = [:]

    mutating func use(at now: Int64) -> Use {
      uses += 1
      return Use(order: uses, time: now)
    }

    /// Takes a derived context out of its place, so that it is not copied while it is changed.
    mutating func take(_ conversation: ConversationID) -> (cache: ContextCache, use: Use)? {
      guard case .ready(let cache, let use) = slots[conversation] else { return nil }
      slots[conversation] = nil
      held -= cache.range.count
      return (cache, use)
    }

    mutating func put(_ cache: ContextCache, _ use: Use, of conversation: ConversationID) {
      held += cache.range.count
      slots[conversation] = .ready(cache, use)
    }
  }

  private static let capacity = 512
  private static let pageSize = 256

  private let store: StagedStore
  private let clock: any HostClock
  private let retention: @Sendable () -> Retention
  private let idleEntries: Int
  private let onLoad: @Sendable () -> Void
  private let state = Mutex(State())

  /// Makes an empty store of contexts; it has to be told of every staged commit.
  ///
  /// The context of a conversation with live tasks is kept; the others are kept for `retentionMs`, or
  /// for ever, and only as long as they hold no more than `idleEntries` entries together. The one
  /// that was used last is kept whatever its length. `onLoad` is called when there is one more.
  package init(
    store: StagedStore,
    clock: any HostClock,
    retentionMs: @escaping @Sendable () -> Int64? = { 600_000 },
    idleEntries: Int = 16_384,
    onLoad: @escaping @Sendable () -> Void = {}
  ) {
    self.store = store
    self.clock = clock
    retention = { Retention(milliseconds: retentionMs()) }
    self.idleEntries = idleEntries
    self.onLoad = onLoad
  }

  /// Takes over the tasks that are live when a store is opened.
  func adopt(_ tasks: some Sequence<TaskRecord>) {
    let now = clock.monotonic()
    state.withLock { state in
      for record in tasks { follow(record, &state, keeping: true, at: now) }
    }
  }

  /// Follows a staged commit.
  package func observe(_ publication: Publication) {
    // Asked for outside, because the settings and the clock are the host's code.
    let isKeeping = publication.endedTasks.isEmpty || retention().span != 0
    let now = clock.monotonic()
    state.withLock { state in
      for change in publication.changes {
        switch change {
        case .entry(let entry): Self.extend(entry, &state)
        case .task(let record): follow(record, &state, keeping: isKeeping, at: now)
        case .deletion(let id): _ = state.take(id)
        default: break
        }
      }
    }
  }

  private static func extend(_ entry: EntryRecord, _ state: inout State) {
    let conversation = entry.conversationId
    if case .loading(let added, let waiting) = state.slots[conversation] {
      state.slots[conversation] = .loading(added: added + [entry], waiting: waiting)
    } else if case (var cache, let use)? = state.take(conversation), cache.append([entry]) {
      state.put(cache, use, of: conversation)
    }
  }

  private func follow(
    _ record: TaskRecord,
    _ state: inout State,
    keeping isKeeping: Bool,
    at now: Int64
  ) {
    let conversation = record.conversationId
    guard !record.isLive else {
      if !record.background { state.live[conversation, default: []].insert(record.id) }
      return
    }
    guard state.live[conversation]?.remove(record.id) != nil,
      state.live[conversation]?.isEmpty == true
    else { return }
    state.live[conversation] = nil
    // Its time begins now that it is idle.
    if let (cache, _) = state.take(conversation), isKeeping {
      state.put(cache, state.use(at: now), of: conversation)
    }
    evict(&state)
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
      guard var (cache, _) = state.take(conversation) else { return nil }
      let result = body(&cache)
      state.put(cache, state.use(at: now), of: conversation)
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
        state.put(ContextCache(entries: entries), state.use(at: now), of: conversation)
        evict(&state)
      }
      return waiting
    }
    for continuation in waiting { continuation.resume() }
    onLoad()
  }

  /// Forgets what was used longest ago, and leaves what runs alone as long as there are places.
  private func evict(_ state: inout State) {
    let isFull = state.slots.count > Self.capacity
    guard isFull || state.held > idleEntries else { return }
    let uses = state.slots.compactMap { id, slot -> (ConversationID, UInt64)? in
      guard case .ready(_, let use) = slot else { return nil }
      return isFull || state.live[id] == nil ? (id, use.order) : nil
    }
    let surplus = isFull ? Self.capacity / 4 : 0
    // The last one may well be asked for again.
    for (index, use) in uses.sorted(by: { $0.1 < $1.1 }).dropLast().enumerated()
    where index < surplus || state.held > idleEntries && state.live[use.0] == nil {
      _ = state.take(use.0)
    }
  }

  // MARK: Retention

  /// How many contexts are kept.
  package var count: Int { state.withLock { $0.slots.count } }

  /// When what is idle was used last.
  private static func idle(_ state: State) -> [(id: ConversationID, lastUse: Int64)] {
    state.slots.compactMap { id, slot in
      guard case .ready(_, let use) = slot, state.live[id] == nil else { return nil }
      return (id, use.time)
    }
  }

  var nextExpiry: Int64? {
    let retention = retention()
    guard retention.span != nil else { return nil }
    let oldest = state.withLock { Self.idle($0).map(\.lastUse).min() }
    return oldest.flatMap { retention.end(of: $0) }?.addingSaturated(retention.grain)
  }

  func expire(at now: Int64) {
    let retention = retention()
    guard retention.span != nil else { return }
    state.withLock { state in
      for (id, lastUse) in Self.idle(state) {
        if let end = retention.end(of: lastUse), end <= now { _ = state.take(id) }
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
