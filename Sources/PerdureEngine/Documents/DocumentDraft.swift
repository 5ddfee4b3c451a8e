package import PerdureValue

/// A document that is being changed, and the operations that lead from its base to its value.
///
/// Operations replay exactly: applied to the base they give the value, the order of keys included.
/// What certainly changes nothing is not recorded. A failed change throws and changes nothing.
package struct DocumentDraft: Sendable {
  /// What the draft began with.
  package let base: JSON
  /// The document as it is now.
  package private(set) var value: JSON

  private var recorded: [Operation] = []
  private var isFolded = false

  /// Beyond this many operations one replacement of the whole document is shorter.
  private static let maxOperations = 4_096

  /// Makes a draft of `base` without changes.
  package init(base: JSON) {
    self.base = base
    value = base
  }

  /// The operations that give `value` when they are applied to `base`; empty without a change.
  package var operations: [Operation] { isFolded ? [.replace(value)] : recorded }

  /// Whether there is an operation.
  package var isChanged: Bool { isFolded || !recorded.isEmpty }

  /// Sets a member or element, or the whole document where `path` is empty.
  ///
  /// An index equal to the length appends. A string that continues the old one, or its end, is
  /// recorded as that.
  package mutating func set(_ path: [PathSegment], _ new: JSON) throws(OperationError) {
    try record(setOperations(path, new))
  }

  /// Applies operations of somebody else as they are.
  package mutating func apply(_ operations: [Operation]) throws(OperationError) {
    for operation in operations { try record([operation]) }
  }

  /// Deletes a member, which may be absent, or removes an element.
  package mutating func delete(_ path: [PathSegment]) throws(OperationError) {
    if case .key = path.last, case .object(let members)? = value.value(at: path.dropLast()),
      case .key(let key)? = path.last, members[key] == nil
    {
      return
    }
    try record([.delete(path)])
  }

  /// Removes elements of an array and inserts others in their place.
  package mutating func splice(
    _ path: [PathSegment],
    at index: Int,
    remove: Int,
    insert items: [JSON]
  ) throws(OperationError) {
    let operation = Operation.splice(path, at: index, remove: remove, insert: items)
    if remove == 0, items.isEmpty {
      // Nothing to record, but a wrong place is still an error.
      var copy = value
      return try copy.apply(operation)
    }
    try record([operation])
  }

  /// Appends to a string.
  package mutating func append(_ path: [PathSegment], _ text: JSONString) throws(OperationError) {
    if text.isEmpty, case .string? = value.value(at: path) { return }
    try record([.append(path, text)])
  }

  /// Makes the value at `path` equal to `new` by changing only what differs.
  ///
  /// Objects are compared key by key and arrays that did not shrink element by element, so that a
  /// longer text deep inside becomes one append. A path that does not exist yet is set.
  package mutating func assign(_ path: [PathSegment], _ new: JSON) throws(OperationError) {
    // The old value is not held while the operations are applied, so they work in place.
    try record(assignOperations(path, new))
  }

  private func setOperations(_ path: [PathSegment], _ new: JSON) -> [Operation] {
    guard let old = value.value(at: path) else { return [addition(path, new)] }
    return Difference.ofLeaf(path, old, new)
  }

  /// Sets what is not there yet.
  private func addition(_ path: [PathSegment], _ new: JSON) -> Operation {
    // pi-durable-python 1.4.0 does not take the end of an array for a place to set.
    if case .index(let index)? = path.last,
      case .array(let elements)? = value.value(at: path.dropLast()), index == elements.count
    {
      return .splice(Array(path.dropLast()), at: index, remove: 0, insert: [new])
    }
    return .set(path, new)
  }

  private func assignOperations(_ path: [PathSegment], _ new: JSON) -> [Operation] {
    guard let old = value.value(at: path) else { return [addition(path, new)] }
    var difference = Difference()
    difference.compare(path, old, new)
    return difference.operations
  }

  private mutating func record(_ operations: [Operation]) throws(OperationError) {
    for operation in operations { try value.apply(operation) }
    guard !isFolded else { return }
    recorded += operations
    if recorded.count > Self.maxOperations {
      recorded = []
      isFolded = true
    }
  }
}
