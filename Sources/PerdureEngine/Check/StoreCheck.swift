package import PerdureModel
import PerdureValue

/// Checks what must hold of every store between two commits, whatever was killed when.
///
/// It reads in pages: memory grows with what one conversation has queued and with its models and
/// tools, not with the store.
package struct StoreCheck {
  let reads: any StorageReads
  private let report: FindingSink

  /// How many records were visited.
  package private(set) var conversationCount = 0
  package private(set) var taskCount = 0

  private init(_ reads: any StorageReads, _ report: @escaping FindingSink) {
    self.reads = reads
    self.report = report
  }

  /// Reports each invariant that the store breaks; returns how many records were visited.
  package static func run(
    _ reads: any StorageReads,
    report: @escaping FindingSink
  ) async throws -> (conversations: Int, tasks: Int) {
    var check = StoreCheck(reads, report)
    try await check.checkTasks()
    try await check.checkAddresses(.session, "the session")
    try await check.forEach {
      try await $0.reads.scanConversations(.init(), $1)
    } body: {
      $0.conversationCount += 1
      try await $0.check($1)
    }
    return (check.conversationCount, check.taskCount)
  }

  // MARK: Reading on behind damage

  /// Visits all items of a scan.
  mutating func forEach<Item>(
    _ read: (StoreCheck, PageRequest) async throws -> Page<Item>,
    order: ScanOrder = .ascending,
    body: (inout StoreCheck, Item) async throws -> Void
  ) async throws {
    var cursor: Cursor?
    repeat {
      let request = PageRequest(limit: 256, cursor: cursor, order: order)
      let page = try await read(self, request)
      for item in page.items { try await body(&self, item) }
      cursor = page.next
    } while cursor != nil
  }

  /// Goes on with the next part after one that cannot be read.
  mutating func attempt(
    _ object: String,
    _ body: (inout StoreCheck) async throws -> Void
  ) async throws {
    do {
      try await body(&self)
    } catch let error as PerdureError
      where error.code == .storeCorrupt || error.code == .invalidRequest
    {
      find("unreadable", object, "not all of it can be read (\(error.cause ?? error.message))")
    }
  }

  func find(_ code: String, _ object: String, _ message: @autoclosure () -> String) {
    report(StoreFinding(code, object, message()))
  }

  func require(
    _ claim: Bool,
    _ code: String,
    _ object: String,
    _ message: @autoclosure () -> String
  ) {
    if !claim { find(code, object, message()) }
  }

  func document(_ kind: JSONString, _ conversation: ConversationID) async throws -> JSON? {
    let address = DocumentAddress(kind: kind, scope: .conversation(conversation))
    guard let record = try await reads.findDocument(address, at: nil) else { return nil }
    return try await reads.document(record.id, at: nil)?.value
  }

  // MARK: Tasks

  private mutating func checkTasks() async throws {
    try await attempt("the tasks") { check in
      try await check.forEach {
        try await $0.reads.scanTasks(TaskQuery(), $1)
      } body: {
        $0.taskCount += 1
        try await $0.check($1)
      }
    }
  }

  private mutating func check(_ task: TaskRecord) async throws {
    let object = "task \(task.id)"
    try await checkHome(task.conversationId, object)
    if task.isLive, let id = task.owner {
      let owner = try await reads.task(id)
      require(
        owner?.isLive == true,
        "ended_owner",
        object,
        "it lives, and its owner \(id) does not"
      )
      require(
        owner == nil || owner?.conversationId == task.conversationId,
        "owner",
        object,
        "its owner \(id) belongs to another conversation"
      )
    }
    if case .waiting(_, let others, _) = task.state {
      for id in others {
        require(
          try await reads.task(id) != nil,
          "missing_task",
          object,
          "it waits for the task \(id), which is not there"
        )
      }
    }
    try await checkAddresses(.task(task.id), object)
  }

  // MARK: Documents

  /// No two live documents may have one address.
  mutating func checkAddresses(_ scope: DocumentScope, _ object: String) async throws {
    try await attempt(object) { check in
      var seen: [DocumentAddress: DocumentID] = [:]
      try await check.forEach {
        try await $0.reads.scanDocuments(DocumentQuery(scope: scope), $1)
      } body: { check, record in
        guard let other = seen.updateValue(record.id, forKey: record.address) else { return }
        let key = record.address.key.map { " and the key \($0.literal)" } ?? ""
        check.find(
          "address",
          "document \(record.id)",
          "it lives at the address of the document \(other) "
            + "(\(object), the kind \(record.address.kind.literal)\(key))"
        )
      }
    }
  }

  // MARK: Conversations

  private func checkHome(_ id: ConversationID, _ object: String) async throws {
    require(
      try await reads.conversation(id) != nil,
      "missing_conversation",
      object,
      "its conversation \(id) is not there"
    )
  }

  private mutating func check(_ conversation: ConversationRecord) async throws {
    let object = "conversation \(conversation.id)"
    let fact = try await reads.extra(scope: ConversationMark.scope, id: conversation.id.value)
    if case .deleted = ConversationMark(fact) {
      return try await attempt(object) { try await $0.checkRest(of: conversation.id, object) }
    }
    try await attempt(object) { try await $0.checkEdges(of: conversation, object) }
    try await attempt(object) { try await $0.checkRun(of: conversation.id, object) }
    try await attempt(object) { try await $0.checkQueue(of: conversation.id, object) }
    try await attempt(object) { try await $0.checkTranscript(of: conversation, object) }
    try await attempt(object) { try await $0.checkContext(of: conversation.id, object) }
    try await checkAddresses(.conversation(conversation.id), object)
  }

  /// Of a deleted conversation only what recognises repeated submissions may be left.
  private mutating func checkRest(of id: ConversationID, _ object: String) async throws {
    let entries = try await reads.scanEntries(
      EntryQuery(conversationId: id),
      PageRequest(limit: 1, order: .descending)
    )
    if let entry = entries.items.first, entry.conversationId == id {
      find("deleted", object, "it was deleted, and has the entry \(entry.id)")
    }
    let tasks = try await reads.scanTasks(TaskQuery(conversationId: id), PageRequest(limit: 1))
    if let task = tasks.items.first {
      find("deleted", object, "it was deleted, and has the task \(task.id)")
    }
    try await forEach {
      try await $0.reads.scanSubmissions(SubmissionQuery(conversationId: id), $1)
    } body: { check, submission in
      check.require(
        submission.isSettled && submission.requestId != nil,
        "deleted",
        "submission \(submission.id)",
        "its conversation \(id) was deleted, and nobody can repeat it"
      )
    }
  }

  private func checkEdges(of conversation: ConversationRecord, _ object: String) async throws {
    if let owner = conversation.owner {
      let task = try await reads.task(owner.taskId)
      require(
        task?.conversationId == owner.conversationId,
        "owner",
        object,
        "its owner, the task \(owner.taskId), is not in the conversation \(owner.conversationId)"
      )
    }
    guard let parent = conversation.parent else { return }
    guard try await reads.conversation(parent.conversationId) != nil else {
      return find(
        "parent",
        object,
        "it is a fork of the conversation \(parent.conversationId), which is not there"
      )
    }
    require(
      try await reads.entry(parent.at, visibleIn: parent.conversationId) != nil,
      "parent",
      object,
      "it is a fork at the entry \(parent.at), which its parent does not see"
    )
    require(
      parent.conversationId < conversation.id,
      "parent",
      object,
      "it is older than its parent, the conversation \(parent.conversationId)"
    )
  }
}
