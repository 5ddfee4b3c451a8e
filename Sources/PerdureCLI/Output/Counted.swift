/// Numbers of things in sentences.
enum Counted {
  /// Returns `1 line` or `2 lines`.
  static func text(_ count: Int, _ noun: String) -> String {
    count == 1 ? "1 \(noun)" : "\(count) \(noun)s"
  }
}
