package import PerdureModel
package import PerdureValue

/// The living members of a family of documents at one place, as one version of its definition
/// sees them.
package struct FamilyFold: Fold {
  /// Which revision of a member the view holds.
  private struct Mounted: Equatable {
    var id: DocumentID
    var version: Int64
  }

  private let kind: JSONString
  private let scope: DocumentScope
  private var mounted: [JSONString: Mounted] = [:]
  /// The values by key, in the order in which the members were created.
  package private(set) var value = JSONObject()

  /// Makes the view of a family with these members.
  package init(_ kind: JSONString, in scope: DocumentScope, _ members: [StoredDocument]) {
    self.kind = kind
    self.scope = scope
    for member in members.sorted(by: { $0.record.id < $1.record.id }) {
      guard let key = member.record.address.key else { continue }
      value[key] = member.value
      mounted[key] = Mounted(id: member.record.id, version: member.version)
    }
  }

  package var json: JSON { .object(value) }

  package mutating func apply(_ publication: Publication) -> [Operation] {
    var operations: [Operation] = []
    for case .document(let record, let version, let new, let changes) in publication.changes
    where record.address.kind == kind && record.address.scope == scope {
      operations += apply(record, version, new, changes)
    }
    return operations
  }

  /// Follows the change of one document, which is a member.
  mutating func apply(
    _ record: DocumentRecord,
    _ version: Int64?,
    _ new: JSON?,
    _ changes: [Operation]
  ) -> [Operation] {
    guard let key = record.address.key else { return [] }
    // No path may name some keys; then the family is told as a whole.
    let isNameable = !PathSegment.unsafeKeys.contains(key)
    guard let version, let new else {
      guard mounted[key]?.id == record.id else { return [] }
      mounted[key] = nil
      value[key] = nil
      return [isNameable ? .delete([.key(key)]) : .replace(json)]
    }
    let next = Mounted(id: record.id, version: version)
    let isSame = mounted[key] == next && !changes.isEmpty
    mounted[key] = next
    value[key] = new
    guard isNameable else { return [.replace(json)] }
    return isSame ? changes.map { $0.under([.key(key)]) } : [.set([.key(key)], new)]
  }
}
