package import PerdureValue
package struct DocumentDraft {
  package private(set) var value: JSON
  package private(set) var operations: [Operation] = []
  package init(base: JSON) { value = base }
  package mutating func set(_ path: [PathSegment], _ new: JSON) throws { try run(.set(path, new)) }
  package mutating func delete(_ path: [PathSegment]) throws { try run(.delete(path)) }
  package mutating func assign(_ path: [PathSegment], _ new: JSON) throws { try run(.set(path, new)) }
  package mutating func splice(_ path: [PathSegment], at: Int, remove: Int, insert: [JSON]) throws { try run(.splice(path, at: at, remove: remove, insert: insert)) }
  private mutating func run(_ o: PerdureValue.Operation) throws { try value.apply(o); operations.append(o) }
}
