package import PerdureModel
package import PerdureValue

/// The older part of a context, which a summary replaces.
package struct CompactionRange: Sendable, Equatable {
  /// The place of the first entry that is kept.
  package var cut: Int
  /// Estimated tokens of what the range holds beside the head marker.
  package var newTokens: Int64

  /// Chooses the range so that about `keepRecentTokens` of the newest messages are kept; `nil` if
  /// there is nothing worth a summary.
  ///
  /// A context begins with its head marker, if it has one. The cut falls on a user message or an
  /// answer, and never between a call and its result.
  package init?(
    contributions: [[JSON]],
    weights: [ContextWeight],
    hasHead: Bool,
    keepRecentTokens: Int64
  ) {
    let start = hasHead ? 1 : 0
    let count = min(contributions.count, weights.count)
    var kept: Int64 = 0
    var edge: Int?
    for index in stride(from: count - 1, through: start, by: -1) {
      kept = kept.addingSaturated(weights[index].tokens)
      if kept >= keepRecentTokens {
        edge = index
        break
      }
    }
    guard let edge else { return nil }
    func isCandidate(_ index: Int) -> Bool { Self.isCandidate(contributions, index) }
    let cut = (edge..<count).first(where: isCandidate) ?? (start..<edge).last(where: isCandidate)
    guard let cut, contributions[start..<cut].contains(where: { !$0.isEmpty }) else { return nil }
    self.cut = cut
    newTokens = weights[start..<cut].reduce(0) { $0.addingSaturated($1.tokens) }
  }

  /// Chooses the range of a view.
  package init?(of view: ContextView, keepRecentTokens: Int64) {
    self.init(
      contributions: view.contributions,
      weights: view.weights,
      hasHead: view.head != nil,
      keepRecentTokens: keepRecentTokens
    )
  }

  /// Whether a context may begin with this entry.
  private static func isCandidate(_ contributions: [[JSON]], _ index: Int) -> Bool {
    guard let first = contributions[index].first else { return false }
    switch MessageRole(first) {
    case .assistant: return true
    case .user: return !isBeforeResult(contributions, index)
    default: return false
    }
  }

  /// Whether a result of a call before this user message is still to come.
  private static func isBeforeResult(_ contributions: [[JSON]], _ index: Int) -> Bool {
    let before = contributions[..<index].reversed().lazy.compactMap { messages in
      messages.last { MessageRole($0) == .assistant }
    }
    let calls = Set(
      (before.first?["content"]?.array ?? []).filter { $0["type"] == "toolCall" }
        .compactMap { $0["id"]?.string }
    )
    guard !calls.isEmpty else { return false }
    for message in contributions[index...].joined() {
      switch MessageRole(message) {
      case .assistant: return false
      case .toolResult:
        if let id = message["toolCallId"]?.string, calls.contains(id) { return true }
      default: break
      }
    }
    return false
  }

  /// The messages that the summary is made of: the head marker's first, results behind their calls.
  package func messages(of view: ContextView) -> [JSON] {
    Self.messages(of: view, before: cut)
  }

  static func messages(of view: ContextView, before cut: Int) -> [JSON] {
    var order = MessageOrder()
    for message in view.contributions.prefix(cut).joined() {
      order.append(message, role: MessageRole(message), isBaseline: false)
    }
    return order.messages()
  }
}

/// Which summary a context asks for before its next request.
package enum CompactionNeed: Sendable, Equatable {
  /// The request waits for it.
  case blocking
  /// It is made meanwhile.
  case background

  /// Finds out what is needed; `nil` if the context is small enough, or a summary would not help.
  ///
  /// After a summary the next one must replace at least as much as that summary itself holds:
  /// otherwise a context that does not get small enough would be summarized before each request.
  package static func of(
    contributions: [[JSON]],
    weights: [ContextWeight],
    head: EntryRecord?,
    planned: [JSON],
    window: Int64,
    policy: CompactionPolicy
  ) -> CompactionNeed? {
    guard policy.isEnabled, window > 0 else { return nil }
    let policy = policy.fitted(to: window)
    let total = ContextWeight.total(of: weights, after: head?.id)
      .addingSaturated(TokenEstimate.tokens(of: planned))
    let isBlocking = total > policy.blockingLimit(of: window)
    guard isBlocking || policy.backgroundLimit(of: window).map({ total > $0 }) == true else {
      return nil
    }
    let range = CompactionRange(
      contributions: contributions,
      weights: weights,
      hasHead: head != nil,
      keepRecentTokens: policy.keepRecentTokens
    )
    guard let range else { return nil }
    if head?.kind == CompactionTask.entryKind, let marker = weights.first,
      range.newTokens < marker.tokens
    {
      return nil
    }
    return isBlocking ? .blocking : .background
  }
}
