import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureValue
import Synchronization
import Testing

/// Each invariant is broken once, and named.
@Suite struct StoreCheckTests {
  /// What one commit breaks, and what is said of it.
  struct Damage: Sendable, CustomTestStringConvertible {
    var name: String
    var writes: [StorageWrite]
    var code: String
    var object: String

    init(_ name: String, _ code: String, _ object: String, _ writes: [StorageWrite]) {
      (self.name, self.code, self.object, self.writes) = (name, code, object, writes)
    }

    var testDescription: String { name }
  }

  private static func id<Record>(_ value: Int64) -> Identifier<Record> { .known(value) }

  private static func document(_ id: Int64, _ kind: JSONString, _ value: JSON) -> StorageWrite {
    let record = DocumentRecord(
      id: .known(id),
      address: DocumentAddress(kind: kind, scope: .conversation(.root)),
      history: .latest,
      fork: .initial,
      createdAt: 0
    )
    return .createDocument(record, version: 1, value: value)
  }

  private static func change(_ id: Int64, _ value: JSON) -> StorageWrite {
    .changeDocument(.known(id), .base(version: 1, value: value))
  }

  private static func task(
    _ id: Int64,
    _ kind: JSONString,
    owner: Int64? = nil,
    conversation: Int64 = 1,
    input: JSON = .null,
    _ state: TaskState = .running(checkpoint: .null)
  ) -> StorageWrite {
    .task(
      TaskRecord(
        id: .known(id),
        conversationId: .known(conversation),
        kind: kind,
        version: 1,
        input: input,
        owner: owner.flatMap { TaskID($0) },
        state: state
      )
    )
  }

  private static func entry(
    _ id: Int64,
    _ kind: JSONString,
    in conversation: Int64 = 1,
    edits: [ContextEdit]? = nil,
    _ message: JSON
  ) -> StorageWrite {
    .entry(
      EntryRecord(
        id: .known(id),
        conversationId: .known(conversation),
        kind: kind,
        model: [message],
        edits: edits
      )
    )
  }

  private static func submission(_ id: Int64, _ state: SubmissionRecord.State) -> StorageWrite {
    .submission(
      SubmissionRecord(id: .known(id), conversationId: .root, kind: .input, state: state)
    )
  }

  private static let ended = TaskState.terminal(.completed(result: .null))
  private static let usage: JSON = {
    var usage = Usage()
    (usage.input, usage.totalTokens) = (3, 3)
    return usage.json
  }()
  private static let live: JSONObject = [
    "run": ["taskId": 10, "inputs": [11]], "tools": [["callId": "c", "taskId": 12]],
    "compactions": [["taskId": 14]], "nestedTools": [.object(slot)],
  ]
  private static let slot: JSONObject = [
    "callId": "c/1", "parentCallId": "c", "parentTaskId": 12, "taskId": 15, "status": "running",
  ]
  private static func slots(_ key: JSONString, _ value: JSON) -> [StorageWrite] {
    var slot = slot
    slot[key] = value
    return live("nestedTools", [.object(slot)])
  }

  private static let tool: JSON = ["name": "t", "description": "", "parameters": [:]]

  /// A conversation with a run, a call, a compaction and an inbox, and a fork of it.
  private static let sound: [StorageWrite] = [
    .conversation(ConversationRecord(id: .root)),
    document(2, "pi.live", .object(live)),
    document(3, "pi.inbox", ["items": [["id": 13]]]),
    document(4, "pi.usage", ["models": ["p/m": usage], "tools": ["t": usage]]),
    entry(5, "pi.user", ["role": "user", "content": "hi"]),
    entry(6, "pi.system", ["role": "system", "content": "", "toolsAdded": [tool]]),
    entry(
      7,
      "pi.assistant",
      [
        "role": "assistant", "provider": "p", "model": "m", "stopReason": "toolUse",
        "usage": usage, "content": [["type": "toolCall", "id": "c", "name": "t"]],
      ]
    ),
    entry(
      8,
      "pi.tool-result",
      ["role": "toolResult", "toolCallId": "c", "toolName": "t", "usage": usage]
    ),
    task(10, "pi.generation"),
    submission(11, .placed(entry: id(5))),
    task(12, "pi.tool", owner: 10),
    submission(13, .queued),
    task(14, "pi.compaction"),
    task(15, "pi.tool", owner: 12, input: ["parent": 12]),
    .conversation(
      ConversationRecord(id: id(20), parent: .init(conversationId: .root, at: id(7)))
    ),
    entry(21, "pi.user", in: 20, ["role": "user", "content": "other"]),
  ]

