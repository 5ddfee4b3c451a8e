package import PerdureModel
package import PerdureValue

/// What one entry adds to the size of a context.
///
/// It is found out once, when the entry comes into the context, so that looking at the size of a
/// long conversation costs no more than adding numbers.
package struct ContextWeight: Sendable, Equatable {
  package var entry: EntryID
  /// The estimated tokens of its messages.
  package var tokens: Int64
  /// The tokens that the provider counted for its answer and everything before it; 0 if none.
  package var measured: Int64
  /// The estimated tokens behind that answer in the same entry.
  private var behind: Int64 = 0

  package init(entry: EntryID, _ messages: [JSON]) {
    self.entry = entry
    tokens = TokenEstimate.tokens(of: messages)
    measured = 0
    guard let place = messages.lastIndex(where: { TokenEstimate.measured($0) > 0 }) else { return }
    measured = TokenEstimate.measured(messages[place])
    behind = TokenEstimate.tokens(of: Array(messages[(place + 1)...]))
  }

  /// Returns the size of a context: what the newest answer that counts was measured with, and
  /// estimates of what came later.
  ///
  /// An answer before the head marker knew nothing of that marker, so it does not count. Without
  /// one that counts, everything is estimated.
  package static func total(of weights: [ContextWeight], after head: EntryID?) -> Int64 {
    var later: Int64 = 0
    for weight in weights.reversed() {
      let counts = head.map { weight.entry > $0 } ?? true
      if counts, weight.measured > 0 {
        return weight.measured.addingSaturated(weight.behind).addingSaturated(later)
      }
      later = later.addingSaturated(weight.tokens)
    }
    return later
  }
}

extension ContextView {
  /// The weights of the entries, in their order.
  package var weights: [ContextWeight] {
    zip(entries, contributions).map { ContextWeight(entry: $0.id, $1) }
  }

  /// The size of the context in tokens, as far as that can be known.
  package var estimatedTokens: Int64 { ContextWeight.total(of: weights, after: head?.id) }
}
