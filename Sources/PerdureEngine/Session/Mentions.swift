import PerdureModel
import PerdureValue

/// The ids that records and documents may mean by the numbers in them.
///
/// Inputs, checkpoints and memos are the business of their definitions, so nobody else knows which
/// of their numbers are ids.
struct Mentions {
  private(set) var ids: Set<Int64> = []

  /// Takes every whole number for an id.
  mutating func add(_ json: JSON?) {
    switch json {
    case .int(let value)?: ids.insert(value)
    case .array(let elements)?: for element in elements { add(element) }
    case .object(let members)?: for value in members.values { add(value) }
    default: break
    }
  }

  /// Takes the numbers for ids that stand under a name that says so, as `taskId` does.
  mutating func addNamed(_ json: JSON?) {
    switch json {
    case .array(let elements)?: for element in elements { addNamed(element) }
    case .object(let members)?:
      for (name, value) in members {
        let isNamed = name.string.hasSuffix("Id") || name.string.hasSuffix("Ids")
        if isNamed { add(value) } else { addNamed(value) }
      }
    default: break
    }
  }

  /// Takes what a task waits for.
  mutating func addWaits(of task: TaskRecord) {
    if case .waiting(_, let on, _) = task.state { ids.formUnion(on.map { $0.value }) }
  }
}
