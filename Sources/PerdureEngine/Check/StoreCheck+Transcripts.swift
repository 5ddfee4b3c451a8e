import PerdureModel
import PerdureValue

extension StoreCheck {
  /// Own entries follow those that are inherited, no call of an answer has two results, and
  /// `pi.usage` is the sum of what entries report.
  mutating func checkTranscript(of conversation: ConversationRecord, _ object: String) async throws
  {
    let id = conversation.id
    if let parent = conversation.parent {
      // Own entries come first in this order, so one that is too old is the first.
      let page = try await reads.scanEntries(
        EntryQuery(conversationId: id, maxEntry: parent.at),
        PageRequest(limit: 1, order: .descending)
      )
      if let entry = page.items.first, entry.conversationId == id {
        find("entry_order", "entry \(entry.id)", "it is older than the fork of \(object)")
      }
    }
    var results: Set<JSONString> = []
    var last: EntryID?
    var sums = UsageSums()
    try await forEach {
      try await $0.reads.scanEntries(Self.ownEntries(of: conversation), $1)
    } body: { check, entry in
      if let last, entry.id <= last {
        check.find("entry_order", "entry \(entry.id)", "it comes behind the entry \(last)")
      }
      last = entry.id
      sums.add(entry)
      if entry.kind == "pi.assistant" { results = [] }
      guard entry.kind == "pi.tool-result", let call = entry.model?.first?["toolCallId"]?.string
      else { return }
      check.require(
        results.insert(call).inserted,
        "result_twice",
        "entry \(entry.id)",
        "it is a second result of the call \(call.literal)"
      )
    }
    try await checkUsage(of: id, sums, object)
  }

  private static func ownEntries(of conversation: ConversationRecord) -> EntryQuery {
    let first = conversation.parent.flatMap { EntryID($0.at.value + 1) }
    return EntryQuery(conversationId: conversation.id, minEntry: first)
  }

  // MARK: Usage

  /// `pi.usage` counts what entries report, and attempts that left none.
  private func checkUsage(
    of id: ConversationID,
    _ sums: UsageSums,
    _ object: String
  ) async throws {
    guard let stored = try await document("pi.usage", id) else {
      // A conversation that another program made without built-in documents counts nothing.
      return
    }
    // A summary that did not come about was paid for, and left no entry.
    let compactions = try await reads.scanTasks(
      TaskQuery(conversationId: id, kind: "pi.compaction"),
      PageRequest(limit: 1)
    )
    let hasAttempts = !compactions.items.isEmpty
    compare("models", stored["models"], sums.models, object, mayExceed: hasAttempts)
    // Calls that tools made leave no entry.
    let hasNestedCalls = try await hasNestedCalls(id)
    compare("tools", stored["tools"], sums.tools, object, mayExceed: hasNestedCalls)
  }

  private func compare(
    _ bucket: String,
    _ stored: JSON?,
    _ sums: [JSONString: Usage],
    _ object: String,
    mayExceed: Bool
  ) {
    let stored = stored?.object ?? [:]
    for (name, sum) in sums.sorted(by: { $0.key.literal < $1.key.literal }) {
      let found = stored[name].map { Usage(json: $0) } ?? Usage()
      guard !found.equals(sum), !(mayExceed && found.covers(sum)) else { continue }
      find(
        "usage",
        object,
        "the usage of \(bucket) \(name.literal) is \(found.totalTokens) tokens "
          + "(\(found.cost.total)), and its entries report \(sum.totalTokens) (\(sum.cost.total))"
      )
    }
    for name in stored.keys where sums[name] == nil && !mayExceed {
      find(
        "usage",
        object,
        "the usage of \(bucket) \(name.literal) is counted, and no entry has it"
      )
    }
  }

  // MARK: Context

  /// What a request would be made of: each call with one result, one prompt after each marker.
  mutating func checkContext(of id: ConversationID, _ object: String) async throws {
    let head = try await reads.latestHeadMarker(id, atOrBefore: nil)
    var edits: [EntryID: ContextEdit] = [:]
    let query = EntryQuery(conversationId: id, minEntry: head?.head)
    try await forEach {
      try await $0.reads.scanEntries(query, $1)
    } body: { _, entry in
      for edit in entry.edits ?? [] { edits[edit.target] = edit }
    }
    var check = ContextCheck(head: head, edits: edits)
    if let head { report(check.add(head), object) }
    try await forEach {
      try await $0.reads.scanEntries(query, $1)
    } body: {
      if $1.head == nil { $0.report(check.add($1), object) }
    }
    report(check.end(), object)
  }

