import PerdureModel
import PerdureValue

extension Transaction {
  /// Withdraws the queued inputs of a conversation: they are settled unanswered and leave the inbox.
  ///
  /// Queued writes stay.
  func withdrawInputs(of conversation: ConversationID, reason: String) async throws {
    let items = try await value(.inbox, conversation)["items"]?.array ?? []
    let isInput = items.map { $0["mode"] != "write" }
    guard isInput.contains(true) else { return }
    for (item, isInput) in zip(items, isInput) where isInput {
      guard let id = SubmissionID(item["id"]) else { continue }
      try await settle(id) { record in
        .unanswered(reason: reason, detail: nil, entry: record.entry)
      }
    }
    try await edit(.inbox, conversation) { inbox in
      for position in isInput.indices.reversed() where isInput[position] {
        try inbox.splice(["items"], at: position, remove: 1, insert: [])
      }
    }
  }
}
