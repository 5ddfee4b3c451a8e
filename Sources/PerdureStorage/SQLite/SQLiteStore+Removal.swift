import PerdureModel

extension SQLiteStore {
  /// Deletes the rows of a record.
  func delete(_ reference: RecordReference) throws {
    let id = [SQLValue.int(reference.id)]
    let table =
      switch reference.type {
      case .conversation: "conversations"
      case .entry: "entries"
      case .task: "tasks"
      case .submission: "submissions"
      case .document: "documents"
      }
    try connection.run("DELETE FROM \(table) WHERE id = ?", id)
    try connection.run("DELETE FROM record_ids WHERE id = ?", id)
    if reference.type == .document {
      try connection.run("DELETE FROM document_revisions WHERE document_id = ?", id)
    }
  }

  /// Gives the pages of what was deleted back to the file system.
  func compact() throws {
    guard !connection.hasMoved else { throw SQLiteFailure.moved(path: connection.path) }
    let free = try connection.first("PRAGMA freelist_count") { $0.int(0) } ?? 0
    if free > 0 {
      // It writes the whole database as one transaction, so a crash leaves the old one or the new.
      try connection.execute("VACUUM")
    }
    // A reader of the log keeps its length as it is; a later checkpoint ends that.
    try? connection.checkpoint(truncating: true)
  }
}
