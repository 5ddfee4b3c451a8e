import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct DocumentTests {
  static let scopes: [DocumentDefinition.Scope] = [
    .session, .conversation(.latest, .initial), .conversation(.latest, .current),
    .conversation(.rewindable, .asOf), .conversation(.rewindable, .current),
    .conversation(.rewindable, .initial), .task,
  ]

  static func scope(
    _ kind: DocumentDefinition.Scope,
    _ bench: StoreBench
  ) async throws -> DocumentScope {
    switch kind {
    case .session: .session
    case .conversation: .conversation(.root)
    case .task: .task(try await bench.task().id)
    }
  }

  @Test(arguments: StoreKind.allCases, scopes)
  func `a document of every scope lives from its first opening to its retirement`(
    _ kind: StoreKind,
    _ scopeKind: DocumentDefinition.Scope
  ) async throws {
    let bench = try await StoreBench(kind)
    let scope = try await Self.scope(scopeKind, bench)
    let definition = DocumentDefinition.test(scopeKind)
    #expect(try await bench.session.snapshot(definition, in: scope) == nil)
    try await bench.session.commit { try await $0.edit(definition, in: scope) { _ in } }
    #expect(try await bench.session.snapshot(definition, in: scope) == [:])
    try await bench.session.commit { tx in
      try await tx.edit(definition, in: scope) { try $0.set(["text"], "ab") }
    }
    try await bench.reopen()
    try await bench.session.commit { tx in
      #expect(try await tx.value(definition, in: scope) == ["text": "ab"])
      try await tx.edit(definition, in: scope) { try $0.append(["text"], "c") }
      #expect(try await tx.value(definition, in: scope) == ["text": "abc"])
    }
    try await bench.reopen()
    #expect(try await bench.session.snapshot(definition, in: scope) == ["text": "abc"])
    try await bench.session.commit { try await $0.retire(definition, in: scope) }
    #expect(try await bench.session.snapshot(definition, in: scope) == nil)
    try await bench.reopen()
    #expect(try await bench.session.snapshot(definition, in: scope) == nil)
    try await bench.end()
  }

  @Test(arguments: StoreKind.allCases)
  func `the members of a family are told apart by their keys`(_ kind: StoreKind) async throws {
    let bench = try await StoreBench(kind)
    let definition = DocumentDefinition.test(isFamily: true)
    // The empty key is a key; canonically equivalent spellings are two.
    let keys: [JSONString] = ["", "a", "e\u{301}", "\u{E9}", JSONString(utf16: [0xD800])]
    try await bench.session.commit { tx in
      for (number, key) in keys.enumerated() {
        try await tx.edit(definition, in: .conversation(.root), key: key) { draft in
          try draft.set(["number"], .int(number))
        }
      }
    }
    try await bench.reopen()
    for (number, key) in keys.enumerated() {
      let value = try await bench.session.snapshot(definition, in: .conversation(.root), key: key)
      #expect(value == ["number": .int(number)])
    }
    let absent = try await bench.session.snapshot(
      definition,
      in: .conversation(.root),
      key: "absent"
    )
    #expect(absent == nil)
    try await bench.end()
  }

  @Test func `the first seed of an absent member counts`() async throws {
    let bench = try await StoreBench(.memory)
    let definition = DocumentDefinition.test(.session, isFamily: true)
    try await bench.session.commit { tx in
      for seed in [["n": 1], ["n": 2]] as [JSON] {
        try await tx.edit(definition, in: .session, key: "k", seed: seed) { _ in }
      }
    }
    try await bench.session.commit { tx in
      try await tx.edit(definition, in: .session, key: "k", seed: ["n": 3]) { _ in }
    }
    #expect(try await bench.session.snapshot(definition, in: .session, key: "k") == ["n": 1])
  }

  @Test func `reading never creates`() async throws {
    let bench = try await StoreBench(.memory)
    let before = bench.session.store.lastStaged
    let definition = DocumentDefinition.test(.session)
    _ = try await bench.session.snapshot(definition, in: .session)
    let value = try await bench.session.commit { try await $0.value(definition, in: .session) }
    #expect(value == nil)
    try await bench.session.commit { try await $0.retire(definition, in: .session) }
    #expect(bench.session.store.lastStaged == before)
  }

  @Test func `a definition that does not fit is refused before anything is read`() async throws {
    let bench = try await StoreBench(.memory)
    let root = DocumentScope.conversation(.root)
    let misfits: [(DocumentDefinition, DocumentScope, JSONString?)] = [
      (.test(.session), root, nil), (.test(.task), .session, nil), (.test(), .session, nil),
      (.test(isFamily: true), root, nil), (.test(), root, "key"), (.test(version: 0), root, nil),
      (.test(kind: ""), root, nil), (.test(.conversation(.latest, .asOf)), root, nil),
    ]
    for (definition, scope, key) in misfits {
      let error = await bench.error { tx in
        try await tx.edit(definition, in: scope, key: key) { _ in }
      }
      #expect(error?.code == .documentMismatch)
      await #expect(throws: PerdureError.self) {
        try await bench.session.snapshot(definition, in: scope, key: key)
      }
    }
    try await bench.end()
  }

  @Test func `another history or fork than the stored one is refused`() async throws {
    let bench = try await StoreBench(.memory)
    try await bench.session.commit { tx in
      try await tx.edit(.test(.conversation(.latest, .current)), .root) { _ in }
    }
    let other = DocumentDefinition.test(.conversation(.latest, .initial))
    let accesses: [(Transaction) async throws -> Void] = [
      { try await $0.edit(other, .root) { _ in } },
      { _ = try await $0.value(other, .root) },
      { try await $0.retire(other, in: .conversation(.root)) },
    ]
    for access in accesses {
      let error = await bench.error(access)
      #expect(error?.code == .documentMismatch)
    }
    await #expect(throws: PerdureError.self) { try await bench.session.snapshot(other, .root) }
  }

  @Test func `an initial value that is no object ends the commit`() async throws {
    let bench = try await StoreBench(.memory)
    let error = await bench.error { tx in
      try await tx.edit(.test(.session), in: .session, seed: [1]) { _ in }
    }
    #expect(error?.code == .documentMismatch)
  }

  @Test func `a document needs its conversation or a live task`() async throws {
    let bench = try await StoreBench(.memory)
    let task = try await bench.task()
    try await bench.end(task)
    let scopes: [(DocumentDefinition.Scope, DocumentScope, PerdureError.Code)] = [
      (.conversation(.latest, .initial), .conversation(.known(99)), .notFound),
      (.task, .task(.known(99)), .notFound), (.task, .task(task.id), .invalidBatch),
    ]
    for (kind, scope, code) in scopes {
      let error = await bench.error { try await $0.edit(.test(kind), in: scope) { _ in } }
      #expect(error?.code == code)
    }
  }

  // MARK: Retirement

  @Test(arguments: StoreKind.allCases, scopes)
  func `one commit may end a document and begin its successor`(
    _ kind: StoreKind,
    _ scopeKind: DocumentDefinition.Scope
  ) async throws {
    let bench = try await StoreBench(kind)
    let scope = try await Self.scope(scopeKind, bench)
    let definition = DocumentDefinition.test(scopeKind)
    try await bench.session.commit { tx in
      try await tx.edit(definition, in: scope) { try $0.set(["n"], 1) }
    }
    let first = try await record(definition, scope, bench)
    try await bench.session.commit { tx in
      try await tx.edit(definition, in: scope) { try $0.set(["last"], true) }
      try await tx.retire(definition, in: scope)
      try await tx.retire(definition, in: scope)
      #expect(try await tx.value(definition, in: scope) == nil)
      try await tx.edit(definition, in: scope) { try $0.set(["n"], 2) }
      #expect(try await tx.value(definition, in: scope) == ["n": 2])
    }
    let second = try await record(definition, scope, bench)
    #expect(first?.id != second?.id)
    #expect(bench.lastWrites.count == 3)
    #expect(try await bench.session.snapshot(definition, in: scope) == ["n": 2])
    try await bench.reopen()
    #expect(try await bench.session.snapshot(definition, in: scope) == ["n": 2])
    try await bench.end()
  }

  @Test(arguments: StoreKind.allCases)
  func `a document may be created and retired at once`(_ kind: StoreKind) async throws {
    let bench = try await StoreBench(kind)
    let commits = Commits(bench.session)
    let definition = DocumentDefinition.test(.conversation(.rewindable, .asOf))
    try await bench.session.commit { tx in
      try await tx.edit(definition, .root) { try $0.set(["n"], 1) }
      try await tx.retire(definition, in: .conversation(.root))
    }
    #expect(bench.lastWrites.count == 2)
    guard case .document(let record, nil, nil, [])? = commits.all.last?.changes.last else {
      Issue.record("no retirement was published")
      return
    }
    #expect(record.createdAt == record.retiredAt)
    #expect(try await bench.session.snapshot(definition, in: .conversation(.root)) == nil)
    try await bench.end()
  }

  private func record(
    _ definition: DocumentDefinition,
    _ scope: DocumentScope,
    _ bench: StoreBench
  ) async throws -> DocumentRecord? {
    try await bench.session.store.findDocument(
      DocumentAddress(kind: definition.kind, scope: scope),
      at: nil
    )
  }

  enum TaskAge: CaseIterable, Sendable { case sameCommit, sameSession, earlierSession }

  @Test(arguments: StoreKind.allCases, TaskAge.allCases)
  func `the documents of a task end with it`(_ kind: StoreKind, _ age: TaskAge) async throws {
    let bench = try await StoreBench(kind)
    let task = try await bench.task()
    let scope = DocumentScope.task(task.id)
    let early = DocumentDefinition.test(.task, kind: "early")
    let late = DocumentDefinition.test(.task, kind: "late")
    if age != .sameCommit {
      try await bench.session.commit { try await $0.edit(early, in: scope) { _ in } }
    }
    if age == .earlierSession { try await bench.reopen() }
    try await bench.session.commit { tx in
      if age == .sameCommit { try await tx.edit(early, in: scope) { _ in } }
      try await tx.edit(late, in: scope) { try $0.set(["n"], 1) }
      var ended = task
      ended.state = TransactionTests.ended
      try await tx.replace(ended)
      await #expect(throws: PerdureError.self) { try await tx.edit(late, in: scope) { _ in } }
    }
    for definition in [early, late] {
      #expect(try await bench.session.snapshot(definition, in: scope) == nil)
    }
    let left = try await bench.storage.scanDocuments(DocumentQuery(scope: scope), .init(limit: 9))
    #expect(left.items == [])
    try await bench.end()
  }

  @Test func `the end of a task without documents reads nothing`() async throws {
    let bench = try await StoreBench(.memory)
    let tasks = [try await bench.task(), try await bench.task()]
    let count = bench.storage.groups.count
    for task in tasks {
      _ = try await bench.session.stage { tx in
        var ended = task
        ended.state = TransactionTests.ended
        try await tx.replace(ended)
      }
    }
    #expect(bench.storage.groups.count == count)
    try await bench.end()
  }

  // MARK: Bases

  @Test(arguments: StoreKind.allCases)
  func `the policy is asked once with the deltas since the base`(_ kind: StoreKind) async throws {
    let bench = try await StoreBench(kind)
    let asked = Log<Int>()
    let definition = DocumentDefinition.test(storesBase: { change in
      asked.add(change.deltasSinceBase)
      return change.deltasSinceBase == 2
    })
    for number in 0..<7 {
      if number == 4 { try await bench.reopen() }
      try await bench.session.commit { tx in
        try await tx.edit(definition, .root) { try $0.set(["n"], .int(number)) }
      }
    }
    // The creation is a base without being asked for.
    #expect(asked.all == [0, 1, 2, 0, 1, 2])
    #expect(try await bench.session.snapshot(definition, .root) == ["n": 6])
    try await bench.end()
  }

  @Test func `a policy that throws ends the commit and nothing else`() async throws {
    let bench = try await StoreBench(.memory)
    let definition = DocumentDefinition.test(storesBase: { _ in
      throw PerdureError(.invalidInput, "no")
    })
    try await bench.session.commit { try await $0.edit(definition, .root) { _ in } }
    let error = await bench.error { try await $0.edit(definition, .root) { try $0.set(["n"], 1) } }
    #expect(error?.code == .invalidInput)
    #expect(try await bench.session.snapshot(definition, .root) == [:])
    try await bench.append()
    try await bench.end()
  }

  @Test func `a short change of a long document is a short write`() async throws {
    let bench = try await StoreBench(.memory)
    let definition = DocumentDefinition.test()
    let text = JSONString(String(repeating: "word ", count: 200_000))
    try await bench.session.commit { tx in
      try await tx.edit(definition, .root) { try $0.set(["text"], .string(text)) }
    }
    try await bench.session.commit { tx in
      try await tx.edit(definition, .root) { try $0.append(["text"], "word") }
    }
    guard case .changeDocument(_, .delta(1, let operations))? = bench.lastWrites.last else {
      Issue.record("no delta")
      return
    }
    #expect(operations == [.append(["text"], "word")])
  }

  // MARK: Versions

  private static func second(_ count: Log<Int64>) -> DocumentDefinition {
    .test(version: 2) { value, version in
      count.add(version)
      return ["text": value["old"] ?? value["text"] ?? .null]
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `reading an older version migrates and writes nothing`(_ kind: StoreKind) async throws {
    let bench = try await StoreBench(kind)
    try await bench.session.commit { tx in
      try await tx.edit(.test(), .root) { try $0.set(["old"], "a") }
    }
    let before = bench.session.store.lastStaged
    let definition = Self.second(Log())
    #expect(try await bench.session.snapshot(definition, .root) == ["text": "a"])
    // Nobody migrates what is migrated already.
    #expect(try await bench.session.snapshot(definition, .root) == ["text": "a"])
    let value = try await bench.session.commit { try await $0.value(definition, .root) }
    #expect(value == ["text": "a"])
    #expect(bench.session.store.lastStaged == before)
    #expect(try await bench.session.snapshot(.test(), .root) == ["old": "a"])
    try await bench.end()
  }

  @Test(arguments: StoreKind.allCases)
  func `opening an older version stores a base of the new one`(_ kind: StoreKind) async throws {
    let bench = try await StoreBench(kind)
    for text in ["a", "ab"] {
      try await bench.session.commit { tx in
        try await tx.edit(.test(), .root) { try $0.set(["old"], .string(text)) }
      }
    }
    let log = Log<Int64>()
    try await bench.session.commit { try await $0.edit(Self.second(log), .root) { _ in } }
    #expect(log.all == [1])
    guard case .changeDocument(_, .base(2, ["text": "ab"]))? = bench.lastWrites.last else {
      Issue.record("no base of version 2")
      return
    }
    try await bench.session.commit { tx in
      try await tx.edit(Self.second(log), .root) { try $0.append(["text"], "c") }
    }
    try await bench.reopen()
    #expect(try await bench.session.snapshot(Self.second(log), .root) == ["text": "abc"])
    #expect(log.all == [1])
    await #expect(throws: PerdureError.self) { try await bench.session.snapshot(.test(), .root) }
    try await bench.end()
  }

  @Test func `a version transition publishes the way from the old value`() async throws {
    let bench = try await StoreBench(.memory)
    let commits = Commits(bench.session)
    try await bench.session.commit { tx in
      try await tx.edit(.test(kind: "moved"), .root) { try $0.set(["old"], "a") }
      try await tx.edit(.test(kind: "equal"), .root) { try $0.set(["text"], "a") }
    }
    try await bench.session.commit { tx in
      for kind in ["moved", "equal"] as [JSONString] {
        var definition = Self.second(Log())
        definition.kind = kind
        try await tx.edit(definition, .root) { _ in }
      }
    }
    let operations = commits.all.last?.changes.compactMap { change in
      if case .document(_, 2, .some, let operations) = change { operations } else { nil }
    }
    #expect(operations == [[.replace(["text": "a"])], []])
    #expect(bench.lastWrites.count == 2)
  }

  @Test func `a version that cannot be reached is refused`() async throws {
    let bench = try await StoreBench(.memory)
    try await bench.session.commit { tx in
      try await tx.edit(.test(version: 2), .root) { _ in }
    }
    let cases: [(DocumentDefinition, PerdureError.Code)] = [
      (.test(version: 3), .documentMismatch), (.test(version: 1), .unsupportedFeature),
      (.test(version: 3) { _, _ in [1] }, .documentMismatch),
      (.test(version: 3) { _, _ in throw PerdureError(.invalidInput, "no") }, .invalidInput),
    ]
    for (definition, code) in cases {
      let error = await bench.error { try await $0.edit(definition, .root) { _ in } }
      #expect(error?.code == code)
    }
    try await bench.end()
  }

  @Test func `two definitions of one document do not meet in a commit`() async throws {
    let bench = try await StoreBench(.memory)
    let error = await bench.error { tx in
      try await tx.edit(.test(), .root) { _ in }
      try await tx.edit(Self.second(Log()), .root) { _ in }
    }
    #expect(error?.code == .documentMismatch)
  }

  // MARK: Snapshots

  @Test func `a snapshot shows what is on disk`() async throws {
    let bench = try await StoreBench(.memory)
    let definition = DocumentDefinition.test(.session)
    try await bench.session.commit { try await $0.edit(definition, in: .session) { _ in } }
    _ = try await bench.session.stage { tx in
      try await tx.edit(definition, in: .session) { try $0.set(["n"], 1) }
    }
    #expect(try await bench.session.snapshot(definition, in: .session) == [:])
    try await bench.session.barrier()
    #expect(try await bench.session.snapshot(definition, in: .session) == ["n": 1])
    _ = try await bench.session.stage { try await $0.retire(definition, in: .session) }
    #expect(try await bench.session.snapshot(definition, in: .session) == ["n": 1])
    try await bench.session.barrier()
    #expect(try await bench.session.snapshot(definition, in: .session) == nil)
  }

  @Test(arguments: StoreKind.allCases)
  func `a historical read sees the end of the commit of its entry`(_ kind: StoreKind) async throws {
    let bench = try await StoreBench(kind)
    let definition = DocumentDefinition.test(.conversation(.rewindable, .asOf))
    let before = try await bench.append()
    var entries: [EntryID] = []
    for number in 0..<3 {
      let entry = try await bench.session.commit { tx in
        let entry = try await tx.append(EntryDraft(kind: "test"), to: .root)
        try await tx.edit(definition, .root) { try $0.set(["n"], .int(number)) }
        return entry.id
      }
      entries.append(entry)
    }
    let retired = try await bench.session.commit { tx in
      let entry = try await tx.append(EntryDraft(kind: "test"), to: .root)
      try await tx.retire(definition, in: .conversation(.root))
      return entry.id
    }
    for isReopened in [false, true] {
      if isReopened { try await bench.reopen() }
      for (number, entry) in entries.enumerated() {
        let value = try await bench.session.snapshot(definition, in: .root, asOf: entry)
        #expect(value == ["n": .int(number)])
      }
      for entry in [before, retired] {
        #expect(try await bench.session.snapshot(definition, in: .root, asOf: entry) == nil)
      }
    }
    // Older revisions are migrated after they were read.
    let later = DocumentDefinition.test(
      .conversation(.rewindable, .asOf),
      version: 2,
      migrate: { value, _ in ["m": value["n"] ?? .null] }
    )
    #expect(try await bench.session.snapshot(later, in: .root, asOf: entries[1]) == ["m": 1])
    try await bench.end()
  }

  @Test func `history is read only where there is some`() async throws {
    let bench = try await StoreBench(.memory)
    let entry = try await bench.append()
    let rewindable = DocumentDefinition.test(.conversation(.rewindable, .asOf))
    let cases: [(DocumentDefinition, ConversationID, EntryID, PerdureError.Code)] = [
      (.test(), .root, entry, .documentMismatch),
      (.test(.session), .root, entry, .documentMismatch),
      (rewindable, .root, .known(999), .notFound), (rewindable, .known(998), entry, .notFound),
    ]
    for (definition, conversation, entry, code) in cases {
      let error = await #expect(throws: PerdureError.self) {
        try await bench.session.snapshot(definition, in: conversation, asOf: entry)
      }
      #expect(error?.code == code)
    }
    try await bench.end()
  }
}
