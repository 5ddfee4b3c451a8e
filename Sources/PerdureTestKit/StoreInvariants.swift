import PerdureEngine
public import PerdureModel
import PerdureValue

/// What must hold of every store between two commits, whatever was killed when.
public struct StoreInvariants {
  private let reads: any StorageReads
  private var violations: [String] = []

  private init(_ reads: any StorageReads) { self.reads = reads }

  /// Returns a sentence for each invariant that the store breaks.
  public static func violations(of reads: any StorageReads) async throws -> [String] {
    var check = StoreInvariants(reads)
    try await check.run()
    return check.violations
  }

  private mutating func run() async throws {
    let conversations = try await Page.all { try await reads.scanConversations(.init(), $0) }
    let tasks = try await Page.all { try await reads.scanTasks(.init(), $0) }
    let submissions = try await Page.all { try await reads.scanSubmissions(.init(), $0) }
    try await checkOwners(tasks)
    checkHomes(conversations, tasks, submissions)
    for conversation in conversations {
      if try await isDeleted(conversation, tasks, submissions) { continue }
      let own = submissions.filter { $0.conversationId == conversation.id }
      let entries = try await Page.all(order: .ascending) {
        try await reads.scanEntries(EntryQuery(conversationId: conversation.id), $0)
      }
      try await checkParent(conversation)
      try await checkOwner(conversation)
      try await checkLive(conversation, tasks, own)
      try await checkUsage(conversation, entries)
      try await checkAddresses(conversation)
      checkTranscript(conversation, entries)
    }
  }

  private func document(_ kind: JSONString, _ conversation: ConversationID) async throws -> JSON? {
    let address = DocumentAddress(kind: kind, scope: .conversation(conversation))
    guard let record = try await reads.findDocument(address, at: nil) else { return nil }
    return try await reads.document(record.id, at: nil)?.value
  }

  private mutating func require(_ claim: Bool, _ sentence: @autoclosure () -> String) {
    if !claim { violations.append(sentence()) }
  }

  private mutating func checkOwners(_ tasks: [TaskRecord]) async throws {
    let byId = Dictionary(tasks.map { ($0.id, $0) }, uniquingKeysWith: { first, _ in first })
    for task in tasks where task.isLive {
      guard let owner = task.owner else { continue }
      require(
        byId[owner]?.isLive == true,
        "live task \(task.id) has the ended owner \(owner)"
      )
    }
    for task in tasks {
      if case .waiting(_, let on, _) = task.state {
        require(on.allSatisfy { byId[$0] != nil }, "task \(task.id) waits for a missing task")
      }
    }
  }

  private mutating func checkHomes(
    _ conversations: [ConversationRecord],
    _ tasks: [TaskRecord],
    _ submissions: [SubmissionRecord]
  ) {
    let known = Set(conversations.map { $0.id })
    let taskIds = Set(tasks.map { $0.id })
    for task in tasks {
      require(known.contains(task.conversationId), "task \(task.id) has no conversation")
      require(
        task.owner.map { taskIds.contains($0) } ?? true,
        "the owner of task \(task.id) is missing"
      )
    }
    for submission in submissions {
      require(
        known.contains(submission.conversationId),
        "submission \(submission.id) has no conversation"
      )
    }
  }

  /// Whether only the rest of a conversation is there, which must not hold more than it may.
  private mutating func isDeleted(
    _ conversation: ConversationRecord,
    _ tasks: [TaskRecord],
    _ submissions: [SubmissionRecord]
  ) async throws -> Bool {
    let id = conversation.id
    let mark = ConversationMark(
      try await reads.extra(scope: ConversationMark.scope, id: id.value)
    )
    guard case .deleted = mark else { return false }
    let entries = try await Page.all {
      try await reads.scanEntries(EntryQuery(conversationId: id), $0)
    }
    require(
      !entries.contains { $0.conversationId == id },
      "the deleted conversation \(id) has entries"
    )
    require(
      !tasks.contains { $0.conversationId == id },
      "the deleted conversation \(id) has tasks"
    )
    require(
      submissions.allSatisfy {
        $0.conversationId != id || ($0.isSettled && $0.requestId != nil)
      },
      "the deleted conversation \(id) has submissions that nobody can repeat"
    )
    return true
  }

  private mutating func checkParent(_ conversation: ConversationRecord) async throws {
    guard let parent = conversation.parent else { return }
    guard try await reads.conversation(parent.conversationId) != nil else {
      return require(false, "conversation \(conversation.id) is a fork of none")
    }
    let entry = try await reads.entry(parent.at, visibleIn: parent.conversationId)
    require(
      entry != nil && parent.conversationId < conversation.id,
      "conversation \(conversation.id) is forked at an entry that its parent does not see"
    )
  }

