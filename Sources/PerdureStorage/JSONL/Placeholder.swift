import PerdureModel
import PerdureValue

/// A record that says nothing and only has an id.
///
/// Other programs count ids from the greatest one that `main.jsonl` names. Where the record of that
/// id was removed, a document that began and ended at once takes its place; here it is not shown.
enum Placeholder {
  private static let kind: JSONString = "perdure.removed"

  static func matches(_ record: DocumentRecord) -> Bool {
    record.address == DocumentAddress(kind: kind, scope: .session)
  }

  /// What makes and ends it within one commit.
  static func writes(_ id: DocumentID) -> [Marker.Write] {
    let address = DocumentAddress(kind: kind, scope: .session)
    let record = DocumentRecord(id: id, address: address, createdAt: 0)
    return [.createDocument(record, ordinal: 0), .retireDocument(id)]
  }
}
