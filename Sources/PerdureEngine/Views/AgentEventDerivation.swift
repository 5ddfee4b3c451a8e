import PerdureModel
import PerdureValue

/// Finds the events of one commit, in their order.
struct AgentEventDerivation {
  private let news: CommitNews
  private let was: LiveView
  private let now: LiveView
  private(set) var decided: Set<TaskID>
  private var events: [AgentEvent] = []

  init(_ news: CommitNews, from was: JSON, to now: JSON, decided: Set<TaskID>) {
    self.news = news
    self.was = LiveView(was)
    self.now = LiveView(now)
    self.decided = decided
  }

  /// Returns the events that lead from one state to the next, whose entries are not looked at.
  mutating func events(from state: AgentState, to next: AgentState) -> [AgentEvent] {
    startCalls()
    followMessage()
    followCalls()
    followRequest()
    endNestedCalls()
    appendEntries(calls: callEnds())
    endWork()
    for record in news.submissions { events.append(.submission(record)) }
    if next.inbox != state.inbox { events.append(.inboxUpdate(next.inbox)) }
    if next.agent != state.agent { events.append(.agentChanged(next.agent)) }
    if next.usage != state.usage { events.append(.usageChanged(next.usage)) }
    startWork()
    return events
  }

  // MARK: Progress

  private mutating func startCalls() {
    for slot in now.tools.slots + now.nested.slots {
      guard slot.status == .running, was.slot(slot)?.status != .running else { continue }
      // A nested slot has the arguments itself; those of other calls stand in the intent.
      let arguments =
        slot.call.parent != nil
        ? slot.json["arguments"] : news.task(slot.call.task)?.state.checkpoint?["arguments"]
      events.append(.toolExecutionStart(slot.call, arguments: arguments ?? [:]))
    }
  }

  private mutating func followMessage() {
    guard let message = now.message else { return }
    guard let before = was.message else { return events.append(.messageStart(message)) }
    guard message != before else { return }
    let changes = MessageChange.changes(
      by: news.liveOperations,
      from: before,
      to: message
    )
    events.append(.messageUpdate(usage: message["usage"] ?? [:], changes: changes))
  }

  private mutating func followCalls() {
    for list in [now.tools, now.nested] {
      for (index, slot) in list.slots.enumerated() {
        guard slot.status == .running, let before = was.slot(slot), before.status == .running
        else { continue }
        let path: [PathSegment] = [.key(list.key), .index(list.positions[index])]
        let update = ToolUpdate(
          from: before.json,
          to: slot.json,
          by: news.liveOperations?.filter { $0.touches(path + ["output"]) }
        )
        if !update.isEmpty { events.append(.toolExecutionUpdate(slot.call, update)) }
      }
    }
  }

  private mutating func followRequest() {
    let (before, after) = (was.generation, now.generation)
    if let retry = after?["retry"], before?["retry"] == nil {
      events.append(
        .autoRetryStart(
          attempt: after?["attempt"]?.int ?? 1,
          at: retry["at"]?.int ?? 0,
          error: retry["error"]?.string ?? ""
        )
      )
    }
    if before?["retry"] != nil, after?["retry"] == nil {
      events.append(.autoRetryEnd(attempt: before?["attempt"]?.int ?? 1))
    }
    if let poll = after?["deferred"]?["pollAt"]?.int, poll != before?["deferred"]?["pollAt"]?.int {
      events.append(.deferredPoll(at: poll))
    }
  }

  // MARK: Ends of calls and entries

  /// The slots that end: those that become done, those created done, and unfinished ones that
  /// vanish because their run ended.
  private static func ended(_ was: SlotList, _ now: SlotList) -> [ToolSlot] {
    let old = was.slots.filter { $0.status != .done }.compactMap { slot -> ToolSlot? in
      guard let current = now.slot(slot) else { return slot }
      return current.status == .done ? current : nil
    }
    return old + now.slots.filter { $0.status == .done && was.slot($0) == nil }
  }

  private mutating func endNestedCalls() {
    // Parents come first in both, so children end before the calls that made them.
    let ended = Self.ended(was.nested, now.nested)
    let order = Set(was.nested.slots.map { $0.call.task })
    let (known, new) = (
      ended.filter { order.contains($0.call.task) }, ended.filter { !order.contains($0.call.task) }
    )
    for slot in known.reversed() + new.reversed() {
      events.append(
        .toolExecutionEnd(
          slot.call,
          entry: nil,
          result: slot.call.task.flatMap { news.nestedResults[$0] },
          summary: slot.json["summary"]
        )
      )
    }
  }

