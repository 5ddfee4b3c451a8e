package import PerdureValue

/// How many tokens a message takes, without asking anybody.
package enum TokenEstimate {
  /// What an image counts, in characters.
  private static let imageCharacters: Int64 = 4_800

  /// Returns the tokens of a message: one for every three and a half characters, rounded up.
  package static func tokens(of message: JSON) -> Int64 {
    switch MessageRole(message) {
    case .system:
      return tokens(characters: systemCharacters(message))
        .addingSaturated(tools(message["toolsAdded"]))
        .addingSaturated(tools(message["toolsRemoved"]))
    case .assistant: return tokens(characters: answerCharacters(message))
    case .user, .toolResult, .other:
      return tokens(characters: contentCharacters(message["content"]))
    }
  }

  /// Returns the tokens of several messages.
  package static func tokens(of messages: [JSON]) -> Int64 {
    messages.reduce(0) { $0.addingSaturated(tokens(of: $1)) }
  }

  /// Returns the tokens that the provider counted for an answer with all before it; 0 if none.
  package static func measured(_ message: JSON) -> Int64 {
    guard MessageRole(message) == .assistant, let usage = message["usage"] else { return 0 }
    if let total = usage["totalTokens"]?.int, total > 0 { return total }
    let parts: [JSONString] = ["input", "output", "cacheRead", "cacheWrite"]
    return max(0, parts.reduce(0) { $0.addingSaturated(usage[$1]?.int ?? 0) })
  }

  private static func tokens(characters: Int64) -> Int64 {
    // The quotient by 3.5 without leaving the integers.
    let (doubled, overflow) = characters.multipliedReportingOverflow(by: 2)
    return overflow ? .max : doubled.addingSaturated(6) / 7
  }

  private static func count(_ string: JSONString?) -> Int64 { Int64(string?.utf16Count ?? 0) }

  private static func tools(_ tools: JSON?) -> Int64 {
    guard let tools, tools.array?.isEmpty == false else { return 0 }
    return tokens(characters: count(JSONString(tools.compactText)))
  }

  private static func systemCharacters(_ message: JSON) -> Int64 {
    let sections = message["sections"]?.object?.values ?? []
    return sections.reduce(count(message["content"]?.string)) { $0 + count($1.string) }
  }

  private static func contentCharacters(_ content: JSON?) -> Int64 {
    if let text = content?.string { return count(text) }
    return (content?.array ?? []).reduce(0) { sum, item in
      sum + (item["type"] == "text" ? count(item["text"]?.string) : imageCharacters)
    }
  }

  private static func answerCharacters(_ message: JSON) -> Int64 {
    (message["content"]?.array ?? []).reduce(0) { sum, item in
      switch item["type"]?.string {
      case "text": return sum + count(item["text"]?.string)
      case "thinking": return sum + count(item["thinking"]?.string)
      default:
        let arguments = item["arguments"].map { JSONString($0.compactText) }
        return sum + count(item["name"]?.string) + count(arguments)
      }
    }
  }
}
