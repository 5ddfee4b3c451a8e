import Glibc
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

struct JSONLTests {
  private let folder = TemporaryFolder()

  private var path: String { folder.file("store") }

  private func open(
    durability: Durability = .normal,
    readOnly: Bool = false
  ) async throws -> JSONLStorage {
    try await JSONLStorage.open(path: path, durability: durability, readOnly: readOnly)
  }

  private func text(_ name: String) -> String {
    String(decoding: read(path + "/" + name), as: UTF8.self)
  }

  private var names: [String] { folder.names(in: path) }

  private func commit(_ store: DirectStore, _ writes: StorageWrite...) async throws {
    _ = try await store.commit(writes, extras: [])
  }

  // MARK: The format

  @Test func `a commit is sidecar lines and one marker`() async throws {
    let store = try await DirectStore(try await open())
    let live = document(4)
    try await commit(store, .createDocument(live, version: 1, value: ["n": 1]))
    let submission = SubmissionRecord(
      id: known(6),
      conversationId: .root,
      kind: .input,
      state: .queued
    )
    try await commit(
      store,
      entry(5, "é"),
      .submission(submission),
      task(7, .pending(checkpoint: .null)),
      .changeDocument(live.id, .delta(version: 1, operations: [.set(["n"], 2)]))
    )
    await store.close()
    let record =
      #"{"id":7,"conversationId":1,"kind":"test","version":1,"input":null,"background":false,"#
      + #""abortRequested":false,"state":{"status":"pending","checkpoint":null}}"#
    #expect(
      text("task-7.jsonl")
        == #"{"format":1,"type":"record","seq":2,"ordinal":0,"payload":{"type":"task","value":"#
        + record + "}}\n"
    )
    #expect(
      text("doc-4.jsonl").split(separator: "\n").last.map(String.init)
        == #"{"format":1,"type":"record","seq":2,"ordinal":1,"payload":{"type":"document","id":4,"#
        + #""content":{"kind":"delta","version":1,"ops":[["s",["n"],2]]}}}"#
    )
    #expect(
      text("main.jsonl")
        == #"{"format":1,"type":"commit","seq":1,"writes":[{"type":"document.create","record":"#
        + #"{"id":4,"kind":"doc","scope":{"kind":"session"}},"ordinal":0}]}"# + "\n"
        + #"{"format":1,"type":"commit","seq":2,"writes":[{"type":"entry","value":{"id":5,"#
        + #""conversationId":1,"kind":"test","data":"é"}},{"type":"submission","value":{"id":6,"#
        + #""conversationId":1,"type":"input","status":"queued"}},"#
        + #"{"type":"task.sidecar","id":7,"ordinal":0},"#
        + #"{"type":"document.change","id":4,"ordinal":1}]}"# + "\n"
    )
    #expect(names == ["doc-4.jsonl", "main.jsonl", "perdure.lock", "task-7.jsonl"])
  }

  @Test func `an empty batch is a commit`() async throws {
    let store = try await DirectStore(try await open())
    try await commit(store)
    await store.close()
    #expect(text("main.jsonl") == #"{"format":1,"type":"commit","seq":1,"writes":[]}"# + "\n")
  }

  @Test func `gaps between the commits of another program are kept`() async throws {
    try await open().close()
    write(
      Array(#"{"format":1,"type":"commit","seq":9,"writes":[]}"#.utf8) + [10],
      to: path + "/main.jsonl"
    )
    let storage = try await open()
    #expect(try await storage.counters().nextSequence == 10)
    await storage.close()
  }

  @Test func `nobody but the owner may read a new store`() async throws {
    try await open().close()
    for (name, mode) in [("", 0o40700), ("/main.jsonl", 0o100600)] as [(String, mode_t)] {
      var status = stat()
      #expect(unsafe stat(path + name, &status) == 0)
      #expect(status.st_mode == mode)
    }
  }

  // MARK: The order of writes

  @Test func `markers are written and flushed when all that they confirm is on disk`() async throws
  {
    let files = Mutex<FaultyFiles?>(nil)
    let storage = try await JSONLStorage.open(path: path) { base in
      let recorded = FaultyFiles(base)
      files.withLock { $0 = recorded }
      return recorded
    }
    let before = files.withLock { $0?.calls.count ?? 0 }
    let group = [
      Batch(
        sequence: 1,
        writes: [task(2, .pending(checkpoint: 1))],
        extras: [ExtraWrite(scope: "a", id: 0, value: 1)],
        at: 0
      ),
      Batch(
        sequence: 2,
        writes: [
          task(2, .running(checkpoint: 1)), .createDocument(document(3), version: 1, value: [:]),
        ],
        at: 0
      ),
    ]
    try await storage.apply(group, expecting: StoreCounters(), nextId: 4)
    let calls = files.withLock { $0?.calls ?? [] }
    #expect(
      calls.dropFirst(before) == [
        "append task-2.jsonl", "append doc-3.jsonl", "append perdure.jsonl", "flush task-2.jsonl",
        "flush doc-3.jsonl", "flush perdure.jsonl", "flush names", "append main.jsonl",
        "flush main.jsonl",
      ]
    )
    await storage.close()
  }

  @Test func `without full durability nothing waits for the disk`() async throws {
    let files = Mutex<FaultyFiles?>(nil)
    let storage = try await JSONLStorage.open(path: path, durability: .normal) { base in
      let recorded = FaultyFiles(base)
      files.withLock { $0 = recorded }
      return recorded
    }
    let store = try await DirectStore(storage)
    try await commit(store, .createDocument(document(2), version: 1, value: [:]))
    try await commit(store, .changeDocument(known(2), .base(version: 1, value: ["n": 1])))
    await store.close()
    let calls = files.withLock { $0?.calls ?? [] }
    #expect(calls.filter { $0.hasPrefix("flush") } == [])
    #expect(calls.contains("rename doc-2.jsonl.reclaim"))
  }

  // MARK: Reclamation

  @Test(arguments: Durability.allCases)
  func `a base frees what came before it, at the latest when the store is closed`(
    durability: Durability
  ) async throws {
    let store = try await DirectStore(try await open(durability: durability))
    try await commit(store, .createDocument(document(2), version: 1, value: ["n": 1]))
    try await commit(store, .changeDocument(known(2), .base(version: 2, value: ["n": 2])))
    let delta = DocumentContent.delta(version: 2, operations: [.set(["n"], 3)])
    try await commit(store, .changeDocument(known(2), delta))
    await store.close()
    let lines = text("doc-2.jsonl").split(separator: "\n")
    #expect(lines.count == 2)
    #expect(lines.first?.contains(#""seq":2,"ordinal":0"#) == true)
    let storage = try await open()
    #expect(try await storage.document(known(2), at: nil)?.value == ["n": 3])
    await storage.close()
  }

  @Test func `a long document is rewritten while the store is open`() async throws {
    let store = try await DirectStore(try await open(durability: .full))
    let value: JSON = ["text": .string(String(repeating: "x", count: 40_000))]
    try await commit(store, .createDocument(document(2), version: 1, value: value))
    for _ in 0..<5 {
      try await commit(store, .changeDocument(known(2), .base(version: 1, value: value)))
    }
    #expect(read(path + "/doc-2.jsonl").count < 130_000)
    #expect(try await store.reads.document(known(2), at: nil)?.value == value)
    await store.close()
  }

  @Test func `the file of a task that has ended and of a retired document goes`() async throws {
    let store = try await DirectStore(try await open())
    let kept = DocumentRecord(
      id: known(4),
      address: DocumentAddress(kind: "doc", scope: .conversation(.root)),
      history: .rewindable,
      fork: .asOf,
      createdAt: 0
    )
    try await commit(
      store,
      task(2, .running(checkpoint: 1)),
      .createDocument(document(3), version: 1, value: [:]),
      .createDocument(kept, version: 1, value: [:])
    )
    try await commit(
      store,
      task(2, .terminal(.completed(result: 1))),
      .retireDocument(known(3)),
      .retireDocument(known(4))
    )
    #expect(names == ["doc-4.jsonl", "main.jsonl", "perdure.lock"])
    await store.close()
    let storage = try await open()
    #expect(try await storage.task(known(2))?.state.outcome?.isCompleted == true)
    #expect(try await storage.document(known(4), at: 1)?.value == [:])
    await storage.close()
  }

  @Test func `what could not be removed is removed at the next opening`() async throws {
    let store = try await DirectStore(try await open())
    try await commit(
      store,
      task(2, .running(checkpoint: 1)),
      .createDocument(document(3), version: 1, value: ["n": 1])
    )
    let old = ["task-2.jsonl", "doc-3.jsonl"].map { ($0, read(path + "/" + $0)) }
    try await commit(
      store,
      task(2, .terminal(.completed(result: 1))),
      .changeDocument(known(3), .base(version: 1, value: ["n": 2]))
    )
    await store.close()
    let new = read(path + "/doc-3.jsonl")
    for (name, bytes) in old {
      write(name == "doc-3.jsonl" ? bytes + new : bytes, to: path + "/" + name)
    }
    write([1, 2, 3], to: path + "/doc-3.jsonl.reclaim")
    let storage = try await open()
    #expect(names == ["doc-3.jsonl", "main.jsonl", "perdure.lock"])
    #expect(read(path + "/doc-3.jsonl") == new)
    #expect(try await storage.document(known(3), at: nil)?.value == ["n": 2])
    await storage.close()
  }

  // MARK: Facts beside the records

  @Test func `facts of a commit that was cut off are not those of another with its number`()
    async throws
  {
    let store = try await DirectStore(try await open())
    _ = try await store.commit([], extras: [ExtraWrite(scope: "a", id: 0, value: "ours")])
    await store.close()
    // The marker got lost, and a program that knows no facts made another commit of that number.
    write(
      Array(
        (#"{"format":1,"type":"commit","seq":1,"writes":[{"type":"entry","value":"#
          + #"{"id":2,"conversationId":1,"kind":"test"}}]}"# + "\n").utf8
      ),
      to: path + "/main.jsonl"
    )
    let storage = try await open()
    #expect(try await storage.extra(scope: "a", id: 0) == nil)
    #expect(try await storage.entry(known(2)) != nil)
    let again = try await DirectStore(storage)
    _ = try await again.commit([], extras: [ExtraWrite(scope: "a", id: 0, value: "new")])
    await again.close()
    let reopened = try await open()
    #expect(try await reopened.extra(scope: "a", id: 0) == "new")
    await reopened.close()
  }
}
