package import PerdureModel
import PerdureValue

/// A point of a run at which queued submissions are placed.
///
/// It is prepared before the commit's first table write, because it reads one.
package struct Boundary {
  /// Where in a run it lies.
  package enum Point: Sendable {
    /// Between a round of tools and the next request.
    case postTools
    /// At the end of a run, or in an idle conversation.
    case final
  }

  /// What a boundary placed.
  package struct Placed: Sendable {
    /// The inputs that have an entry now, in order.
    package var users: [SubmissionID] = []
    /// Whether a reset was among the writes.
    package var hasReset = false
  }

  let conversation: ConversationID
  let modes: QueueModes
  /// The queued submissions in order.
  var items: [InboxItem]
  /// Where the active context begins; known if a head could be stale.
  var start: EntryID?

  /// Whether a write would bring back what the active context left behind.
  func isStale(_ draft: EntryDraft) -> Bool { Transaction.isStale(draft.head, after: start) }

  /// Places what this point selects: first the writes, then the inputs, each in order.
  package mutating func apply(_ point: Point, _ tx: Transaction) async throws -> Placed {
    let selected = select(point)
    guard !selected.isEmpty else { return Placed() }
    var placed = Placed(hasReset: items.contains { $0.isReset })
    for index in selected {
      if let draft = items[index].write {
        try await tx.placeWrite(items[index].id, draft, after: &start)
      }
    }
    for index in selected {
      guard let entry = try await append(items[index], tx) else { continue }
      try await tx.place(items[index].id, entry: entry)
      placed.users.append(items[index].id)
    }
    try await tx.edit(.inbox, conversation) { inbox in
      for index in selected.reversed() {
        try inbox.splice(["items"], at: index, remove: 1, insert: [])
      }
    }
    for index in selected.reversed() { items.remove(at: index) }
    return placed
  }

  /// The places of the selected items, ascending.
  private func select(_ point: Point) -> [Int] {
    // A reset cuts the context of the run, so the run ends here in any case.
    let isFinal = point == .final || items.contains { $0.isReset }
    func pick(_ mode: QueueMode, _ fits: (InboxItem) -> Bool) -> [Int] {
      let places = items.indices.filter { fits(items[$0]) }
      return mode == .all ? places : Array(places.prefix(1))
    }
    var selected = items.indices.filter { items[$0].write != nil }
    selected += pick(modes.steering) { $0.isSteer }
    if isFinal { selected += pick(modes.followUp) { $0.isFollowUp } }
    return selected.sorted()
  }

  private func append(_ item: InboxItem, _ tx: Transaction) async throws -> EntryID? {
    switch item.content {
    case .write: nil
    case .steer(let content, let entry), .followUp(let content, let entry):
      try await tx.appendInput(content, entry, to: conversation).id
    }
  }
}

extension Transaction {
  /// Reads what a boundary of this commit needs; before the first table write.
  ///
  /// `next` is a write that may have to be judged beside those that are queued.
  package func prepareBoundary(
    _ conversation: ConversationID,
    _ modes: QueueModes,
    beside next: EntryDraft? = nil
  ) async throws -> Boundary {
    let items = try await inboxItems(conversation)
    func mayBeStale(_ draft: EntryDraft?) -> Bool {
      if case .entry = draft?.head { return true }
      return false
    }
    // Without such a head the marker decides nothing, and most commits are spared a read.
    var start: EntryID?
    if mayBeStale(next) || items.contains(where: { mayBeStale($0.write) }) {
      start = try await latestHeadMarker(conversation)?.head
    }
    return Boundary(conversation: conversation, modes: modes, items: items, start: start)
  }

  /// The queued submissions of a conversation, in order.
  func inboxItems(_ conversation: ConversationID) async throws -> [InboxItem] {
    try await (value(.inbox, conversation)["items"]?.array ?? []).map { try InboxItem(json: $0) }
  }

  /// Appends the entry of an input, with the time of this commit.
  @discardableResult
  func appendInput(
    _ content: JSON,
    _ entry: InputEntry? = nil,
    to conversation: ConversationID
  ) async throws -> EntryRecord {
    let message: JSON = ["role": "user", "content": content, "timestamp": .int(now)]
    let draft = EntryDraft(kind: entry?.kind ?? "pi.user", model: [message], data: entry?.data)
    return try await append(draft, to: conversation)
  }

  /// Settles every queued input of a conversation; queued writes stay.
  func withdrawInputs(of conversation: ConversationID, reason: String) async throws {
    let items = try await inboxItems(conversation)
    let inputs = items.indices.filter { items[$0].write == nil }
    guard !inputs.isEmpty else { return }
    for index in inputs {
      try await settle(items[index].id) { _ in
        .unanswered(reason: reason, detail: nil, entry: nil)
      }
    }
    try await edit(.inbox, conversation) { inbox in
      for index in inputs.reversed() {
        try inbox.splice(["items"], at: index, remove: 1, insert: [])
      }
    }
  }

  /// Withdraws one submission if it is still queued.
  package func withdraw(
    _ id: SubmissionID,
    from conversation: ConversationID?
  ) async throws -> Withdrawal {
    guard let record = try await submissionCandidate(id),
      conversation == nil || record.conversationId == conversation
    else { return .notFound }
    guard record.status == .queued else { return record.isSettled ? .settled : .alreadyPlaced }
    let items = try await inboxItems(record.conversationId)
    try await settle(id) { _ in .unanswered(reason: "aborted", detail: nil, entry: nil) }
    if let index = items.firstIndex(where: { $0.id == id }) {
      try await edit(.inbox, record.conversationId) { inbox in
        try inbox.splice(["items"], at: index, remove: 1, insert: [])
      }
    }
    return .aborted
  }
}
