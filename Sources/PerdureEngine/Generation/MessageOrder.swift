import PerdureValue

/// The part that a message plays in a request.
enum MessageRole {
  case system
  case user
  case assistant
  case toolResult
  case other

  init(_ message: JSON) {
    switch message["role"]?.string {
    case "system": self = .system
    case "user": self = .user
    case "assistant": self = .assistant
    case "toolResult": self = .toolResult
    default: self = .other
    }
  }
}

/// Puts messages into the order of a request while they arrive in the order of their commits.
struct MessageOrder: Sendable {
  // The first `settledCount` are final; the others are the open ones, ordered, or missing until
  // somebody asks for them.
  private var ordered: [JSON] = []
  private var settledCount = 0
  private var isCurrent = true
  // An assistant message and what came after it, as committed; empty before the first one.
  private var open: [JSON] = []
  private var lead = Lead.absent

  /// Where the first system message is.
  private enum Lead {
    case absent
    /// It has arrived, but its place is not settled.
    case pending(isBaseline: Bool)
    case placed
  }

  /// Takes the next message; `isBaseline` says that it comes from the entry with the whole prompt.
  mutating func append(_ message: JSON, role: MessageRole, isBaseline: Bool) {
    if role == .system, case .absent = lead { lead = .pending(isBaseline: isBaseline) }
    switch role {
    case .assistant:
      settle(Self.withResults(open[...]))
      open = [message]
      isCurrent = false
    case .toolResult where open.isEmpty: break
    default:
      if open.isEmpty {
        settle([message])
      } else {
        open.append(message)
        isCurrent = false
      }
    }
  }

  /// Returns all messages in order.
  mutating func messages() -> [JSON] {
    if !isCurrent {
      ordered.removeLast(ordered.count - settledCount)
      ordered += Self.withResults(open[...])
      isCurrent = true
    }
    guard case .pending(let isBaseline) = lead,
      let (position, moves) = leadPosition(in: ordered[settledCount...], isBaseline: isBaseline),
      moves
    else { return ordered }
    var moved = ordered
    moved.insert(moved.remove(at: position), at: 0)
    return moved
  }

  private mutating func settle(_ messages: [JSON]) {
    ordered.removeLast(ordered.count - settledCount)
    ordered += messages
    if case .pending(let isBaseline) = lead,
      let (position, moves) = leadPosition(in: ordered[settledCount...], isBaseline: isBaseline)
    {
      if moves { ordered.insert(ordered.remove(at: position), at: 0) }
      lead = .placed
    }
    settledCount = ordered.count
  }

  /// Finds the first system message and whether it goes to the front of the request.
  ///
  /// Providers take only a leading system message as prompt and tool set; one in the middle of the
  /// transcript would cost the prompt cache.
  private func leadPosition(
    in candidates: ArraySlice<JSON>,
    isBaseline: Bool
  ) -> (position: Int, moves: Bool)? {
    guard let position = candidates.firstIndex(where: { MessageRole($0) == .system }) else {
      return nil
    }
    let moves =
      position > 0
      && (isBaseline || ordered[..<position].allSatisfy { MessageRole($0) == .user })
    return (position, moves)
  }

  /// Returns `messages`, which begin with an assistant message that is the only one among them,
  /// with the result of each call behind it.
  private static func withResults(_ messages: ArraySlice<JSON>) -> [JSON] {
    guard let assistant = messages.first else { return [] }
    var results: [JSONString: JSON] = [:]
    var others: [JSON] = []
    for message in messages.dropFirst() {
      guard MessageRole(message) == .toolResult else {
        others.append(message)
        continue
      }
      guard let id = message["toolCallId"]?.string, results[id] == nil else { continue }
      results[id] = message
    }
    var ordered = [assistant]
    for call in assistant["content"]?.array ?? [] where call["type"]?.string == "toolCall" {
      let result = call["id"]?.string.flatMap { results[$0] }
      ordered.append(result ?? missingResult(of: call, in: assistant))
    }
    return ordered + others
  }

  /// The result of a call that the visible history does not answer.
  private static func missingResult(of call: JSON, in assistant: JSON) -> JSON {
    [
      "role": "toolResult", "toolCallId": call["id"] ?? "", "toolName": call["name"] ?? "",
      "content": [
        ["type": "text", "text": "No result: the visible history ends before this call ended."]
      ],
      "isError": true, "details": ["reason": "missing_result"],
      "timestamp": assistant["timestamp"] ?? .int(0),
    ]
  }
}
