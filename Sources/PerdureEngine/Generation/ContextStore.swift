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
package final class ContextStore: Sendable {
  private enum Slot {
    /// Being read; staged entries are collected meanwhile.
    case loading(added: [EntryRecord], waiting: [CheckedContinuation<Void, Never>])
    case ready(ContextCache, lastUse: UInt64)
  }

  private struct State {
    var slots: [ConversationID: Slot] = [:]
    var uses: UInt64 = 0
  }

  private static let capacity = 512
  private static let pageSize = 256

  private let store: StagedStore
  private let state = Mutex(State())

  /// Makes an empty store of contexts; it has to be told of every staged commit.
  package init(store: StagedStore) { self.store = store }

  /// Follows a staged commit.
  package func observe(_ publication: Publication) {
    for case .deletion(let id) in publication.changes { forget(id) }
    for case .entry(let entry) in publication.changes {
      state.withLock { state in
        switch state.slots[entry.conversationId] {
        case .loading(let added, let waiting):
          state.slots[entry.conversationId] = .loading(added: added + [entry], waiting: waiting)
        case .ready(var cache, let lastUse):
          // The value leaves its place while it grows, so that it is not copied.
          state.slots[entry.conversationId] = nil
          if cache.append([entry]) {
            state.slots[entry.conversationId] = .ready(cache, lastUse: lastUse)
          }
        case nil: break
        }
      }
    }
  }

  private func forget(_ id: ConversationID) {
    state.withLock { if case .ready = $0.slots[id] { $0.slots[id] = nil } }
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
    state.withLock { state in
      guard case .ready(var cache, _) = state.slots[conversation] else { return nil }
      // The value leaves its place while it is used, so that it is not copied.
      state.slots[conversation] = nil
      state.uses += 1
      let result = body(&cache)
      state.slots[conversation] = .ready(cache, lastUse: state.uses)
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
    let waiting = state.withLock { state -> [CheckedContinuation<Void, Never>] in
      guard case .loading(let added, let waiting) = state.slots.removeValue(forKey: conversation)
      else { return [] }
      if var entries {
        let newest = entries.last?.id
        entries += added.filter { entry in newest.map { entry.id > $0 } ?? true }
        state.uses += 1
        state.slots[conversation] = .ready(ContextCache(entries: entries), lastUse: state.uses)
        Self.evict(&state)
      }
      return waiting
    }
    for continuation in waiting { continuation.resume() }
  }

  private static func evict(_ state: inout State) {
    guard state.slots.count > capacity else { return }
    let uses = state.slots.compactMap { id, slot -> (ConversationID, UInt64)? in
      if case .ready(_, let lastUse) = slot { return (id, lastUse) }
      return nil
    }
    for (id, _) in uses.sorted(by: { $0.1 < $1.1 }).prefix(capacity / 4) { state.slots[id] = nil }
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
