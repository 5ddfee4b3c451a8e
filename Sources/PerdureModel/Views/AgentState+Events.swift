import PerdureValue

extension AgentState {
  /// Follows one event of those that came after this state, in their order.
  ///
  /// Throws if the event does not fit; then the state is of no use any more, and a snapshot gives a
  /// new one.
  public mutating func apply(_ event: AgentEvent) throws(PerdureError) {
    do {
      try follow(event)
    } catch {
      throw PerdureError(
        .invalidInput,
        "the event '\(event.type)' does not fit the state that it is applied to",
        hint: "apply all events in order, and begin again with a snapshot",
        cause: "\(error)"
      )
    }
  }

  private mutating func follow(_ event: AgentEvent) throws(OperationError) {
    switch event {
    case .snapshot(let state): self = state
    case .runStart(let inputs): try set("run", ["inputs": .array(inputs.map { $0.json })])
    case .runEnd: try remove("run")
    case .turnStart: break
    case .turnEnd: try endTurn()
    case .messageStart(let message): try start(message)
    case .messageUpdate(let usage, let changes): try update(usage, changes)
    case .messageEnd(let entry): try end(entry)
    case .toolExecutionStart(let call, let arguments): try start(call, arguments)
    case .toolExecutionUpdate(let call, let update): try follow(update, of: call)
    case .toolExecutionEnd(let call, let entry, _, let summary): try end(call, entry, summary)
    case .inboxUpdate(let items): inbox = items
    case .submission(let record): try join(record)
    case .autoRetryStart(let attempt, let at, let error):
      let retry: JSON = ["at": .int(at), "error": .string(error)]
      try set("generation", ["attempt": .int(attempt), "retry": retry])
    case .autoRetryEnd(let attempt):
      try set("generation", ["attempt": .int(attempt < .max ? attempt + 1 : attempt)])
    case .deferredPoll(let at):
      try set("generation", ["attempt": .int(attempt ?? 1), "deferred": ["pollAt": .int(at)]])
    case .entryAppended(let entry): entries.advance(by: entry)
    case .agentChanged(let agent): self.agent = agent
    case .usageChanged(let usage): self.usage = usage
    case .taskFailed: break
    case .compactionStart(let task, let reason, let blocking): try start(task, reason, blocking)
    case .compactionEnd(let task, let reason, let error): try end(task, reason, error)
    case .liveUpdate(let operations):
      for operation in operations { try live.apply(operation) }
    }
  }

  private mutating func set(_ key: JSONString, _ value: JSON) throws(OperationError) {
    try live.apply(.set([.key(key)], value))
  }

  private mutating func remove(_ key: JSONString) throws(OperationError) {
    if live[key] != nil { try live.apply(.delete([.key(key)])) }
  }

  // MARK: Runs and answers

  private mutating func endTurn() throws(OperationError) {
    try remove("generation")
    try set("tools", [])
    try set("nestedTools", [])
  }

  /// An input that is placed while a run goes on belongs to it.
  private mutating func join(_ record: SubmissionRecord) throws(OperationError) {
    guard case .placed = record.state, record.kind == .input, let inputs = runInputs,
      !inputs.contains(record.id)
    else { return }
    try live.apply(.set(["run", "inputs", .index(inputs.count)], record.id.json))
  }

  private mutating func start(_ message: JSON) throws(OperationError) {
    if message["role"] == "assistant", let generation = live["generation"],
      generation["message"] == nil
    {
      try live.apply(.set(["generation", "message"], message))
    } else {
      expectsEnd = true
    }
  }

  private mutating func update(
    _ usage: JSON,
    _ changes: [MessageChange]
  ) throws(OperationError) {
    let path: [PathSegment] = ["generation", "message"]
    for change in changes { try live.apply(change.operation.under(path)) }
    // A message without usage is told with an empty one.
    if usage != [:] || live.value(at: path)?["usage"] != nil {
      try live.apply(.set(path + ["usage"], usage))
    }
  }

