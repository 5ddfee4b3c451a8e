package import PerdureModel
package import PerdureValue

/// One incarnation of a document, as one version of its definition sees it.
package struct DocumentFold: Fold {
  private let id: DocumentID
  private let version: Int64
  /// The value; `nil` once the document is retired.
  package private(set) var value: JSON?

  /// Makes the view of a document as it lies on disk.
  package init(_ document: StoredDocument) {
    id = document.record.id
    version = document.version
    value = document.value
  }

  package var json: JSON { value ?? .null }

  package var end: WatchEnd? { value == nil ? .retired : nil }

  package mutating func apply(_ publication: Publication) -> [Operation] {
    var operations: [Operation] = []
    for case .document(let record, let version, let new, let changes) in publication.changes
    where record.id == id && value != nil {
      guard let new else {
        value = nil
        operations.append(.replace(.null))
        continue
      }
      defer { value = new }
      if version == self.version, !changes.isEmpty {
        operations += changes
      } else if value?.compactText != new.compactText {
        // Operations between versions would change a value that this observer never saw.
        operations.append(.replace(new))
      }
    }
    return operations
  }
}
