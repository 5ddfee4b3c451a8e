import Perdure
import PerdureModel
import PerdureStorage

/// A store with a long past, written through the port of the storage rather than lived through.
///
/// Each conversation gets user and assistant entries of 200 bytes by turns, with their times, and
/// for every answer the ended task that gave it, as a store has that has been used.
struct Seed {
  private static let text = String(repeating: "y", count: 200)
  private static let entriesPerCommit = 500
  private static let commitsPerGroup = 4

  private let storage: any Storage
  private var counters: StoreCounters
  private let time: Int64 = 1_700_000_000_000

  /// Makes the store in another process, so that this one has not used what that takes.
  ///
  /// `entries` are shared out to conversations of `length` each; the root conversation comes first.
  static func start(_ arguments: Arguments, entries: Int, length: Int) throws {
    let child = try Child.start([
      "seed", "--dir", arguments.folder, "--n", String(entries), "--h", String(length),
    ])
    _ = child.readLine()
    let status = child.wait()
    guard status == 0 else {
      throw PerdureError(.storageFailed, "the seeding process ended with status \(status)")
    }
  }

  static func run(_ arguments: Arguments) async throws {
    let path = arguments.folder + "/perdure.db"
    Machine.removeDatabase(path)
    let entries = arguments.count ?? 1_000_000
    let length = max(1, arguments.history == 0 ? entries : arguments.history)
    var quick = arguments
    quick.sync = "normal"
    let start = Machine.now
    let ids = try await conversations(quick, count: max(1, (entries + length - 1) / length))
    let storage = try await SQLiteStorage.open(path: path, durability: .normal)
    var seed = Seed(storage: storage, counters: try await storage.counters())
    for (number, id) in ids.enumerated() {
      try await seed.fill(id, count: min(length, entries - number * length))
    }
    await storage.close()
    var line = ResultLine("seed")
    line["entries"] = .int(Int64(entries))
    line["conversations"] = .int(Int64(ids.count))
    line.set("seconds", milliseconds(Machine.now - start) / 1_000)
    line.print(try Calibration(in: arguments.folder))
  }

  /// Creates the conversations as a host does.
  private static func conversations(
    _ arguments: Arguments,
    count: Int
  ) async throws -> [ConversationID] {
    let host = try await BenchHost.open(arguments, BenchModel(calls: 0, stamps: nil))
    var ids = [host.conversation.id]
    while ids.count < count {
      ids.append(try await host.harness.createConversation().id)
    }
    try await host.harness.close()
    return ids
  }

  private mutating func fill(_ conversation: ConversationID, count: Int) async throws {
    var written = 0
    while written < count {
      var group: [Batch] = []
      var next = counters
      while group.count < Self.commitsPerGroup, written < count {
        let entries = min(Self.entriesPerCommit, count - written)
        group.append(try batch(conversation, written..<written + entries, &next))
        written += entries
      }
      try await storage.apply(group, expecting: counters, nextId: next.nextId)
      counters = next
    }
  }

  private func batch(
    _ conversation: ConversationID,
    _ numbers: Range<Int>,
    _ counters: inout StoreCounters
  ) throws -> Batch {
    var batch = Batch(sequence: counters.nextSequence, writes: [], at: time)
    for number in numbers {
      let isAnswer = number % 2 == 1
      let task = isAnswer ? try mint(&counters, TaskID.init) : nil
      let entry = try mint(&counters, EntryID.init)
      batch.writes.append(
        .entry(
          EntryRecord(
            id: entry,
            conversationId: conversation,
            kind: isAnswer ? "pi.assistant" : "pi.user",
            model: [isAnswer ? answer : question],
            byTaskId: task
          )
        )
      )
      if let task { batch.writes.append(.task(ended(task, conversation, answer: entry))) }
      batch.extras.append(ExtraWrite(scope: "entry", id: entry.value, value: ["at": .int(time)]))
    }
    counters.nextSequence += 1
    return batch
  }

  private func mint<ID>(_ counters: inout StoreCounters, _ make: (Int64) -> ID?) throws -> ID {
    guard let id = make(counters.nextId) else {
      throw PerdureError(.invalidInput, "the store has no ids left")
    }
    counters.nextId += 1
    return id
  }

  private var question: JSON {
    ["role": "user", "content": .string(JSONString(Self.text)), "timestamp": .int(time)]
  }

  private var answer: JSON {
    [
      "role": "assistant",
      "content": [["type": "text", "text": .string(JSONString(Self.text))]],
      "api": "bench", "provider": "bench", "model": "bench", "stopReason": "stop",
      "timestamp": .int(time),
    ]
  }

  private func ended(
    _ id: TaskID,
    _ conversation: ConversationID,
    answer: EntryID
  ) -> TaskRecord {
    var task = TaskRecord(
      id: id,
      conversationId: conversation,
      kind: "pi.generation",
      version: 1,
      input: [:],
      state: .terminal(.completed(result: ["entryId": answer.json]))
    )
    task.startedAt = time
    task.endedAt = time
    return task
  }
}