  private mutating func end(_ entry: EntryRecord) throws(OperationError) {
    entries.advance(by: entry)
    if expectsEnd {
      expectsEnd = false
      return
    }
    guard entry.model?.first?["role"] == "assistant", let generation = live["generation"],
      generation["message"] != nil
    else { return }
    if generation["retry"] == nil, generation["deferred"] == nil {
      try remove("generation")
    } else {
      try live.apply(.delete(["generation", "message"]))
    }
  }

  // MARK: Calls

  private func path(of call: ToolEventCall) -> [PathSegment]? {
    let key: JSONString = call.parent == nil ? "tools" : "nestedTools"
    let position = live[key]?.array?.firstIndex { call.fits($0) }
    return position.map { [.key(key), .index($0)] }
  }

  private mutating func start(
    _ call: ToolEventCall,
    _ arguments: JSON
  ) throws(OperationError) {
    guard let path = path(of: call) else { return }
    try live.apply(.set(path + ["status"], "running"))
    if let task = call.task { try live.apply(.set(path + ["taskId"], task.json)) }
    if call.parent != nil { try live.apply(.set(path + ["arguments"], arguments)) }
  }

  private mutating func follow(
    _ update: ToolUpdate,
    of call: ToolEventCall
  ) throws(OperationError) {
    guard let path = path(of: call) else { return }
    switch update.output {
    case .set(let text): try live.apply(.set(path + ["output"], .string(text)))
    case .moved(let trimStart, let text):
      let place = path + ["output"]
      if live.value(at: place) == nil { try live.apply(.set(place, "")) }
      if trimStart > 0 { try live.apply(.trim(place, trimStart)) }
      if text != "" { try live.apply(.append(place, text)) }
    case nil: break
    }
    if let count = update.droppedBytes {
      try live.apply(.set(path + ["droppedBytes"], .int(count)))
    }
    if let count = update.droppedLines {
      try live.apply(.set(path + ["droppedLines"], .int(count)))
    }
    try follow(update.details, without: .null, path + ["details"])
    try follow(update.diagnostics, without: [], path + ["diagnostics"])
  }

  /// Sets a member that an update names, or deletes it if it has the value that says so.
  private mutating func follow(
    _ value: JSON?,
    without none: JSON,
    _ path: [PathSegment]
  ) throws(OperationError) {
    guard let value else { return }
    if value != none {
      try live.apply(.set(path, value))
    } else if live.value(at: path) != nil {
      try live.apply(.delete(path))
    }
  }

  private mutating func end(
    _ call: ToolEventCall,
    _ entry: EntryRecord?,
    _ summary: JSON?
  ) throws(OperationError) {
    guard let path = path(of: call) else { return }
    let keys: [JSONString] = ["output", "droppedBytes", "droppedLines", "details", "diagnostics"]
    for key in keys where live.value(at: path)?[key] != nil {
      try live.apply(.delete(path + [.key(key)]))
    }
    try live.apply(.set(path + ["status"], "done"))
    if let entry { try live.apply(.set(path + ["entry"], entry.id.json)) }
    if let summary { try live.apply(.set(path + ["summary"], summary)) }
  }

  // MARK: Compactions

  private mutating func start(
    _ task: TaskID,
    _ reason: JSONString,
    _ blocking: Bool
  ) throws(OperationError) {
    let status: JSON = [
      "taskId": task.json, "reason": .string(reason), "blocking": .bool(blocking), "attempt": 1,
    ]
    let count = live["compactions"]?.array?.count ?? 0
    try live.apply(.splice(["compactions"], at: count, remove: 0, insert: [status]))
  }

  private mutating func end(
    _ task: TaskID,
    _ reason: JSONString,
    _ error: JSONString?
  ) throws(OperationError) {
    let position = live["compactions"]?.array?.firstIndex { TaskID($0["taskId"]) == task }
    if let position { try live.apply(.delete(["compactions", .index(position)])) }
    guard let error else { return }
    try set(
      "compactionFailure",
      ["taskId": task.json, "reason": .string(reason), "error": .string(error)]
    )
  }
}