  private mutating func checkOwner(_ conversation: ConversationRecord) async throws {
    guard let owner = conversation.owner else { return }
    let task = try await reads.task(owner.taskId)
    require(
      task?.conversationId == owner.conversationId,
      "conversation \(conversation.id) is owned by a task that its owner does not hold"
    )
  }

  private mutating func checkLive(
    _ conversation: ConversationRecord,
    _ tasks: [TaskRecord],
    _ submissions: [SubmissionRecord]
  ) async throws {
    let live = try await document("pi.live", conversation.id)
    let run = live?["run"]
    let runTask = TaskID(run?["taskId"])
    if run != nil {
      require(
        tasks.contains { $0.id == runTask && $0.isLive },
        "conversation \(conversation.id) has a run without a live task"
      )
    } else {
      require(
        !tasks.contains {
          $0.conversationId == conversation.id && $0.isLive && $0.kind == "pi.generation"
        },
        "conversation \(conversation.id) has a live generation without a run"
      )
    }
    let inputs = (run?["inputs"]?.array ?? []).compactMap { SubmissionID($0) }
    let placed = submissions.filter { $0.kind == .input && $0.status == .placed }.map(\.id)
    require(
      inputs.sorted() == placed.sorted(),
      "conversation \(conversation.id): placed inputs \(placed) are not the run's \(inputs)"
    )
    let inbox = try await document("pi.inbox", conversation.id)?["items"]?.array ?? []
    let queued = submissions.filter { $0.status == .queued }.map(\.id)
    require(
      inbox.compactMap { SubmissionID($0["id"]) }.sorted() == queued.sorted(),
      "conversation \(conversation.id): the inbox and the queued submissions differ"
    )
    for slot in live?["tools"]?.array ?? [] {
      guard let id = TaskID(slot["taskId"]) else { continue }
      require(tasks.contains { $0.id == id }, "a slot names the missing task \(id)")
    }
  }

  private mutating func checkUsage(
    _ conversation: ConversationRecord,
    _ entries: [EntryRecord]
  ) async throws {
    var models: [JSONString: Usage] = [:]
    var tools: [JSONString: Usage] = [:]
    for entry in entries where entry.conversationId == conversation.id {
      for message in entry.model ?? [] {
        guard let usage = message["usage"] else { continue }
        if entry.kind == "pi.assistant" {
          let name = "\(message["provider"]?.text ?? "")/\(message["model"]?.text ?? "")"
          models[JSONString(name), default: Usage()].add(Usage(json: usage))
        } else if entry.kind == "pi.tool-result", let name = message["toolName"]?.string {
          tools[name, default: Usage()].add(Usage(json: usage))
        }
      }
    }
    let document = try await document("pi.usage", conversation.id)
    for (bucket, expected) in [("models", models), ("tools", tools)] {
      let stored = document?[JSONString(bucket)]?.object ?? [:]
      require(
        stored.count == expected.count
          && expected.allSatisfy { key, usage in stored[key].map { Usage(json: $0) } == usage },
        "conversation \(conversation.id): usage of \(bucket) is not the sum of its entries"
      )
    }
  }

  private mutating func checkAddresses(_ conversation: ConversationRecord) async throws {
    let records = try await Page.all {
      try await reads.scanDocuments(
        DocumentQuery(scope: .conversation(conversation.id)),
        $0
      )
    }
    let addresses = records.map(\.address)
    require(
      Set(addresses).count == addresses.count,
      "conversation \(conversation.id) has two live documents at one address"
    )
  }

  private mutating func checkTranscript(
    _ conversation: ConversationRecord,
    _ entries: [EntryRecord]
  ) {
    require(
      zip(entries, entries.dropFirst()).allSatisfy { $0.id < $1.id },
      "conversation \(conversation.id): entry ids do not ascend"
    )
    var open: [JSONString: Int] = [:]
    for message in ContextView(of: entries).messages {
      switch message["role"]?.text {
      case "assistant":
        require(
          open.values.allSatisfy { $0 == 1 },
          "conversation \(conversation.id): a call has no single result in the context"
        )
        open = [:]
        for item in message["content"]?.array ?? [] where item["type"] == "toolCall" {
          if let id = item["id"]?.string { open[id] = 0 }
        }
      case "toolResult":
        if let id = message["toolCallId"]?.string { open[id, default: 0] += 1 }
      default: break
      }
    }
    var stored: [JSONString: Int] = [:]
    for entry in entries {
      if entry.kind == "pi.assistant" { stored = [:] }
      guard entry.kind == "pi.tool-result", let id = entry.model?.first?["toolCallId"]?.string
      else { continue }
      stored[id, default: 0] += 1
      require(
        stored[id] == 1,
        "conversation \(conversation.id): call \(id.string) has two results"
      )
    }
  }
}
