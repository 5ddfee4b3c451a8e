package import PerdureModel
package import PerdureValue

/// What a model is shown of a conversation, and the entries from which it comes.
package struct ContextView: Sendable, Equatable {
  /// The head marker that begins the active transcript.
  package var head: EntryRecord?
  /// The active transcript: the marker, then the other entries of its range that are no markers.
  package var entries: [EntryRecord]
  /// The messages of each entry after edits, in the order in which they were committed.
  package var contributions: [[JSON]]
  /// The messages of a request: each tool result behind its call, the prompt in front.
  package var messages: [JSON]

  /// Makes the view of `entries`, which are visible and in ascending order up to the cutoff.
  ///
  /// Entries below the active range may be left out.
  package init(of entries: [EntryRecord]) {
    var cache = ContextCache(entries: entries)
    self = cache.view()
  }

  init(head: EntryRecord?, entries: [EntryRecord], contributions: [[JSON]], messages: [JSON]) {
    self.head = head
    self.entries = entries
    self.contributions = contributions
    self.messages = messages
  }
}

/// The context of a conversation, kept so that further entries cost no new derivation.
///
/// Only what follows the last assistant message is still open: a result that arrives later can go
/// behind a call there. Everything before is settled and is never touched again.
package struct ContextCache: Sendable {
  /// The head marker that begins the active transcript.
  package private(set) var head: EntryRecord?
  /// The entries of the active range in ascending order, older markers included.
  package private(set) var range: [EntryRecord] = []
  /// What the system messages of the context say together.
  package private(set) var prompt = PromptState()
  /// Whether a `pi.system` entry follows the head marker, or there is no marker.
  package private(set) var hasBaseline = false

  /// The messages of each entry of `entries` after edits.
  package private(set) var contributions: [[JSON]] = []
  /// What each of them adds to the size of the context.
  package private(set) var weights: [ContextWeight] = []
  private var edits: [EntryID: ContextEdit] = [:]
  private var hasMarkers = false
  private var baseline = Baseline.undecided
  private var messageOrder = MessageOrder()

  /// Derives the context of `entries`, which are visible and in ascending order up to the cutoff.
  package init(entries: [EntryRecord]) {
    head = entries.last { $0.head != nil }
    if let start = head?.head {
      range = entries.filter { $0.id >= start }
    } else {
      range = entries
      hasBaseline = true
    }
    // Edits of older markers count although the markers themselves drop out.
    for edit in range.lazy.flatMap({ $0.edits ?? [] }) { edits[edit.target] = edit }
    if let head { contribute(head) }
    for entry in range {
      if entry.head == nil { contribute(entry) } else { hasMarkers = true }
    }
  }

  /// The newest entry.
  package var tail: EntryID? { range.last?.id ?? head?.id }

  /// Takes entries that were appended since, in ascending order.
  ///
  /// Returns `false`, and changes nothing, if the context needs entries that are not held here:
  /// it must then be derived anew.
  package mutating func append(_ added: [EntryRecord]) -> Bool {
    var last = tail
    for entry in added {
      if let last, entry.id <= last { return false }
      last = entry.id
    }
    let needsDerivation = added.contains { entry in
      entry.head != nil || entry.edits?.isEmpty == false || edits[entry.id] != nil
    }
    guard needsDerivation else {
      for entry in added {
        range.append(entry)
        contribute(entry)
      }
      return true
    }
    if let start = head?.head, let newest = added.last(where: { $0.head != nil })?.head,
      newest < start
    {
      return false
    }
    // A marker may point past itself; then it is no part of its own range.
    let marker = head.map { [$0] } ?? []
    let held = range.contains { $0.id == head?.id } ? range : marker + range
    self = ContextCache(entries: held + added)
    return true
  }

  /// The entries of the active transcript.
  package var entries: [EntryRecord] {
    guard let head else { return range }
    return [head] + (hasMarkers ? range.filter { $0.head == nil } : range)
  }

  /// Returns the messages of a request.
  ///
  /// The array is shared with the cache; while a caller holds it, the next entry costs a copy.
  package mutating func messages() -> [JSON] { messageOrder.messages() }

  /// Returns the whole view.
  package mutating func view() -> ContextView {
    ContextView(
      head: head,
      entries: entries,
      contributions: contributions,
      messages: messages()
    )
  }

  /// Returns the view as it was at an earlier entry, or `nil` if that lies before the marker.
  package func view(at cutoff: EntryID) -> ContextView? {
    if let head, cutoff < head.id { return nil }
    return ContextView(of: range.filter { $0.id <= cutoff })
  }

  private mutating func contribute(_ entry: EntryRecord) {
    let isSystem = entry.kind == "pi.system"
    decideBaseline(entry, isSystem: isSystem)
    let edit = edits[entry.id]
    let messages = Self.messages(of: entry, edit)
    contributions.append(messages)
    weights.append(ContextWeight(entry: entry.id, messages))
    for message in messages {
      let role = MessageRole(message)
      if role == .system { prompt.apply(message) }
      messageOrder.append(
        message,
        role: role,
        isBaseline: edit == nil && baseline == .entry(entry.id)
      )
    }
  }

  private static func messages(of entry: EntryRecord, _ edit: ContextEdit?) -> [JSON] {
    let messages: [JSON]
    switch edit {
    case .omit: return []
    case .replace(_, let replacement): messages = replacement
    case nil: messages = entry.model ?? []
    }
    return messages.contains(where: isExcluded) ? messages.filter { !isExcluded($0) } : messages
  }

  /// Whether `message` is an answer that did not come about.
  private static func isExcluded(_ message: JSON) -> Bool {
    guard MessageRole(message) == .assistant else { return false }
    switch message["stopReason"]?.string {
    case "aborted", "error", "deferred": return true
    default: return false
    }
  }

  /// Which `pi.system` entry holds the whole prompt, so that its message may lead the request.
  private enum Baseline: Equatable {
    case undecided
    case none
    case entry(EntryID)
  }

  private mutating func decideBaseline(_ entry: EntryRecord, isSystem: Bool) {
    if let head, entry.id <= head.id { return }
    if isSystem { hasBaseline = true }
    guard baseline == .undecided else { return }
    if isSystem {
      baseline = .entry(entry.id)
    } else if head == nil, Self.carriesSystemMessage(entry) {
      baseline = .none
    }
  }

  private static func carriesSystemMessage(_ entry: EntryRecord) -> Bool {
    func holdsSystem(_ messages: [JSON]) -> Bool {
      messages.contains { MessageRole($0) == .system }
    }
    if holdsSystem(entry.model ?? []) { return true }
    return (entry.edits ?? []).contains { edit in
      if case .replace(_, let messages) = edit { return holdsSystem(messages) }
      return false
    }
  }
}
