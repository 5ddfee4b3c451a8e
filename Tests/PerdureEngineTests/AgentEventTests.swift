import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// One commit, as a table row has it: what lay on disk before, what changed, and what is told.
struct EventCase: Sendable, CustomTestStringConvertible {
  var rule: String
  var live: JSON = [:]
  /// The new value of `pi.live`, or the operations that lead there.
  var becomes: JSON?
  var operations: [PerdureValue.Operation] = []
  var entries: [EntryRecord] = []
  var tasks: [TaskRecord] = []
  var submissions: [SubmissionRecord] = []
  var others: [Other] = []
  var nested: JSON?
  var decided: Set<TaskID> = []
  /// The types of the events.
  var types: [String] = []
  /// The events themselves, where the row is about what they say.
  var events: [JSON]?

  /// The new value of another document; `nil` retires it.
  struct Other: Sendable {
    var kind: JSONString
    var value: JSON?
  }

  var testDescription: String { rule }

  /// The events of the commit and the state after them.
  func run() throws -> (events: [AgentEvent], state: AgentState) {
    let conversation = ConversationRecord(id: .root)
    let view = ConversationView(conversation: conversation, entries: [], documents: [:])
    var fold = AgentEventFold(
      view,
      documents: [
        StoredDocument(record: .of("pi.live"), version: 1, value: live, deltasSinceBase: 0)
      ],
      decided: decided
    )
    var state = fold.value
    let events = fold.apply(try publication())
    for event in events { try state.apply(event) }
    #expect(state == fold.value)
    return (events, state)
  }

  private func publication() throws -> Publication {
    var changes: [Publication.Change] = entries.map { .entry($0) } + tasks.map { .task($0) }
    changes += submissions.map { .submission($0) }
    if !operations.isEmpty {
      let value = try live.applying(operations)
      changes.append(.document(.of("pi.live"), version: 1, value: value, operations: operations))
    } else if let becomes {
      let whole: [PerdureValue.Operation] = [.replace(becomes)]
      changes.append(.document(.of("pi.live"), version: 1, value: becomes, operations: whole))
    }
    for other in others {
      let version: Int64? = other.value == nil ? nil : 1
      changes.append(
        .document(.of(other.kind), version: version, value: other.value, operations: [])
      )
    }
    if let nested {
      let record = DocumentRecord(
        id: .known(90),
        address: DocumentAddress(kind: "pi.tool.nested-call", scope: .task(.known(8)), key: "1"),
        createdAt: 1
      )
      changes.append(.document(record, version: 1, value: nested, operations: []))
    }
    return Publication(sequence: 2, changes: changes, at: 0)
  }
}

extension DocumentRecord {
  fileprivate static func of(_ kind: JSONString) -> DocumentRecord {
    let ids: [JSONString: Int64] = ["pi.live": 91, "pi.inbox": 92, "pi.agent": 93, "pi.usage": 94]
    return DocumentRecord(
      id: .known(ids[kind] ?? 95),
      address: DocumentAddress(kind: kind, scope: .conversation(.root)),
      createdAt: 1
    )
  }
}

extension EntryRecord {
  fileprivate static func of(_ id: Int64, _ message: JSON? = nil) -> EntryRecord {
    EntryRecord(
      id: .known(id),
      conversationId: .root,
      kind: "t",
      model: message.map { [$0] }
    )
  }
}

extension TaskRecord {
  fileprivate static func of(
    _ id: Int64,
    _ state: TaskState,
    _ kind: JSONString = "pi.generation"
  ) -> TaskRecord {
    TaskRecord(
      id: .known(id),
      conversationId: .root,
      kind: kind,
      version: 1,
      input: [:],
      state: state
    )
  }
}

