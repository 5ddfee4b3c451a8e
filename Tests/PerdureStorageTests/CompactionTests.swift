import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// Groups with removals, and what the store holds after them.
private struct RemovalScript {
  private(set) var groups: [[Batch]] = []
  private(set) var contents: [String] = []
  let nextId: Int64 = 1_000
  let last: Int64

  init(seed: UInt64, groups wanted: Int) async throws {
    let memory = MemoryStorage()
    var random = RandomGroups(state: seed)
    var removals = 0
    while groups.count < wanted || removals < 4 {
      let group = random.group()
      let counters = random.counters
      let answer = await sentence {
        try await memory.apply(group, expecting: counters, nextId: 1_000)
      }
      guard answer == "no error" else { continue }
      groups.append(group)
      for case .remove in group.flatMap({ $0.writes }) { removals += 1 }
      random.counters = StoreCounters(
        nextSequence: counters.nextSequence + Int64(group.count),
        nextId: nextId
      )
    }
    last = random.counters.nextSequence
    contents = try await dump(memory, last)
  }

  func play(on storage: any Storage) async throws {
    for group in groups {
      let counters = try await storage.counters()
      try await storage.apply(group, expecting: counters, nextId: nextId)
    }
  }
}

struct CompactionTests {
  struct Trial: Sendable, CustomTestStringConvertible {
    let fault: FaultyFiles.Fault
    let durability: Durability

    var testDescription: String { "a call that \(fault.rawValue), \(durability.rawValue)" }

    static let all = FaultyFiles.Fault.allCases.flatMap { fault in
      Durability.allCases.map { Trial(fault: fault, durability: $0) }
    }
  }

  @Test(arguments: Trial.all)
  func `whatever call of a compaction fails, nothing that was kept is lost`(
    trial: Trial
  ) async throws {
    let script = try await RemovalScript(seed: 11, groups: 60)
    let template = TemporaryFolder()
    let path = template.file("store")
    let storage = try await JSONLStorage.open(path: path, durability: .normal)
    try await script.play(on: storage)
    await storage.close()
    var call = 1
    while try await meets(trial, at: call, path, script) { call += 1 }
    #expect(call > 12)
  }

  /// Compacts a copy over a disk that fails in one call; `false` if that call never came.
  private func meets(
    _ trial: Trial,
    at call: Int,
    _ template: String,
    _ script: RemovalScript
  ) async throws -> Bool {
    let folder = TemporaryFolder()
    let path = folder.file("store")
    try copy(template, to: path)
    let about: Comment = "call \(call)"
    let files = Mutex<FaultyFiles?>(nil)
    do {
      let storage = try await JSONLStorage.open(path: path, durability: trial.durability) { base in
        let faulty = FaultyFiles(base, trial.fault, at: call)
        files.withLock { $0 = faulty }
        return faulty
      }
      let answer = await code { try await storage.compact() }
      switch answer {
      // Nothing was changed yet, so the store goes on.
      case .storeUnwritable, nil: #expect(try await dump(storage, script.last) == script.contents)
      default: #expect(answer == .storageFailed, about)
      }
      await storage.close()
    } catch let error as PerdureError {
      // It could not be opened.
      #expect(error.hint != nil, about)
    }
    for isReading in [true, false, false] {
      let storage = try await JSONLStorage.open(path: path, readOnly: isReading)
      #expect(try await dump(storage, script.last) == script.contents, about)
      #expect(try await storage.counters().nextSequence == script.last, about)
      #expect(try await storage.counters().nextId == script.nextId, about)
      if !isReading { try await storage.compact() }
      await storage.close()
    }
    return files.withLock { $0?.hasFailed ?? false }
  }

  private func copy(_ template: String, to path: String) throws {
    let from = try FolderFiles(at: template, creates: false)
    let files = try FolderFiles(at: path, creates: true)
    for name in try from.names() { try files.write(try from.read(name, from: 0) ?? [], to: name) }
  }