  private static func live(_ key: JSONString, _ value: JSON?) -> [StorageWrite] {
    var live = live
    live[key] = value
    return [change(2, .object(live))]
  }

  static let damages: [Damage] = [
    Damage("a run whose task ended", "run", "conversation 1", [task(10, "pi.generation", ended)]),
    Damage("a generation without a run", "run", "conversation 1", live("run", nil)),
    Damage(
      "a placed input that no run lists",
      "input",
      "submission 30",
      [submission(30, .placed(entry: id(5)))]
    ),
    Damage(
      "a run that lists what is not placed",
      "input",
      "conversation 1",
      [submission(11, .done(entry: id(5), answer: nil))]
    ),
    Damage(
      "an input that is listed twice",
      "input",
      "submission 11",
      live("run", ["taskId": 10, "inputs": [11, 11]])
    ),
    Damage(
      "a queued submission outside of the inbox",
      "inbox",
      "submission 30",
      [submission(30, .queued)]
    ),
    Damage(
      "an inbox item that is not queued",
      "inbox",
      "conversation 1",
      [change(3, ["items": [["id": 13], ["id": 11]]])]
    ),
    Damage(
      "a slot without a task",
      "slot",
      "conversation 1",
      live("tools", [["callId": "c", "taskId": 99]])
    ),
    Damage(
      "a nested call without a task",
      "slot",
      "conversation 1",
      slots("taskId", 99)
    ),
    Damage("a nested slot of another caller", "slot", "conversation 1", slots("parentTaskId", 10)),
    Damage(
      "a nested slot without a caller",
      "slot",
      "conversation 1",
      slots("parentTaskId", .null)
    ),
    Damage(
      "a nested slot that is done too early",
      "slot",
      "conversation 1",
      slots("status", "done")
    ),
    Damage(
      "nested slots out of order",
      "slot",
      "conversation 1",
      live("nestedTools", [.object(slot), .object(slot)])
    ),
    Damage(
      "a nested slot of a caller that ended",
      "slot",
      "conversation 1",
      [
        task(12, "pi.tool", owner: 10, ended),
        task(15, "pi.tool", owner: 12, input: ["parent": 12], ended),
      ]
    ),
    Damage(
      "a compaction that is not listed",
      "compaction",
      "conversation 1",
      live("compactions", nil)
    ),
    Damage(
      "a listed compaction that is decided",
      "compaction",
      "conversation 1",
      [task(14, "pi.compaction", .completing(.completed(result: .null)))]
    ),
    Damage(
      "a live task of an ended owner",
      "ended_owner",
      "task 31",
      [task(30, "t", ended), task(31, "t", owner: 30)]
    ),
    Damage(
      "an owner in another conversation",
      "owner",
      "task 31",
      [task(30, "t", conversation: 20), task(31, "t", owner: 30)]
    ),
    Damage(
      "a task that waits for none",
      "missing_task",
      "task 30",
      [task(30, "t", .waiting(checkpoint: .null, on: [id(99)], policy: .failFast))]
    ),
    Damage(
      "a live task without its conversation",
      "missing_conversation",
      "task 30",
      [task(30, "t", conversation: 77)]
    ),
    Damage(
      "less usage than the entries report",
      "usage",
      "conversation 1",
      [change(4, ["models": [:], "tools": ["t": usage]])]
    ),
    Damage(
      "usage of a tool that no entry reports",
      "usage",
      "conversation 1",
      [change(4, ["models": ["p/m": usage], "tools": ["t": usage, "u": usage]])]
    ),
    Damage(
      "a fork of none",
      "parent",
      "conversation 40",
      [
        .conversation(
          ConversationRecord(id: id(40), parent: .init(conversationId: id(39), at: id(5)))
        )
      ]
    ),
    Damage(
      "a fork at what its parent does not see",
      "parent",
      "conversation 40",
      [
        .conversation(
          ConversationRecord(id: id(40), parent: .init(conversationId: .root, at: id(21)))
        )
      ]
    ),
    Damage(
      "a conversation of an owner elsewhere",
      "owner",
      "conversation 40",
      [
        .conversation(
          ConversationRecord(id: id(40), owner: .init(conversationId: .root, taskId: id(99)))
        )
      ]
    ),
    Damage(
      "an entry that is older than its fork",
      "entry_order",
      "entry 9",
      [
        .conversation(
          ConversationRecord(id: id(40), parent: .init(conversationId: .root, at: id(41)))
        ),
        entry(41, "pi.user", ["role": "user", "content": ""]),
        entry(9, "pi.user", in: 40, ["role": "user", "content": ""]),
      ]
    ),
    Damage(
      "a second result of a call",
      "result_twice",
      "entry 30",
      [entry(30, "pi.tool-result", ["role": "toolResult", "toolCallId": "c", "toolName": "t"])]
    ),
    Damage(
      "a call whose answer has it twice",
      "call_result",
      "conversation 1",
      [
        entry(
          30,
          "pi.assistant",
          [
            "role": "assistant", "provider": "p", "model": "m", "stopReason": "toolUse",
            "content": [
              ["type": "toolCall", "id": "d", "name": "t"],
              ["type": "toolCall", "id": "d", "name": "t"],
            ],
          ]
        )
      ]
    ),
    Damage(
      "a second whole prompt",
      "baseline",
      "conversation 1",
      [entry(30, "pi.system", ["role": "system", "content": "", "toolsAdded": [tool]])]
    ),
  ]

