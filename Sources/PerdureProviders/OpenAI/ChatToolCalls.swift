import PerdureModel
import PerdureValue

/// Puts the pieces of tool calls together, also where a server numbers or names them badly.
struct ChatToolCalls {
  private struct Call {
    /// The number and the id that the server gave.
    var wireIndex: Int64?
    var wireId: String?
    var name = ""
    var arguments = ""
    /// The block and its id; absent until the name is known.
    var block: Int?
  }

  private var calls: [Call] = []
  private var usedIds: Set<String> = []

  var isEmpty: Bool { calls.isEmpty }

  /// Takes one element of `tool_calls`.
  mutating func take(
    _ piece: JSON,
    realName: (String) -> JSONString,
    blocks: inout Int,
    events: inout [ModelEvent]
  ) {
    let function = piece["function"] ?? piece
    let name = function["name"]?.text ?? ""
    let arguments = Self.text(of: function["arguments"])
    let id = piece["id"].flatMap { $0.text ?? $0.int.map(String.init) } ?? ""
    let position = position(
      index: piece["index"]?.int,
      id: id,
      name: name,
      hasArguments: !arguments.isEmpty
    )
    if calls[position].name.isEmpty { calls[position].name = name }
    if calls[position].wireId == nil, !id.isEmpty { calls[position].wireId = id }
    calls[position].arguments += arguments
    if let block = calls[position].block {
      if !arguments.isEmpty { events.append(.delta(index: block, arguments)) }
    } else if !calls[position].name.isEmpty {
      start(position, realName: realName, blocks: &blocks, events: &events)
    }
  }

  /// Ends all calls.
  mutating func finish(
    realName: (String) -> JSONString,
    blocks: inout Int,
    events: inout [ModelEvent]
  ) {
    for position in calls.indices {
      if calls[position].block == nil {
        start(position, realName: realName, blocks: &blocks, events: &events)
      }
      guard let block = calls[position].block else { continue }
      let value = Self.value(of: calls[position].arguments)
      events.append(.blockEnd(index: block, arguments: value))
    }
  }

  private mutating func start(
    _ position: Int,
    realName: (String) -> JSONString,
    blocks: inout Int,
    events: inout [ModelEvent]
  ) {
    let block = blocks
    blocks += 1
    calls[position].block = block
    let id = unusedId(calls[position].wireId)
    events.append(
      .blockStart(
        index: block,
        .toolCall(id: JSONString(id), name: realName(calls[position].name))
      )
    )
    if !calls[position].arguments.isEmpty {
      events.append(.delta(index: block, calls[position].arguments))
    }
  }

  /// Returns the server's id unless another call of this answer has it; then it makes one.
  private mutating func unusedId(_ wireId: String?) -> String {
    if let wireId, usedIds.insert(wireId).inserted { return wireId }
    let id = "call_" + String(UInt64.random(in: 0x1000_0000_0000_0000 ... .max), radix: 16)
    usedIds.insert(id)
    return id
  }

  /// Finds the call that a piece continues, or adds one.
  ///
  /// A piece begins a call if it has a name and either another id than the call with its number,
  /// or arguments although that call's are complete. An id that changes without a name is noise.
  private mutating func position(
    index: Int64?,
    id: String,
    name: String,
    hasArguments: Bool
  ) -> Int {
    let known: Int?
    if let index {
      known = calls.lastIndex { $0.wireIndex == index }
    } else {
      known = calls.lastIndex { $0.wireId == id && !id.isEmpty } ?? calls.indices.last
    }
    if let known {
      let call = calls[known]
      let hasOtherId = !id.isEmpty && call.wireId != nil && call.wireId != id
      let isComplete = hasArguments && Self.isComplete(call.arguments)
      if name.isEmpty || call.name.isEmpty || !hasOtherId && !isComplete { return known }
    }
    calls.append(Call(wireIndex: index))
    return calls.count - 1
  }

  // MARK: Arguments

  private static func text(of arguments: JSON?) -> String {
    switch arguments {
    case nil, .null: ""
    case .string(let text): text.string
    case let value?: value.compactText
    }
  }

  private static func isComplete(_ text: String) -> Bool {
    (try? JSON(parsing: text))?.object != nil
  }

  /// Returns the arguments, or `nil` if they cannot be read even with good will.
  static func value(of text: String) -> JSON? {
    let text = text.trimmed
    if text.isEmpty { return [:] }
    if let value = try? JSON(parsing: text) {
      // Some servers encode the text twice.
      if let inner = value.text, let object = try? JSON(parsing: inner), object.object != nil {
        return object
      }
      return value.isNull ? [:] : value
    }
    guard let object = JSONPrefix.object(in: Array(text.utf8)) else { return nil }
    return try? JSON(parsing: object)
  }
}

/// Finds a JSON object in front of text that does not belong to it.
enum JSONPrefix {
  /// Returns the bytes up to the brace that closes the first one; `nil` if there is none.
  static func object(in bytes: [UInt8]) -> [UInt8]? {
    guard bytes.first == UInt8(ascii: "{") else { return nil }
    var depth = 0
    var isInString = false
    var isEscaped = false
    for (index, byte) in bytes.enumerated() {
      if isInString {
        if isEscaped {
          isEscaped = false
        } else if byte == UInt8(ascii: "\\") {
          isEscaped = true
        } else if byte == UInt8(ascii: "\"") {
          isInString = false
        }
        continue
      }
      switch byte {
      case UInt8(ascii: "\""): isInString = true
      case UInt8(ascii: "{"): depth += 1
      case UInt8(ascii: "}"):
        depth -= 1
        if depth == 0 { return Array(bytes[...index]) }
      default: break
      }
    }
    return nil
  }
}