/// The events of one commit each (20.4), as tables.
@Suite(.timeLimit(.minutes(5))) struct AgentEventTests {
  private static let ended = TaskState.terminal(.completed(result: [:]))
  private static let began = TaskState.pending(checkpoint: [:])
  private static let answer: JSON = ["role": "assistant", "content": []]
  private static let user: JSON = ["role": "user", "content": "go"]

  private static func result(_ call: JSON) -> JSON {
    ["role": "toolResult", "toolCallId": call, "content": []]
  }

  private static func slot(_ call: JSON, _ status: JSON, _ more: JSONObject = [:]) -> JSON {
    var slot: JSONObject = ["callId": call, "name": "t", "status": status]
    for (key, value) in more { slot[key] = value }
    return .object(slot)
  }

  private static func nested(_ task: JSON, _ status: JSON, _ more: JSONObject = [:]) -> JSON {
    var slot: JSONObject = [
      "callId": "a/1", "name": "n", "status": status, "parentCallId": "a", "parentTaskId": 8,
      "taskId": task, "arguments": ["x": 1],
    ]
    for (key, value) in more { slot[key] = value }
    return .object(slot)
  }

  private static func partial(_ content: JSON, _ more: JSONObject = [:]) -> JSON {
    var message: JSONObject = ["role": "assistant", "content": content]
    for (key, value) in more { message[key] = value }
    return ["generation": ["attempt": 1, "message": .object(message)]]
  }

  private static func submission(_ id: Int64) -> SubmissionRecord {
    SubmissionRecord(id: .known(id), conversationId: .root, kind: .input, state: .queued)
  }

  // MARK: EV-1, EV-2

  static let runs: [EventCase] = [
    EventCase(
      rule: "EV-1: a run begins",
      becomes: ["run": ["taskId": 5, "inputs": [3]]],
      tasks: [.of(5, began)],
      types: ["run_start", "turn_start"],
      events: [["type": "run_start", "inputs": [3]], ["type": "turn_start"]]
    ),
    EventCase(
      rule: "EV-1: a steer that joins is no other run",
      live: ["run": ["taskId": 5, "inputs": [3]]],
      becomes: ["run": ["taskId": 5, "inputs": [3, 4]]],
      types: ["live_update"]
    ),
    EventCase(
      rule: "EV-1: a hand-over is no other run, but another turn",
      live: ["run": ["taskId": 5, "inputs": [3]]],
      becomes: ["run": ["taskId": 6, "inputs": [3]]],
      tasks: [.of(5, ended), .of(6, began)],
      types: ["turn_end", "turn_start"]
    ),
    EventCase(
      rule: "EV-1: a run that follows another ends the first",
      live: ["run": ["taskId": 5, "inputs": [3, 4]]],
      becomes: ["run": ["taskId": 6, "inputs": [7]]],
      tasks: [.of(5, ended), .of(6, began)],
      types: ["turn_end", "run_end", "run_start", "turn_start"]
    ),
    EventCase(
      rule: "EV-2: a turn ends when its outcome is decided",
      live: ["run": ["taskId": 5, "inputs": [3]]],
      becomes: [:],
      tasks: [.of(5, .completing(.completed(result: [:])))],
      types: ["turn_end", "run_end"]
    ),
    EventCase(
      rule: "EV-2: a turn whose outcome was decided before does not end again",
      tasks: [.of(5, ended)],
      decided: [.known(5)],
      types: []
    ),
    EventCase(
      rule: "EV-2: a task of another kind makes no turn",
      becomes: ["run": ["taskId": 5, "inputs": [3]]],
      tasks: [.of(5, began, "app.task")],
      types: ["run_start"]
    ),
  ]

  // MARK: EV-3

  static let messages: [EventCase] = [
    EventCase(
      rule: "EV-3: the first part of an answer starts it",
      live: ["generation": ["attempt": 1]],
      operations: [.set(["generation", "message"], answer)],
      types: ["message_start"],
      events: [["type": "message_start", "message": answer]]
    ),
    EventCase(
      rule: "EV-3: the entry that ends a streamed answer only ends it",
      live: partial([]),
      operations: [.delete(["generation"])],
      entries: [.of(4, answer)],
      types: ["message_end"]
    ),
    EventCase(
      rule: "EV-3: other entries with messages start and end",
      entries: [.of(4, user), .of(5, answer), .of(6)],
      types: ["message_start", "message_end", "message_start", "message_end", "entry_appended"]
    ),
    EventCase(
      rule: "EV-3: an answer that an application appends does not end the one that streams",
      live: partial([]),
      entries: [.of(4, answer)],
      types: ["message_start", "message_end"]
    ),
    EventCase(
      rule: "a change of the usage alone is an update without changes",
      live: partial([]),
      operations: [.set(["generation", "message", "usage"], ["input": 3])],
      events: [["type": "message_update", "usage": ["input": 3], "changes": []]]
    ),
    EventCase(
      rule: "inserted blocks start, and text is appended to",
      live: partial([["type": "text", "text": "a"]], ["usage": [:]]),
      operations: [
        .append(["generation", "message", "content", 0, "text"], "b"),
        .splice(
          ["generation", "message", "content"],
          at: 1,
          remove: 0,
          insert: [
            ["type": "thinking", "thinking": ""],
            ["type": "toolCall", "id": "c", "name": "t", "arguments": ["p": ["x"]]],
          ]
        ),
        .append(["generation", "message", "content", 1, "thinking"], "hm"),
        .append(["generation", "message", "content", 2, "arguments", "p", 0], "y"),
      ],
      events: [
        [
          "type": "message_update", "usage": [:],
          "changes": [
            ["type": "text_delta", "contentIndex": 0, "delta": "b"],
            [
              "type": "thinking_start", "contentIndex": 1,
              "block": ["type": "thinking", "thinking": ""],
            ],
            [
              "type": "toolcall_start", "contentIndex": 2,
              "block": ["type": "toolCall", "id": "c", "name": "t", "arguments": ["p": ["x"]]],
            ],
            ["type": "thinking_delta", "contentIndex": 1, "delta": "hm"],
            ["type": "toolcall_delta", "contentIndex": 2, "path": ["p", 0], "delta": "y"],
          ],
        ]
      ]
    ),
    EventCase(
      rule: "another change of a block tells the block once, with what follows",
      live: partial([["type": "text", "text": "a"]], ["usage": [:]]),
      operations: [
        .set(["generation", "message", "content", 0, "textSignature"], "s"),
        .append(["generation", "message", "content", 0, "text"], "b"),
      ],
      events: [
        [
          "type": "message_update", "usage": [:],
          "changes": [
            [
              "type": "block", "contentIndex": 0,
              "block": ["type": "text", "text": "ab", "textSignature": "s"],
            ]
          ],
        ]
      ]
    ),
    EventCase(
      rule: "another change of the message tells the message",
      live: partial([]),
      operations: [.set(["generation", "message", "model"], "m")],
      events: [
        [
          "type": "message_update", "usage": [:],
          "changes": [
            ["type": "message", "message": ["role": "assistant", "content": [], "model": "m"]]
          ],
        ]
      ]
    ),
  ]

  // MARK: EV-4, EV-5

  static let calls: [EventCase] = [
    EventCase(
      rule: "EV-4: a call starts when its slot runs, with the arguments of the intent",
      live: ["tools": [slot("a", "pending", ["taskId": 8])]],
      operations: [.set(["tools", 0, "status"], "running")],
      tasks: [.of(8, .running(checkpoint: ["arguments": ["x": 2]]), "pi.tool")],
      events: [
        [
          "type": "tool_execution_start", "toolCallId": "a", "toolName": "t", "taskId": 8,
          "args": ["x": 2],
        ]
      ]
    ),
    EventCase(
      rule: "EV-4: a nested call starts with the arguments of its slot",
      live: [
        "tools": [slot("a", "running", ["taskId": 8])], "nestedTools": [nested(9, "pending")],
      ],
      operations: [.set(["nestedTools", 0, "status"], "running")],
      events: [
        [
          "type": "tool_execution_start", "toolCallId": "a/1", "toolName": "n", "taskId": 9,
          "parentToolCallId": "a", "parentTaskId": 8, "args": ["x": 1],
        ]
      ]
    ),
    EventCase(
      rule: "EV-4: a slot that is done without having run only ends",
      live: ["tools": [slot("a", "pending", ["taskId": 8])]],
      operations: [.set(["tools", 0], slot("a", "done", ["taskId": 8, "entry": 4]))],
      entries: [.of(4, result("a"))],
      types: ["tool_execution_end", "message_start", "message_end"]
    ),
    EventCase(
      rule: "EV-4: a slot that is created done ends",
      operations: [.set(["tools"], [slot("a", "done", ["entry": 4])])],
      entries: [.of(4, result("a"))],
      types: ["tool_execution_end", "message_start", "message_end", "live_update"]
    ),
    EventCase(
      rule: "EV-4: an unfinished slot that vanishes ends with the result of its call",
      live: ["tools": [slot("a", "pending"), slot("b", "pending"), slot("c", "done")]],
      operations: [.delete(["tools"])],
      entries: [.of(4, result("b"))],
      types: [
        "tool_execution_end", "message_start", "message_end", "tool_execution_end",
        "live_update",
      ]
    ),
    EventCase(
      rule: "EV-4: nested calls end children before parents, with their results",
      live: [
        "tools": [slot("a", "running", ["taskId": 8])],
        "nestedTools": [nested(9, "running"), nested(10, "running")],
      ],
      operations: [
        .set(["nestedTools", 0, "status"], "done"),
        .set(["nestedTools", 0, "summary"], ["isError": false]),
        .delete(["nestedTools", 1]),
      ],
      nested: ["taskId": 9, "result": ["isError": false]],
      types: ["tool_execution_end", "tool_execution_end", "live_update"]
    ),
    EventCase(
      rule: "output is told by what left and what came",
      live: ["tools": [slot("a", "running", ["output": "hello"])]],
      operations: [
        .trim(["tools", 0, "output"], 2), .append(["tools", 0, "output"], "!"),
        .set(["tools", 0, "droppedBytes"], 2),
      ],
      events: [
        [
          "type": "tool_execution_update", "toolCallId": "a", "toolName": "t",
          "output": ["trimStart": 2, "append": "!"], "droppedBytes": 2,
        ]
      ]
    ),
    EventCase(
      rule: "output that changed in another way is told as a whole",
      live: ["tools": [slot("a", "running", ["output": "hello"])]],
      operations: [.set(["tools", 0, "output"], "bye")],
      events: [
        [
          "type": "tool_execution_update", "toolCallId": "a", "toolName": "t",
          "output": ["set": "bye"],
        ]
      ]
    ),
    EventCase(
      rule: "EV-5: details that are gone are null, and diagnostics an empty list",
      live: ["tools": [slot("a", "running", ["details": 1, "diagnostics": [["m": 1]]])]],
      operations: [.delete(["tools", 0, "details"]), .delete(["tools", 0, "diagnostics"])],
      events: [
        [
          "type": "tool_execution_update", "toolCallId": "a", "toolName": "t", "details": .null,
          "diagnostics": [],
        ]
      ]
    ),
  ]

  // MARK: EV-6

  static let order: [EventCase] = [
    EventCase(
      rule: "EV-6: calls, the answer, then retries and delays",
      live: [
        "generation": ["attempt": 1, "retry": ["at": 5, "error": "busy"]],
        "tools": [slot("a", "running"), slot("b", "pending")],
        "nestedTools": [nested(9, "running"), nested(10, "pending")],
      ],
      becomes: [
        "generation": ["attempt": 2, "message": answer, "deferred": ["pollAt": 9]],
        "tools": [slot("a", "running", ["output": "x"]), slot("b", "running")],
        "nestedTools": [nested(9, "running", ["details": 1]), nested(10, "running")],
      ],
      types: [
        "tool_execution_start", "tool_execution_start", "message_start", "tool_execution_update",
        "tool_execution_update", "auto_retry_end", "deferred_poll", "live_update",
      ]
    ),
    EventCase(
      rule: "EV-6: a retry begins before the entry of the failed answer",
      live: partial([]),
      becomes: ["generation": ["attempt": 1, "retry": ["at": 5, "error": "busy"]]],
      entries: [.of(4, answer)],
      types: ["auto_retry_start", "message_end"]
    ),
    EventCase(
      rule: "EV-6: what ends, in order of entries, before what begins",
      live: [
        "run": ["taskId": 5, "inputs": [3]],
        "tools": [slot("a", "running"), slot("b", "running"), slot("c", "running")],
        "nestedTools": [nested(9, "running")],
        "compactions": [["taskId": 20, "reason": "manual", "blocking": false, "attempt": 1]],
      ],
      becomes: [
        "run": ["taskId": 6, "inputs": [11]],
        "compactions": [["taskId": 21, "reason": "threshold", "blocking": true, "attempt": 1]],
        "compactionFailure": ["taskId": 20, "reason": "manual", "error": "no"],
      ],
      entries: [.of(30), .of(31, result("b")), .of(32, result("a")), .of(33, user)],
      tasks: [
        .of(5, ended), .of(6, began),
        .of(8, .terminal(.faulted(message: "broken")), "pi.tool"),
      ],
      submissions: [submission(12), submission(11)],
      others: [
        EventCase.Other(kind: "pi.usage", value: ["models": ["m": 1], "tools": [:]]),
        EventCase.Other(kind: "pi.agent", value: ["cwd": "/"]),
        EventCase.Other(kind: "pi.inbox", value: ["items": [["id": 12, "mode": "steer"]]]),
      ],
      types: [
        "tool_execution_end", "entry_appended", "tool_execution_end", "message_start",
        "message_end", "tool_execution_end", "message_start", "message_end", "message_start",
        "message_end", "tool_execution_end", "compaction_end", "task_failed", "turn_end",
        "run_end", "submission", "submission", "inbox_update", "agent_changed", "usage_changed",
        "compaction_start", "run_start", "turn_start",
      ]
    ),
  ]

  @Test(arguments: runs + messages + calls + order)
  func `a commit is told as the rules say, and leads to the next state`(
    _ row: EventCase
  ) throws {
    let (events, _) = try row.run()
    if let expected = row.events {
      #expect(events.map(\.json) == expected)
    } else {
      #expect(events.map(\.type) == row.types)
    }
  }

  @Test func `submissions are told by their ids, and calls with their entries`() throws {
    let row = try #require(Self.order.last)
    let events = try row.run().events
    let ids = events.compactMap { event -> Int64? in
      if case .submission(let record) = event { record.id.value } else { nil }
    }
    #expect(ids == [11, 12])
    let entries = events.compactMap { event -> String? in
      guard case .toolExecutionEnd(_, let entry, _, _) = event else { return nil }
      return entry.map { "\($0.id)" } ?? "none"
    }
    #expect(entries == ["none", "31", "32", "none"])
  }

  @Test func `a document that is gone counts as a new one`() throws {
    let conversation = ConversationRecord(id: .root)
    let record = DocumentRecord.of("pi.agent")
    var fold = AgentEventFold(
      ConversationView(conversation: conversation, entries: [], documents: [:]),
      documents: [
        StoredDocument(record: record, version: 1, value: ["cwd": "/"], deltasSinceBase: 0)
      ],
      decided: []
    )
    let gone = Publication.Change.document(record, version: nil, value: nil, operations: [])
    let events = fold.apply(Publication(sequence: 2, changes: [gone], at: 0))
    #expect(events == [.agentChanged([:])])
  }

  @Test(arguments: [
    "1", "{}", #"{"type":"odd"}"#, #"{"type":"run_start"}"#, #"{"type":"run_end","inputs":["x"]}"#,
    #"{"type":"snapshot"}"#, #"{"type":"message_start"}"#, #"{"type":"message_end","entry":1}"#,
    #"{"type":"message_update","usage":{},"changes":[{"type":"odd"}]}"#,
    #"{"type":"message_update","usage":{},"changes":[{"type":"text_delta","contentIndex":"0"}]}"#,
    #"{"type":"message_update","usage":{},"changes":[{"type":"toolcall_delta","contentIndex":0,"path":1,"delta":""}]}"#,
    #"{"type":"tool_execution_start","toolCallId":"a"}"#, #"{"type":"submission","record":[]}"#,
    #"{"type":"auto_retry_end","attempt":"1"}"#, #"{"type":"task_failed","taskId":-1}"#,
    #"{"type":"live_update","operations":[["x"]]}"#, #"{"type":"inbox_update","items":[{}]}"#,
  ])
  func `JSON that is no event is refused`(_ text: String) throws {
    let json = try JSON(parsing: text)
    #expect(throws: (any Error).self) { try AgentEvent(json: json) }
  }

  @Test(arguments: [
    MessageChange.start(0, block: ["type": "text", "text": ""]),
    .start(1, block: ["type": "thinking", "thinking": ""]),
    .start(2, block: ["type": "toolCall", "id": "a", "name": "t", "arguments": [:]]),
    .textDelta(0, "a"), .thinkingDelta(0, "b"), .toolCallDelta(2, path: ["list", 0, "x"], "c"),
    .block(1, ["type": "text"]), .message(["role": "assistant"]),
  ])
  func `each change of a message is read as it was written`(_ change: MessageChange) throws {
    #expect(try MessageChange(json: change.json) == change)
  }

  @Test func `an event that does not fit is refused`() throws {
    var state = AgentState(entries: [])
    let change = AgentEvent.messageUpdate(usage: [:], changes: [.textDelta(3, "x")])
    #expect(throws: PerdureError.self) { try state.apply(change) }
  }

  @Test(arguments: [
    JSON.null, ["tools": 1, "run": [], "generation": 7, "compactions": [[:]]],
    ["tools": [["callId": 1], ["callId": "a", "name": "t", "status": "odd"]]],
    ["generation": ["message": 3, "attempt": "x"], "nestedTools": ["x"]],
  ])
  func `a document of strange form is followed all the same`(_ strange: JSON) throws {
    _ = try EventCase(rule: "strange", live: strange, becomes: [:]).run()
    _ = try EventCase(rule: "strange", live: [:], becomes: strange).run()
  }
}
