/// Finds what somebody may have meant.
enum Suggestion {
  /// Returns the word that differs in at most a third of its letters, if there is one.
  ///
  /// Of one or two letters most words are near; only one other letter in its place counts there.
  static func nearest(to text: String, among words: [String]) -> String? {
    let ranked = words.map { (word: $0, distance: distance(Array(text), Array($0))) }
    guard let best = ranked.min(by: { $0.distance < $1.distance }) else { return nil }
    let isShort = min(text.count, best.word.count) < 3
    if isShort, best.distance != 1 || text.count != best.word.count { return nil }
    return best.distance <= max(1, best.word.count / 3) ? best.word : nil
  }

  static func sentence(for text: String, among words: [String]) -> String? {
    nearest(to: text, among: words).map { "did you mean '\($0)'?" }
  }

  /// Counts insertions, deletions, replacements and swaps of neighbours.
  private static func distance(_ left: [Character], _ right: [Character]) -> Int {
    var beforeLast: [Int] = []
    var last = Array(0...right.count)
    for (row, character) in left.enumerated() {
      var next = [row + 1]
      for (column, other) in right.enumerated() {
        var cost = min(
          last[column] + (character == other ? 0 : 1),
          min(last[column + 1], next[column]) + 1
        )
        if row > 0, column > 0, character == right[column - 1], left[row - 1] == other {
          cost = min(cost, beforeLast[column - 1] + 1)
        }
        next.append(cost)
      }
      (beforeLast, last) = (last, next)
    }
    return last[right.count]
  }
}