  private func findings(_ more: [StorageWrite]) async throws -> [StoreFinding] {
    let storage = MemoryStorage()
    var counters = StoreCounters()
    for (number, writes) in [Self.sound, more].enumerated() {
      let batch = Batch(sequence: Int64(number) + 1, writes: writes, at: 0)
      try await storage.apply([batch], expecting: counters, nextId: 100)
      counters = StoreCounters(nextSequence: Int64(number) + 2, nextId: 100)
    }
    let found = Mutex<[StoreFinding]>([])
    _ = try await StoreCheck.run(storage) { finding in found.withLock { $0.append(finding) } }
    return found.withLock { $0 }
  }

  @Test func `a sound store has no findings`() async throws {
    #expect(try await findings([]) == [])
  }

  @Test(arguments: damages)
  func `a broken invariant is named`(_ damage: Damage) async throws {
    let found = try await findings(damage.writes)
    #expect(
      found.contains { $0.code == damage.code && $0.object == damage.object },
      "\(found)"
    )
  }

  @Test func `a check goes on behind the first finding`() async throws {
    let found = try await findings(Self.live("tools", [["taskId": 98], ["taskId": 99]]))
    #expect(found.map(\.code) == ["slot", "slot"])
  }

  @Test func `summaries that were paid for and came to nothing are no damage`() async throws {
    var more = Usage(json: Self.usage)
    more.add(more)
    let change = Self.change(4, ["models": ["p/m": more.json], "tools": ["t": Self.usage]])
    #expect(try await findings([change]) == [])
  }

  @Test func `records that retention removed are not missed`() async throws {
    let entry = EntryRecord(
      id: Self.id(30),
      conversationId: .root,
      kind: "test",
      byTaskId: Self.id(29)
    )
    #expect(try await findings([.entry(entry)]) == [])
  }
}
