import PerdureModel
import PerdureValue

extension StoreCheck {
  /// What `pi.live` says must agree with the tasks and inputs that it names.
  mutating func checkRun(of id: ConversationID, _ object: String) async throws {
    let live = try await document("pi.live", id)
    let run = live?["run"]
    if let run {
      let task: TaskRecord?
      if let taskId = TaskID(run["taskId"]) {
        task = try await reads.task(taskId)
      } else {
        task = nil
      }
      require(
        task?.isLive == true && task?.conversationId == id,
        "run",
        object,
        "its run names the task \(run["taskId"]?.compactText ?? "?"), which does not live in it"
      )
    }
    try await checkLiveTasks(of: id, object, live)
    for key in ["tools", "nestedTools"] as [JSONString] {
      for slot in live?[key]?.array ?? [] {
        guard let taskId = TaskID(slot["taskId"]) else { continue }
        require(
          try await reads.task(taskId) != nil,
          "slot",
          object,
          "a slot of its calls names the task \(taskId), which is not there"
        )
      }
    }
    try await checkNestedSlots(live?["nestedTools"]?.array ?? [], object)
    try await checkInputs(of: id, object, run)
  }

  private mutating func checkLiveTasks(
    of id: ConversationID,
    _ object: String,
    _ live: JSON?
  ) async throws {
    let listed = (live?["compactions"]?.array ?? []).compactMap { TaskID($0["taskId"]) }
    var undecided: Set<TaskID> = []
    for status in TaskState.Status.allCases where status != .terminal {
      try await forEach {
        try await $0.reads.scanTasks(TaskQuery(conversationId: id, status: status), $1)
      } body: { check, task in
        if task.kind == "pi.generation" {
          check.require(
            live?["run"] != nil,
            "run",
            object,
            "the generation \(task.id) lives, and there is no run"
          )
        }
        if task.kind == "pi.compaction", status != .completing { undecided.insert(task.id) }
      }
    }
    for task in listed where !undecided.contains(task) {
      find("compaction", object, "it lists the compaction \(task), which is decided or not there")
    }
    for task in undecided.subtracting(listed).sorted() {
      find("compaction", object, "the compaction \(task) is not decided, and is not listed")
    }
  }

  private mutating func checkInputs(
    of id: ConversationID,
    _ object: String,
    _ run: JSON?
  ) async throws {
    var inputs: [SubmissionID: Int] = [:]
    for input in run?["inputs"]?.array ?? [] {
      guard let submission = SubmissionID(input) else { continue }
      inputs[submission, default: 0] += 1
    }
    for (submission, count) in inputs.sorted(by: { $0.key < $1.key }) where count > 1 {
      find("input", "submission \(submission)", "the run of \(object) lists it \(count) times")
    }
    try await forEach {
      try await $0.reads.scanSubmissions(
        SubmissionQuery(conversationId: id, status: .placed),
        $1
      )
    } body: { check, submission in
      guard submission.kind == .input else { return }
      check.require(
        inputs.removeValue(forKey: submission.id) != nil,
        "input",
        "submission \(submission.id)",
        "it is placed, and no run of \(object) lists it"
      )
    }
    for submission in inputs.keys.sorted() {
      find("input", object, "its run lists the submission \(submission), which is not placed in it")
    }
  }

  /// What `pi.inbox` holds must be what is queued.
  mutating func checkQueue(of id: ConversationID, _ object: String) async throws {
    let items = try await document("pi.inbox", id)?["items"]?.array ?? []
    var listed = Set(items.compactMap { SubmissionID($0["id"]) })
    require(listed.count == items.count, "inbox", object, "its inbox holds an item twice")
    try await forEach {
      try await $0.reads.scanSubmissions(
        SubmissionQuery(conversationId: id, status: .queued),
        $1
      )
    } body: { check, submission in
      check.require(
        listed.remove(submission.id) != nil,
        "inbox",
        "submission \(submission.id)",
        "it is queued, and the inbox of \(object) does not hold it"
      )
    }
    for submission in listed.sorted() {
      find(
        "inbox",
        object,
        "its inbox holds the submission \(submission), which is not queued in it"
      )
    }
  }
}
