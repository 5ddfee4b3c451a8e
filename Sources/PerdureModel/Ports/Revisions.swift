import PerdureValue

/// One revision of a document as a store keeps it.
public struct Revision: Sendable {
  /// The commit that wrote it.
  public let sequence: Int64
  public let content: DocumentContent

  /// Makes a revision.
  public init(sequence: Int64, content: DocumentContent) {
    self.sequence = sequence
    self.content = content
  }
}

extension StoredDocument {
  /// Replays the newest base among `revisions` and the deltas behind it.
  ///
  /// Throws `storeCorrupt` if they do not make a value.
  public init(
    record: DocumentRecord,
    replaying revisions: some BidirectionalCollection<Revision>
  ) throws {
    func corrupt(_ what: String, cause: String? = nil) -> PerdureError {
      PerdureError(.storeCorrupt, "document \(record.id) \(what)", cause: cause)
    }
    var operations: [[Operation]] = []
    for revision in revisions.reversed() {
      switch revision.content {
      case .delta(let version, let batch):
        operations.append(batch)
        guard version == revisions.last?.content.version else {
          throw corrupt("crosses a stored version boundary without a base")
        }
      case .base(let version, var value):
        guard version == revisions.last?.content.version else {
          throw corrupt("crosses a stored version boundary without a base")
        }
        do {
          for batch in operations.reversed() {
            for operation in batch { try value.apply(operation) }
          }
        } catch {
          throw corrupt("holds an operation that cannot be applied", cause: "\(error)")
        }
        self.init(
          record: record,
          version: version,
          value: value,
          deltasSinceBase: operations.count
        )
        return
      }
    }
    throw corrupt("is missing a required base")
  }
}

extension DocumentRecord {
  /// Throws `invalidRequest` if the document keeps no history and is asked for it.
  public func requireHistory(at sequence: Int64?) throws {
    guard sequence != nil, isCurrentOnly else { return }
    throw PerdureError(.invalidRequest, "document \(id) does not retain historical content")
  }
}