  private func report(_ findings: [(code: String, message: String)], _ object: String) {
    for (code, message) in findings { find(code, object, message) }
  }
}

/// What entries report of what they cost.
private struct UsageSums {
  var models: [JSONString: Usage] = [:]
  var tools: [JSONString: Usage] = [:]

  mutating func add(_ entry: EntryRecord) {
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
}

/// Derives a context piece by piece: what precedes an answer no longer changes once it is there.
private struct ContextCheck {
  private let head: EntryRecord?
  private let edits: [EntryID: ContextEdit]
  /// The newest answer and the results since.
  private var open: [EntryRecord] = []
  /// What the prompts behind the marker say together, and where they stand.
  private var prompt = PromptState()
  private var prompts: Set<EntryID> = []

  init(head: EntryRecord?, edits: [EntryID: ContextEdit]) {
    self.head = head
    self.edits = edits
  }

  mutating func add(_ entry: EntryRecord) -> [(code: String, message: String)] {
    // Only answers and results decide which result goes behind which call.
    let counts = (edited(entry).model ?? []).contains { message in
      let role = MessageRole(message)
      return role == .assistant || role == .toolResult
    }
    defer { if counts { open.append(edited(entry)) } }
    return (checkPrompt(entry) ? [] : [Self.secondPrompt(entry)])
      + (isAnswer(entry) ? end() : [])
  }

  private static func secondPrompt(_ entry: EntryRecord) -> (code: String, message: String) {
    ("baseline", "the entry \(entry.id) is a second whole prompt behind one head marker")
  }

  /// Whether a system entry changes the prompt before it and does not restate it.
  private mutating func checkPrompt(_ entry: EntryRecord) -> Bool {
    guard entry.kind == "pi.system", head.map({ entry.id > $0.id }) ?? true else { return true }
    let omits = (entry.edits ?? []).contains { prompts.contains($0.target) }
    var restates = false
    for message in edited(entry).model ?? [] where MessageRole(message) == .system {
      let added = message["toolsAdded"]?.array ?? []
      let offers = !added.isEmpty && added.allSatisfy { prompt.tools.contains($0) }
      restates = restates || (offers && message["toolsRemoved"] == nil)
      prompt.apply(message)
    }
    defer { prompts.insert(entry.id) }
    return !omits && !restates
  }

  private func isAnswer(_ entry: EntryRecord) -> Bool {
    (edited(entry).model ?? []).contains { MessageRole($0) == .assistant }
  }

  private func edited(_ entry: EntryRecord) -> EntryRecord {
    var entry = entry
    switch edits[entry.id] {
    case .omit: entry.model = nil
    case .replace(_, let messages): entry.model = messages
    case nil: break
    }
    entry.edits = nil
    entry.head = nil
    return entry
  }

  mutating func end() -> [(code: String, message: String)] {
    var findings: [(code: String, message: String)] = []
    let context = ContextView(of: open)
    var results: [JSONString: Int] = [:]
    for message in context.messages {
      switch MessageRole(message) {
      case .assistant:
        for item in message["content"]?.array ?? [] where item["type"] == "toolCall" {
          if let id = item["id"]?.string { results[id] = 0 }
        }
      case .toolResult:
        if let id = message["toolCallId"]?.string { results[id, default: -1] += 1 }
      default: break
      }
    }
    for (call, count) in results.sorted(by: { $0.key.literal < $1.key.literal })
    where count != 1 {
      findings.append(
        ("call_result", "the call \(call.literal) has \(max(count, 0)) results in a request")
      )
    }
    open = []
    return findings
  }
}

extension Usage {
  /// Whether both count the same, money to within what sums in another order may differ by.
  fileprivate func equals(_ other: Usage) -> Bool { covers(other) && other.covers(self) }

  /// Whether everything that `other` counts is in this.
  fileprivate func covers(_ other: Usage) -> Bool {
    func holds(_ left: Double, _ right: Double) -> Bool {
      left >= right - max(abs(left), abs(right)) * 1e-9
    }
    return input >= other.input && output >= other.output && cacheRead >= other.cacheRead
      && cacheWrite >= other.cacheWrite && totalTokens >= other.totalTokens
      && (cacheWrite1h ?? 0) >= (other.cacheWrite1h ?? 0)
      && (reasoning ?? 0) >= (other.reasoning ?? 0)
      && holds(cost.input, other.cost.input) && holds(cost.output, other.cost.output)
      && holds(cost.cacheRead, other.cost.cacheRead)
      && holds(cost.cacheWrite, other.cost.cacheWrite) && holds(cost.total, other.cost.total)
  }
}
