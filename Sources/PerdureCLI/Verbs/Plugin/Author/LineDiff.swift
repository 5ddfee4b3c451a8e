/// What differs between two texts, line by line.
enum LineDiff {
  private enum Change { case same, removed, added }

  /// How many lines that are the same are shown around one that is not.
  private static let context = 2
  /// Beyond it the search would take too much memory.
  private static let longest = 4_000

  /// Returns the lines of the difference, none if there is none.
  ///
  /// `- ` stands before what was, `+ ` before what is, two blanks before what surrounds them, and `…`
  /// for what is left out.
  static func lines(from old: String, to new: String) -> [String] {
    let before = old.split(separator: "\n", omittingEmptySubsequences: false)
    let after = new.split(separator: "\n", omittingEmptySubsequences: false)
    if before == after { return [] }
    var (start, end) = (0, 0)
    let most = min(before.count, after.count)
    while start < most, before[start] == after[start] { start += 1 }
    while end < most - start, before[before.count - 1 - end] == after[after.count - 1 - end] {
      end += 1
    }
    var all = before[..<start].map { (Change.same, $0) }
    all += middle(
      Array(before[start..<(before.count - end)]),
      Array(after[start..<(after.count - end)])
    )
    all += before[(before.count - end)...].map { (Change.same, $0) }
    return shown(all)
  }

  /// The shortest change of what differs, by the longest common subsequence.
  private static func middle(
    _ before: [Substring],
    _ after: [Substring]
  ) -> [(Change, Substring)] {
    let all = before.map { (Change.removed, $0) } + after.map { (Change.added, $0) }
    guard !before.isEmpty, !after.isEmpty, before.count <= longest, after.count <= longest else {
      return all
    }
    let width = after.count + 1
    var common = [Int32](repeating: 0, count: (before.count + 1) * width)
    for row in before.indices.reversed() {
      for column in after.indices.reversed() {
        common[row * width + column] =
          before[row] == after[column]
          ? common[(row + 1) * width + column + 1] + 1
          : max(common[(row + 1) * width + column], common[row * width + column + 1])
      }
    }
    var lines: [(Change, Substring)] = []
    var (row, column) = (0, 0)
    while row < before.count || column < after.count {
      if row < before.count, column < after.count, before[row] == after[column] {
        lines.append((.same, before[row]))
        (row, column) = (row + 1, column + 1)
      } else if column == after.count
        || row < before.count
          && common[(row + 1) * width + column] >= common[row * width + column + 1]
      {
        lines.append((.removed, before[row]))
        row += 1
      } else {
        lines.append((.added, after[column]))
        column += 1
      }
    }
    return lines
  }

  private static func shown(_ all: [(Change, Substring)]) -> [String] {
    var lines: [String] = []
    var isGap = false
    for (index, line) in all.enumerated() {
      let around = all[max(0, index - context)...min(all.count - 1, index + context)]
      guard around.contains(where: { $0.0 != .same }) else {
        isGap = true
        continue
      }
      if isGap { lines.append("…") }
      isGap = false
      let mark =
        switch line.0 {
        case .same: "  "
        case .removed: "- "
        case .added: "+ "
        }
      lines.append(line.1.isEmpty ? String(mark.prefix(line.0 == .same ? 0 : 1)) : mark + line.1)
    }
    if isGap { lines.append("…") }
    return lines
  }
}
