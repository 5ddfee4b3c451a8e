import PerdureModel
import PerdureValue

extension MessageChange {
  /// What operations on `pi.live` changed of the answer that is arriving.
  ///
  /// Without operations, or if they say something else than what changed, it is the whole message.
  static func changes(
    by operations: [Operation]?,
    from before: JSON,
    to message: JSON
  ) -> [MessageChange] {
    guard let operations, let changes = read(operations, message) else {
      return [.message(message)]
    }
    var trial = before
    for change in changes {
      do { try trial.apply(change.operation) } catch { return [.message(message)] }
    }
    var (left, right) = (trial.object ?? [:], message.object ?? [:])
    // The usage is told beside the changes.
    left["usage"] = nil
    right["usage"] = nil
    return left == right ? changes : [.message(message)]
  }

  private static let path: [PathSegment] = ["generation", "message"]

  /// Reads the operations in the words of a message; `nil` if they replace it.
  private static func read(_ operations: [Operation], _ message: JSON) -> [MessageChange]? {
    var changes: [MessageChange] = []
    // A block that is told as a whole has every later change already.
    var whole: Set<Int> = []
    for operation in operations where operation.touches(path) {
      let rest = operation.path.dropFirst(path.count)
      switch rest.first {
      case "usage": continue
      case "content": break
      default: return nil
      }
      if rest.count == 1 {
        guard case .splice(_, let index, 0, let blocks) = operation else { return nil }
        changes += blocks.enumerated().map { .start(index + $0.offset, block: $0.element) }
        continue
      }
      guard case .index(let index)? = rest.dropFirst().first else { return nil }
      guard !whole.contains(index) else { continue }
      if let delta = delta(operation, index, Array(rest.dropFirst(2))) {
        changes.append(delta)
      } else {
        guard let block = message.value(at: ["content", .index(index)]) else { return nil }
        whole.insert(index)
        changes.append(.block(index, block))
      }
    }
    return changes
  }

  private static func delta(
    _ operation: Operation,
    _ index: Int,
    _ place: [PathSegment]
  ) -> MessageChange? {
    guard case .append(_, let text) = operation else { return nil }
    return switch place.first {
    case "text" where place.count == 1: .textDelta(index, text)
    case "thinking" where place.count == 1: .thinkingDelta(index, text)
    case "arguments" where place.count > 1:
      .toolCallDelta(index, path: Array(place.dropFirst()), text)
    default: nil
    }
  }
}

extension ToolUpdate {
  /// What changed of a slot; `operations` are those on its output, if they are known.
  init(from before: JSON, to after: JSON, by operations: [Operation]?) {
    self.init()
    let (old, new) = (before["output"], after["output"])
    if old != new { output = Self.move(operations, from: old, to: new) }
    if before["droppedBytes"] != after["droppedBytes"] {
      droppedBytes = after["droppedBytes"]?.int ?? 0
    }
    if before["droppedLines"] != after["droppedLines"] {
      droppedLines = after["droppedLines"]?.int ?? 0
    }
    if before["details"] != after["details"] { details = after["details"] ?? .null }
    if before["diagnostics"] != after["diagnostics"] { diagnostics = after["diagnostics"] ?? [] }
  }

  private static func move(
    _ operations: [Operation]?,
    from old: JSON?,
    to new: JSON?
  ) -> Output {
    let text = new?.string ?? ""
    var count = 0
    var tail: JSONString = ""
    for operation in operations ?? [] {
      switch operation {
      case .trim(_, let units): count += units
      case .append(_, let more): tail.append(more)
      default: return .set(text)
      }
    }
    let rest = (old?.string ?? "").dropping(utf16Units: count)
    return rest?.appending(tail) == text ? .moved(trimStart: count, append: tail) : .set(text)
  }
}

extension Operation {
  /// Where it works; empty for the whole value.
  var path: [PathSegment] {
    switch self {
    case .replace: []
    case .set(let path, _), .delete(let path), .append(let path, _), .trim(let path, _),
      .splice(let path, _, _, _), .reorder(let path, _):
      path
    }
  }

  /// Whether it changes what lies at `place`, from within or as a part of something greater.
  func touches(_ place: [PathSegment]) -> Bool {
    path.starts(with: place) || place.starts(with: path)
  }
}
