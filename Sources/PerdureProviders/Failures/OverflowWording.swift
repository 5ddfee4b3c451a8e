/// How providers say that a context is too long; data, kept apart from the code that uses it.
///
/// Each row holds texts, in lower case, that occur together in such a message.
enum OverflowWording {
  static let rows: [[String]] = [
    ["prompt is too long"],
    ["request_too_large"],
    ["model_context_window_exceeded"],
    ["context_length_exceeded"],
    ["exceed_context_size_error"],
    ["exceeds the context window"],
    ["input token count", "exceeds the maximum"],
    ["input is too long for requested model"],
    ["maximum prompt length is"],
    ["reduce the length of the messages"],
    ["maximum context length"],
    ["token", "exceeds the limit of"],
    ["exceeds the available context size"],
    ["greater than the context length"],
    ["context window exceeds limit"],
    ["exceeded model token limit"],
    ["too large for model with"],
    ["too many tokens"],
  ]

  /// Wording of rate limits, which some of the rows would match as well.
  static let throttling = [
    "rate limit", "rate_limit", "too many requests", "throttl", "per minute",
  ]

  /// Returns whether `text` says that the context is too long.
  static func matches(_ text: String) -> Bool {
    let text = text.lowercased()
    guard !throttling.contains(where: { text.contains($0) }) else { return false }
    return rows.contains { row in row.allSatisfy { text.contains($0) } }
  }
}
