import PerdureModel
import PerdureValue

extension SQLiteStore {
  func findDocument(_ address: DocumentAddress, at sequence: Int64?) throws -> DocumentRecord? {
    var filter = Filter()
    filter.add(address: address)
    filter.add(aliveAt: sequence)
    return try connection.first(
      "SELECT record, id FROM documents WHERE \(filter.text) ORDER BY id DESC LIMIT 1",
      filter.values
    ) { try record($0) }
  }

  func document(_ id: DocumentID, at sequence: Int64?) throws -> StoredDocument? {
    guard let record = try documentRecord(id) else { return nil }
    try record.requireHistory(at: sequence)
    guard record.isAlive(at: sequence) else { return nil }
    let revisions = try revisions(of: id, at: sequence)
    do {
      return try StoredDocument(record: record, replaying: revisions)
    } catch {
      throw damaged("document \(id)", error, details: ["type": "document", "id": id.json])
    }
  }

  func documentRecord(_ id: DocumentID) throws -> DocumentRecord? {
    try connection.first("SELECT record, id FROM documents WHERE id = ?", [.int(id.value)]) {
      try record($0)
    }
  }

  /// The version of the newest revision, or `nil` if none is kept.
  func newestVersion(of id: DocumentID) throws -> Int64? {
    try connection.first(
      "SELECT version FROM document_revisions WHERE document_id = ? ORDER BY seq DESC LIMIT 1",
      [.int(id.value)]
    ) { $0.int(0) }
  }

  /// The newest base until `sequence` and all behind it.
  private func revisions(of id: DocumentID, at sequence: Int64?) throws -> [Revision] {
    let upper = SQLValue.int(sequence ?? Int64.max)
    let base = try connection.first(
      """
      SELECT seq FROM document_revisions WHERE document_id = ? AND seq <= ? AND kind = 'base'
      ORDER BY seq DESC LIMIT 1
      """,
      [.int(id.value), upper]
    ) { $0.int(0) }
    guard let base else { return [] }
    return try connection.rows(
      """
      SELECT seq, kind, version, content FROM document_revisions
      WHERE document_id = ? AND seq >= ? AND seq <= ? ORDER BY seq
      """,
      [.int(id.value), .int(base), upper]
    ) { row in
      let version = row.int(2)
      let value = try json(row.bytes(3), "revision \(row.int(0)) of document \(id)")
      guard row.string(1) == "delta" else {
        return Revision(sequence: row.int(0), content: .base(version: version, value: value))
      }
      do {
        let operations = try Operation.batch(json: value)
        return Revision(
          sequence: row.int(0),
          content: .delta(version: version, operations: operations)
        )
      } catch {
        throw damaged(
          "revision \(row.int(0)) of document \(id)",
          PerdureError(.storeCorrupt, "an operation cannot be read", cause: "\(error)")
        )
      }
    }
  }

  // MARK: Facts

  func facts(_ needs: BatchNeeds) throws -> BatchFacts {
    var facts = BatchFacts()
    for id in needs.ids { facts.types[id] = try recordType(id) }
    for id in needs.documents { facts.documents[id] = try head(of: id) }
    for address in needs.addresses {
      facts.current[address] = try findDocument(address, at: nil)?.id
    }
    for source in needs.sources { facts.sources[source] = try self.source(source) }
    return facts
  }

  func recordType(_ id: Int64) throws -> RecordType? {
    let name = try connection.first(
      "SELECT record_type FROM record_ids WHERE id = ?",
      [.int(id)]
    ) { $0.string(0) }
    guard let name else { return nil }
    guard let type = RecordType(rawValue: name) else {
      throw corrupt("holds a record of the unknown type '\(name)'")
    }
    return type
  }

  func head(of id: DocumentID) throws -> DocumentHead? {
    guard let record = try documentRecord(id) else { return nil }
    return DocumentHead(record: record, version: try newestVersion(of: id))
  }

  /// The source of a copy, or `nil` if the request for it is wrong.
  func source(_ source: CopySource) throws -> StoredDocument? {
    do {
      return try document(source.id, at: source.at)
    } catch let error as PerdureError where error.code == .invalidRequest {
      return nil
    }
  }
}