  /// The calls of the model that end, each with the entry of its result if this commit has it.
  private func callEnds() -> [(call: ToolEventCall, entry: EntryRecord?)] {
    Self.ended(was.tools, now.tools).map { slot in
      let entry =
        slot.status == .done
        ? news.entries.first { $0.id == slot.entry }
        : news.entries.first { entry in
          let message = entry.model?.first
          return message?["role"] == "toolResult"
            && message?["toolCallId"]?.string == slot.call.callId
        }
      return (slot.call, entry)
    }
  }

  private mutating func appendEntries(calls: [(call: ToolEventCall, entry: EntryRecord?)]) {
    // The answer that was arriving is over if nothing of it is left.
    var hasOpenAnswer = was.message != nil && now.message == nil
    for entry in news.entries {
      for end in calls where end.entry?.id == entry.id { this(end.call, ended: entry) }
      guard let message = entry.model?.first else {
        events.append(.entryAppended(entry))
        continue
      }
      let endsAnswer = hasOpenAnswer && message["role"] == "assistant"
      if endsAnswer { hasOpenAnswer = false } else { events.append(.messageStart(message)) }
      events.append(.messageEnd(entry))
    }
    for end in calls where end.entry == nil { this(end.call, ended: nil) }
  }

  private mutating func this(_ call: ToolEventCall, ended entry: EntryRecord?) {
    events.append(.toolExecutionEnd(call, entry: entry, result: nil, summary: nil))
  }

  // MARK: Ends and beginnings of work

  private mutating func endWork() {
    for status in was.compactions where !now.compactions.contains(where: { $0.task == status.task })
    {
      let failure = now.failure.flatMap { TaskID($0["taskId"]) == status.task ? $0 : nil }
      events.append(
        .compactionEnd(status.task, reason: status.reason, error: failure?["error"]?.string)
      )
    }
    var hasTurnEnd = false
    for task in news.tasks {
      if endsTurn(task) { hasTurnEnd = true }
      guard case .terminal(let outcome) = task.state else { continue }
      switch outcome {
      case .faulted(let message, _), .orphaned(let message):
        events.append(.taskFailed(task.id, kind: task.kind, message: JSONString(message)))
      case .completed, .failed, .aborted: break
      }
    }
    if hasTurnEnd { events.append(.turnEnd) }
    if let inputs = was.inputs, inputs.first != now.inputs?.first || now.inputs == nil {
      events.append(.runEnd(inputs: inputs))
    }
  }

  /// Whether the outcome of a generation is decided by this commit.
  private mutating func endsTurn(_ task: TaskRecord) -> Bool {
    guard task.kind == GenerationTask.name else { return false }
    switch task.state {
    case .completing: return decided.insert(task.id).inserted
    case .terminal: return decided.remove(task.id) == nil
    case .pending, .running, .waiting, .sleeping: return false
    }
  }

  private mutating func startWork() {
    for status in now.compactions where !was.compactions.contains(where: { $0.task == status.task })
    {
      events.append(
        .compactionStart(status.task, reason: status.reason, blocking: status.blocking)
      )
    }
    if let inputs = now.inputs, inputs.first != was.inputs?.first || was.inputs == nil {
      events.append(.runStart(inputs: inputs))
    }
    if let owner = now.owner, owner != was.owner, news.task(owner)?.kind == GenerationTask.name {
      events.append(.turnStart)
    }
  }
}

/// The parts of `pi.live`.
struct LiveView {
  let inputs: [SubmissionID]?
  /// The task that settles the inputs.
  let owner: TaskID?
  let generation: JSON?
  let tools: SlotList
  let nested: SlotList
  let compactions: [CompactionStatus]
  let failure: JSON?

  init(_ document: JSON) {
    inputs = document["run"]?["inputs"]?.array.map { $0.compactMap { SubmissionID($0) } }
    owner = TaskID(document["run"]?["taskId"])
    generation = document["generation"]
    tools = SlotList("tools", of: document)
    nested = SlotList("nestedTools", of: document)
    compactions = (document["compactions"]?.array ?? []).compactMap { CompactionStatus(json: $0) }
    failure = document["compactionFailure"]
  }

  var message: JSON? { generation?["message"] }

  func slot(_ slot: ToolSlot) -> ToolSlot? { (slot.call.parent == nil ? tools : nested).slot(slot) }
}

/// The calls of one list of `pi.live`.
struct SlotList {
  let key: JSONString
  private(set) var slots: [ToolSlot] = []
  /// Where each of them stands in the document.
  private(set) var positions: [Int] = []

  init(_ key: JSONString, of document: JSON) {
    self.key = key
    for (position, item) in (document[key]?.array ?? []).enumerated() {
      guard let slot = ToolSlot(json: item) else { continue }
      slots.append(slot)
      positions.append(position)
    }
  }

  /// The slot of the same call.
  func slot(_ other: ToolSlot) -> ToolSlot? {
    slots.first { slot in
      other.call.parent == nil
        ? slot.call.callId == other.call.callId : slot.call.task == other.call.task
    }
  }
}