  @Test func `a compacted folder names nothing that was removed`() async throws {
    let folder = TemporaryFolder()
    let path = folder.file("store")
    let storage = try await JSONLStorage.open(path: path, durability: .normal)
    let store = try await DirectStore(storage)
    let history = DocumentRecord(
      id: known(5),
      address: DocumentAddress(kind: "secret-history", scope: .conversation(.root)),
      history: .rewindable,
      fork: .asOf,
      createdAt: 0
    )
    let commits: [[StorageWrite]] = [
      [.conversation(ConversationRecord(id: .root)), entry(2, "secret-entry"), entry(3, "kept")],
      [task(4, kind: "secret-task", .terminal(.completed(result: .null)))],
      [.createDocument(history, version: 1, value: ["n": "secret-value"])],
      [
        .remove(RecordReference(.entry, 2)), .remove(RecordReference(.task, 4)),
        .remove(RecordReference(.document, 5)),
      ],
    ]
    for writes in commits { _ = try await store.commit(writes, extras: []) }
    try await storage.compact()
    await store.close()
    let files = try #require(try? FolderFiles(at: path, creates: false))
    for name in try files.names() {
      let text = String(decoding: try files.read(name, from: 0) ?? [], as: UTF8.self)
      #expect(!text.contains("secret"), "\(name): \(text)")
    }
    #expect(try !files.names().contains("doc-5.jsonl"))
  }

  @Test func `a compacted folder keeps other programs from counting ids anew`() async throws {
    let folder = TemporaryFolder()
    let path = folder.file("store")
    let storage = try await JSONLStorage.open(path: path, durability: .normal)
    let store = try await DirectStore(storage)
    _ = try await store.commit(
      [.conversation(ConversationRecord(id: .root)), entry(40)],
      extras: []
    )
    _ = try await store.commit([.remove(RecordReference(.entry, 40))], extras: [])
    try await storage.compact()
    await store.close()
    let files = try FolderFiles(at: path, creates: false)
    // What Perdure alone reads is taken away, as if it had never been there.
    try files.remove("perdure.jsonl")
    let again = try await JSONLStorage.open(path: path, durability: .normal)
    #expect(try await again.counters() == StoreCounters(nextSequence: 3, nextId: 41))
    #expect(try await again.document(known(40), at: nil) == nil)
    let documents = try await again.scanDocuments(
      DocumentQuery(scope: .session, includesRetired: true),
      PageRequest(limit: 9)
    )
    #expect(documents.items == [])
    await again.close()
  }

  @Test func `a folder that somebody reads is not compacted`() async throws {
    let folder = TemporaryFolder()
    let path = folder.file("store")
    let storage = try await JSONLStorage.open(path: path, durability: .normal)
    let store = try await DirectStore(storage)
    _ = try await store.commit([entry(2)], extras: [])
    let reader = try FolderFiles(at: path, creates: false)
    reader.share()
    #expect(await code { try await storage.compact() } == .storeBusy)
    reader.release()
    _ = try await store.commit([entry(3)], extras: [])
    try await storage.compact()
    #expect(try await storage.entry(known(3)) != nil)
    await store.close()
  }

  @Test func `a commit after a compaction is kept`() async throws {
    let script = try await RemovalScript(seed: 3, groups: 40)
    let folder = TemporaryFolder()
    let path = folder.file("store")
    var storage = try await JSONLStorage.open(path: path)
    try await script.play(on: storage)
    try await storage.compact()
    let counters = try await storage.counters()
    let batch = Batch(
      sequence: counters.nextSequence,
      writes: [entry(900)],
      extras: [ExtraWrite(scope: "later", id: 900, value: 1)],
      at: 0
    )
    try await storage.apply([batch], expecting: counters, nextId: counters.nextId)
    await storage.close()
    storage = try await JSONLStorage.open(path: path)
    #expect(try await storage.entry(known(900))?.commitSequence == counters.nextSequence)
    #expect(try await storage.extra(scope: "later", id: 900) == 1)
    #expect(try await dump(storage, script.last) == script.contents)
    await storage.close()
  }

  @Test func `a compacted database is smaller and passes its own check`() async throws {
    let folder = TemporaryFolder()
    let storage = try await openStore(folder)
    let store = try await DirectStore(storage)
    let text = JSON.string(String(repeating: "x", count: 2_000))
    let ids = Int64(2)..<400
    _ = try await store.commit(ids.map { entry($0, text) }, extras: [])
    _ = try await store.commit(
      ids.dropLast(10).map { .remove(RecordReference(.entry, $0)) },
      extras: []
    )
    try await storage.inspect { try $0.checkpoint(truncating: true) }
    let before = read(folder.file("store.sqlite")).count
    try await storage.compact()
    let after = read(folder.file("store.sqlite")).count
    #expect(before > 800_000 && after < before / 4, "\(before) bytes, then \(after)")
    let check = try await storage.inspect { connection in
      try connection.first("PRAGMA integrity_check") { $0.string(0) }
    }
    #expect(check == "ok")
    #expect(try await storage.entry(known(399))?.entry.data == text)
    _ = try await store.commit([entry(500)], extras: [])
    await store.close()
  }
}
