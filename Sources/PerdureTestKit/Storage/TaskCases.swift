import PerdureModel
import PerdureValue

extension StorageConformance {
  static let taskCases: [Case] = [
    Case(name: "a task is replaced as a whole") { store in
      _ = try await store.root()
      var task = TaskRecord(try await store.mint(), state: .running(checkpoint: ["step": 1]))
      task.memos = ["a": 1]
      try await store.commit(.task(task))
      task.state = .terminal(.failed(message: "no", detail: ["x": 1]))
      task.memos = nil
      task.abortRequested = true
      task.background = true
      try await store.commit(.task(task))
      try expect(try await store.reads.task(task.id), task, "the task")
      let other = TaskRecord(try await store.mint())
      try await store.commit(.task(other))
      let queries: [(TaskQuery, [TaskRecord])] = [
        (TaskQuery(status: .terminal), [task]), (TaskQuery(status: .running), []),
        (TaskQuery(abortRequested: true), [task]), (TaskQuery(abortRequested: false), [other]),
        (TaskQuery(background: true), [task]), (TaskQuery(background: false), [other]),
        (TaskQuery(kind: "test"), [task, other]), (TaskQuery(kind: "none"), []),
        (TaskQuery(conversationId: .root, status: .pending), [other]),
        (TaskQuery(conversationId: try id(9)), []),
      ]
      for (query, wanted) in queries {
        let found = try await all(limit: 1) { try await store.reads.scanTasks(query, $0) }
        try expect(found, wanted, "the tasks of \(query)")
      }
    },
    Case(name: "owned, waiting and completing tasks are stored as they are") { store in
      _ = try await store.root()
      let owner = TaskRecord(try await store.mint())
      var child = TaskRecord(try await store.mint())
      child.owner = owner.id
      child.state = .waiting(checkpoint: [1], on: [owner.id], policy: .failFast)
      child.memos = ["m": ["n": .null]]
      try await store.commit(.task(owner), .task(child))
      try expect(try await store.reads.task(child.id), child, "the waiting task")
      try await Self.expectStatus(store, child.id, .waiting)
      child.state = .completing(.completed(result: ["r": 1]))
      try await store.commit(.task(child))
      try expect(try await store.reads.task(child.id), child, "the completing task")
      try await Self.expectStatus(store, child.id, .completing)
    },
    Case(name: "a sleeping task is found and moves on") { store in
      _ = try await store.root()
      var task = TaskRecord(
        try await store.mint(),
        state: .sleeping(checkpoint: "p", until: 1_700_000_000_000)
      )
      try await store.commit(.task(task))
      try expect(try await store.reads.task(task.id), task, "the sleeping task")
      try await Self.expectStatus(store, task.id, .sleeping)
      task.state = .running(checkpoint: "p")
      try await store.commit(.task(task))
      try await Self.expectStatus(store, task.id, .running)
    },
    Case(name: "of two writes of a task in a batch the last counts") { store in
      _ = try await store.root()
      var task = TaskRecord(try await store.mint())
      var running = task
      running.state = .running(checkpoint: 1)
      task.state = .pending(checkpoint: 0)
      try await store.commit(.task(task), .task(running))
      try expect(try await store.reads.task(task.id), running, "the task")
      try await Self.expectStatus(store, task.id, .running)
    },
  ]

  private static func expectStatus(
    _ store: StorageHarness,
    _ id: TaskID,
    _ status: TaskState.Status
  ) async throws {
    for candidate in TaskState.Status.allCases {
      let page = try await store.reads.scanTasks(
        TaskQuery(status: candidate),
        PageRequest(limit: 9)
      )
      try expect(
        page.items.contains { $0.id == id },
        candidate == status,
        "task \(id) among the \(candidate.rawValue) ones"
      )
    }
  }

  static let submissionCases: [Case] = [
    Case(name: "a request id is found in its conversation") { store in
      _ = try await store.root()
      let other: ConversationID = try await store.mint()
      try await store.commit(.conversation(ConversationRecord(id: other)))
      var first = SubmissionRecord(try await store.mint(), requestId: "r")
      let second = SubmissionRecord(try await store.mint(), in: other, requestId: "r")
      let third = SubmissionRecord(try await store.mint())
      try await store.commit(.submission(first), .submission(second), .submission(third))
      first.state = .placed(entry: try id(50))
      try await store.commit(.submission(first))
      let reads = await store.reads
      try expect(try await reads.submission(requestId: "r", in: .root), first, "in the root")
      try expect(try await reads.submission(requestId: "r", in: other), second, "in the other")
      try expect(try await reads.submission(requestId: "s", in: .root), nil, "another id")
      try expect(try await reads.submission(third.id), third, "the one without a request id")
      let queries: [(SubmissionQuery, [SubmissionRecord])] = [
        (SubmissionQuery(conversationId: .root, status: .queued), [third]),
        (SubmissionQuery(status: .queued), [second, third]),
        (SubmissionQuery(status: .placed), [first]),
        (SubmissionQuery(conversationId: .root), [first, third]),
      ]
      for (query, wanted) in queries {
        let found = try await all(limit: 1) { try await store.reads.scanSubmissions(query, $0) }
        try expect(found, wanted, "the submissions of \(query)")
      }
    },
    Case(name: "submissions end with what they led to") { store in
      _ = try await store.root()
      var write = SubmissionRecord(try await store.mint(), requestId: "w", kind: .write)
      var input = SubmissionRecord(try await store.mint())
      try await store.commit(.submission(write), .submission(input))
      write.state = .done(entry: try id(60), answer: nil)
      input.state = .unanswered(reason: "reset", detail: ["why": [1]], entry: nil)
      try await store.commit(.submission(write), .submission(input))
      try expect(try await store.reads.submission(input.id), input, "the input")
      let found = try await store.reads.submission(requestId: "w", in: .root)
      try expect(found, write, "the write")
    },
  ]

  static let extraCases: [Case] = [
    Case(name: "facts beside the records are written with the batch") { store in
      _ = try await store.root()
      let entry = EntryRecord(try await store.mint())
      try await store.commit(
        .entry(entry),
        extras: [
          ExtraWrite(scope: "time", id: entry.id.value, value: 17),
          ExtraWrite(scope: "run", id: 0, value: ["model": "a"]),
        ]
      )
      try await expectError(.invalidBatch, "already belongs", "a refused batch") {
        try await store.commit(
          .entry(entry),
          extras: [ExtraWrite(scope: "run", id: 0, value: "lost")]
        )
      }
      try await store.reopen()
      let reads = await store.reads
      try expect(try await reads.extra(scope: "time", id: entry.id.value), 17, "the time")
      try expect(try await reads.extra(scope: "run", id: 0), ["model": "a"], "the run")
      try expect(try await reads.extra(scope: "time", id: 0), nil, "no such fact")
    },
    Case(name: "a fact is replaced and removed") { store in
      _ = try await store.root()
      try await store.commit(
        extras: [
          ExtraWrite(scope: "a", id: 1, value: 1), ExtraWrite(scope: "a", id: 2, value: 2),
        ])
      try await store.commit(
        extras: [
          ExtraWrite(scope: "a", id: 1, value: nil), ExtraWrite(scope: "a", id: 2, value: nil),
          ExtraWrite(scope: "a", id: 2, value: .null), ExtraWrite(scope: "b", id: 1, value: nil),
        ])
      try expect(try await store.reads.extra(scope: "a", id: 1), nil, "the removed fact")
      try expect(try await store.reads.extra(scope: "a", id: 2), .null, "the replaced fact")
    },
  ]
}
