package import PerdureModel
package import PerdureValue

extension Engine {
  /// Begins to replace the older part of what a model is shown of a conversation by a summary;
  /// returns its task when that is on disk.
  package func compact(
    _ id: ConversationID,
    instructions: JSONString? = nil
  ) async throws -> TaskID {
    try scheduler.enable()
    try await features.conversation(id)
    return try await session.commit(conversation: id) { tx in
      try await tx.createCompaction(.manual, in: id, instructions: instructions)
    }
  }
}
