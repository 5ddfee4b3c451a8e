import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

@Suite(.timeLimit(.minutes(5))) struct ForkTests {
  static let asOf = DocumentDefinition.test(.conversation(.rewindable, .asOf), kind: "asOf")
  static let current = DocumentDefinition.test(
    .conversation(.latest, .current),
    kind: "current",
    isFamily: true
  )
  static let initial = DocumentDefinition.test(kind: "initial")

  private func set(
    _ definition: DocumentDefinition,
    _ number: Int,
    in conversation: ConversationID = .root,
    key: JSONString? = nil,
    _ bench: StoreBench
  ) async throws {
    try await bench.session.commit { tx in
      try await tx.edit(definition, in: .conversation(conversation), key: key) { draft in
        try draft.set(["n"], .int(number))
      }
    }
  }

  private func fork(
    _ parent: ConversationID = .root,
    at entry: EntryID,
    _ bench: StoreBench
  ) async throws -> ConversationID {
    try await bench.session.commit { try await $0.forkConversation(parent, at: entry).id }
  }

  private func visible(_ id: ConversationID, _ bench: StoreBench) async throws -> [EntryID] {
    try await bench.session.store.scanEntries(
      EntryQuery(conversationId: id),
      PageRequest(limit: 256, order: .ascending)
    ).items.map(\.id)
  }

  @Test(arguments: StoreKind.allCases)
  func `a fork sees its parent up to the entry and its own entries`(
    _ kind: StoreKind
  ) async throws {
    let bench = try await StoreBench(kind)
    let first = try await bench.append()
    // Two entries of one commit: the fork is at the first of them.
    let (second, third) = try await bench.session.commit { tx in
      let second = try await tx.append(EntryDraft(kind: "test"), to: .root).id
      return (second, try await tx.append(EntryDraft(kind: "test"), to: .root).id)
    }
    let child = try await fork(at: second, bench)
    let later = try await bench.append()
    let own = try await bench.append(to: child)
    let grandchild = try await fork(child, at: first, bench)
    let deepest = try await bench.append(to: grandchild)
    for isReopened in [false, true] {
      if isReopened { try await bench.reopen() }
      #expect(try await visible(.root, bench) == [first, second, third, later])
      #expect(try await visible(child, bench) == [first, second, own])
      #expect(try await visible(grandchild, bench) == [first, deepest])
    }
    try await bench.end()
  }

  @Test(arguments: StoreKind.allCases)
  func `documents are copied as their stored policies say`(_ kind: StoreKind) async throws {
    let bench = try await StoreBench(kind)
    for definition in [Self.asOf, Self.initial] { try await set(definition, 1, bench) }
    try await set(Self.current, 1, key: "k", bench)
    let entry = try await bench.append()
    for definition in [Self.asOf, Self.initial] { try await set(definition, 2, bench) }
    try await set(Self.current, 2, key: "k", bench)
    try await set(Self.current, 2, key: "later", bench)
    let child = try await fork(at: entry, bench)
    for isReopened in [false, true] {
      if isReopened { try await bench.reopen() }
      #expect(try await bench.session.snapshot(Self.asOf, child) == ["n": 1])
      #expect(try await bench.session.snapshot(Self.initial, child) == [:])
      for key in ["k", "later"] as [JSONString] {
        let value = try await bench.session.snapshot(
          Self.current,
          in: .conversation(child),
          key: key
        )
        #expect(value == ["n": 2])
      }
    }
    // The copy is a document of its own.
    try await set(Self.asOf, 3, in: child, bench)
    #expect(try await bench.session.snapshot(Self.asOf, .root) == ["n": 2])
    #expect(try await bench.session.snapshot(Self.asOf, child) == ["n": 3])
    try await bench.end()
  }

  @Test(arguments: StoreKind.allCases)
  func `a fork at an inherited entry copies from the conversation that owns it`(
    _ kind: StoreKind
  ) async throws {
    let bench = try await StoreBench(kind)
    try await set(Self.asOf, 1, bench)
    let entry = try await bench.append()
    try await set(Self.asOf, 2, bench)
    let child = try await fork(at: entry, bench)
    try await set(Self.asOf, 3, in: child, bench)
    try await set(Self.current, 3, in: child, key: "k", bench)
    let own = try await bench.append(to: child)
    for (entry, expected) in [(entry, 1), (own, 3)] {
      let grandchild = try await fork(child, at: entry, bench)
      #expect(try await bench.session.snapshot(Self.asOf, grandchild) == ["n": .int(expected)])
      let value = try await bench.session.snapshot(
        Self.current,
        in: .conversation(grandchild),
        key: "k"
      )
      #expect(value == ["n": 3])
      // What a fork inherits of the past is read where it happened.
      let past = try await bench.session.snapshot(Self.asOf, in: grandchild, asOf: entry)
      #expect(past == ["n": .int(expected)])
    }
    try await bench.end()
  }

  @Test(arguments: StoreKind.allCases)
  func `a fork copies the stored version and not a migrated value`(_ kind: StoreKind) async throws {
    let bench = try await StoreBench(kind)
    try await set(Self.asOf, 1, bench)
    let entry = try await bench.append()
    var later = Self.asOf
    later.version = 2
    later.migrate = { value, from in ["m": value["n"] ?? .null, "from": .int(from)] }
    #expect(try await bench.session.snapshot(later, .root) == ["m": 1, "from": 1])
    let child = try await fork(at: entry, bench)
    #expect(try await bench.session.snapshot(Self.asOf, child) == ["n": 1])
    #expect(try await bench.session.snapshot(later, child) == ["m": 1, "from": 1])
    try await bench.end()
  }

  @Test(arguments: StoreKind.allCases)
  func `a fork has its own built-in documents and the choices of then`(
    _ kind: StoreKind
  ) async throws {
    let bench = try await StoreBench(kind)
    try await bench.session.commit { try await $0.configure(.root, ["cwd": "/then"]) }
    let entry = try await bench.append()
    try await bench.session.commit { tx in
      try await tx.configure(.root, ["cwd": "/now"])
      try await tx.edit(.usage, .root) { try $0.set(["models", "m"], 1) }
    }
    let child = try await fork(at: entry, bench)
    #expect(try await bench.session.snapshot(.agent, child) == ["cwd": "/then"])
    #expect(try await bench.session.snapshot(.usage, child) == ["models": [:], "tools": [:]])
    let provider = try await bench.session.snapshot(.provider, child)
    #expect(try await bench.session.snapshot(.provider, .root) != provider)
    let documents = try await bench.storage.scanDocuments(
      DocumentQuery(scope: .conversation(child)),
      PageRequest(limit: 9)
    )
    #expect(
      documents.items.map(\.address.kind).sorted { $0.string < $1.string } == [
        "pi.agent", "pi.inbox", "pi.live", "pi.provider", "pi.usage",
      ]
    )
  }

  @Test(arguments: StoreKind.allCases)
  func `a copy that the commit opens is stored as a creation`(_ kind: StoreKind) async throws {
    let bench = try await StoreBench(kind)
    let commits = Commits(bench.session)
    try await set(Self.asOf, 1, bench)
    try await set(Self.current, 1, key: "k", bench)
    let entry = try await bench.append()
    let child = try await bench.session.commit { tx in
      let child = try await tx.forkConversation(.root, at: entry).id
      #expect(try await tx.value(Self.asOf, child) == ["n": 1])
      try await tx.edit(Self.asOf, child) { try $0.set(["m"], 2) }
      return child
    }
    #expect(try await bench.session.snapshot(Self.asOf, child) == ["n": 1, "m": 2])
    let creations = bench.lastWrites.compactMap { write in
      if case .createDocument(let record, _, _) = write { record.address.kind } else { nil }
    }
    let copies = bench.lastWrites.compactMap { write in
      if case .copyDocument(let record, _, _) = write { record.address.kind } else { nil }
    }
    #expect(creations == ["asOf", "pi.live", "pi.inbox", "pi.usage", "pi.provider"])
    #expect(copies == ["pi.agent", "current"])
    let published = commits.all.last?.changes.compactMap { change in
      if case .documentCopy(let record, _) = change { record.address.kind } else { nil }
    }
    #expect(published == ["pi.agent", "current"])
    try await bench.end()
  }

  @Test(arguments: StoreKind.allCases)
  func `a copy may be retired in the commit that makes it`(_ kind: StoreKind) async throws {
    let bench = try await StoreBench(kind)
    try await set(Self.asOf, 1, bench)
    let entry = try await bench.append()
    let child = try await bench.session.commit { tx in
      let child = try await tx.forkConversation(.root, at: entry).id
      try await tx.retire(Self.asOf, in: .conversation(child))
      return child
    }
    #expect(try await bench.session.snapshot(Self.asOf, in: .conversation(child)) == nil)
    try await bench.reopen()
    #expect(try await bench.session.snapshot(Self.asOf, in: .conversation(child)) == nil)
    try await bench.end()
  }

  @Test(arguments: StoreKind.allCases)
  func `staged changes count for a fork before they are on disk`(_ kind: StoreKind) async throws {
    let bench = try await StoreBench(kind)
    let entry = try await bench.session.stage { tx in
      try await tx.edit(Self.asOf, .root) { try $0.set(["n"], 1) }
      return try await tx.append(EntryDraft(kind: "test"), to: .root).id
    }.result
    let child = try await bench.session.stage { tx in
      try await tx.forkConversation(.root, at: entry).id
    }.result
    let value = try await bench.session.stage { try await $0.value(Self.asOf, child) }.result
    #expect(value == ["n": 1])
    try await bench.end()
  }

  // MARK: Refusals

  @Test func `a fork needs an entry that its parent saw before the commit`() async throws {
    let bench = try await StoreBench(.memory)
    let entry = try await bench.append()
    let other = try await bench.session.commit { try await $0.createConversation().id }
    let foreign = try await bench.append(to: other)
    let child = try await fork(at: entry, bench)
    let later = try await bench.append()
    let cases: [(ConversationID, EntryID)] = [
      (.root, foreign), (.root, .known(999)), (.known(998), entry), (child, later),
    ]
    for (parent, entry) in cases {
      let error = await bench.error { _ = try await $0.forkConversation(parent, at: entry) }
      #expect(error?.code == .notFound)
    }
    let error = await bench.error { tx in
      let entry = try await tx.append(EntryDraft(kind: "test"), to: .root).id
      _ = try await tx.forkConversation(.root, at: entry)
    }
    #expect(error?.code == .notFound)
    try await bench.end()
  }

  @Test func `the commit of a fork changes nothing that the fork copies`() async throws {
    let bench = try await StoreBench(.memory)
    try await set(Self.asOf, 1, bench)
    try await set(Self.current, 1, key: "k", bench)
    let entry = try await bench.append()
    let root = DocumentScope.conversation(.root)
    let changes: [(Transaction) async throws -> Void] = [
      { tx in try await tx.edit(Self.asOf, in: root) { try $0.set(["n"], 2) } },
      { tx in try await tx.retire(Self.asOf, in: root) },
      { tx in try await tx.edit(Self.current, in: root, key: "k") { try $0.set(["n"], 2) } },
      { tx in try await tx.edit(Self.current, in: root, key: "new") { _ in } },
      { tx in try await tx.configure(.root, ["cwd": "/"]) },
    ]
    for change in changes {
      for isBefore in [true, false] {
        let error = await bench.error { tx in
          if isBefore { try await change(tx) }
          _ = try await tx.forkConversation(.root, at: entry)
          if !isBefore { try await change(tx) }
        }
        #expect(error?.code == .invalidBatch)
      }
    }
    // What the fork does not copy may change.
    let error = await bench.error { tx in
      _ = try await tx.forkConversation(.root, at: entry)
      try await tx.edit(Self.initial, in: root) { try $0.set(["n"], 2) }
      try await tx.edit(Self.asOf, in: root) { _ in }
    }
    #expect(error == nil)
    try await bench.end()
  }

  @Test func `two sources for one address refuse the fork`() async throws {
    let bench = try await StoreBench(.memory)
    let kind: JSONString = "twice"
    try await set(.test(.conversation(.rewindable, .asOf), kind: kind), 1, bench)
    let entry = try await bench.append()
    try await bench.session.commit { tx in
      try await tx.retire(
        .test(.conversation(.rewindable, .asOf), kind: kind),
        in: .conversation(.root)
      )
    }
    try await set(.test(.conversation(.latest, .current), kind: kind), 1, bench)
    let error = await bench.error { _ = try await $0.forkConversation(.root, at: entry) }
    #expect(error?.code == .invalidBatch)
    try await bench.end()
  }

  // MARK: Ownership

  @Test(arguments: StoreKind.allCases)
  func `a task may own conversations and forks`(_ kind: StoreKind) async throws {
    let bench = try await StoreBench(kind)
    let entry = try await bench.append()
    try await bench.session.commit { try await $0.configure(.root, ["cwd": "/owner"]) }
    let task = try await bench.task()
    let (owned, forked) = try await bench.session.commit { tx in
      (
        try await tx.createConversation(owner: task.id),
        try await tx.forkConversation(.root, at: entry, owner: task.id)
      )
    }
    let owner = ConversationRecord.Owner(conversationId: .root, taskId: task.id)
    try await bench.reopen()
    for record in [owned, forked] {
      let stored = try await bench.session.store.conversation(record.id)
      #expect(stored == record)
      #expect(stored?.owner == owner)
    }
    let found = try await bench.session.commit { tx in
      try await tx.scanConversations(ConversationQuery(ownerTaskId: task.id), .init(limit: 9))
    }
    #expect(found.items == [owned, forked])
    // An owned one takes over the choices of now, a fork those of its entry.
    #expect(try await bench.session.snapshot(.agent, owned.id) == ["cwd": "/owner"])
    #expect(try await bench.session.snapshot(.agent, forked.id) == [:])
    try await bench.end()
  }

  @Test func `a task that is missing or ending owns no new conversation`() async throws {
    let bench = try await StoreBench(.memory)
    let ended = try await bench.task()
    try await bench.end(ended)
    var marked = try await bench.task()
    marked.abortRequested = true
    let mark = marked
    try await bench.session.commit { try await $0.replace(mark) }
    let ending = try await bench.task()
    let cases: [(TaskID, PerdureError.Code)] = [
      (.known(999), .notFound), (ended.id, .invalidBatch), (marked.id, .invalidBatch),
      (ending.id, .invalidBatch),
    ]
    for (owner, code) in cases {
      let error = await bench.error { tx in
        _ = try await tx.createConversation(owner: owner)
        if owner == ending.id {
          var record = ending
          record.state = TransactionTests.ended
          try await tx.replace(record)
        }
      }
      #expect(error?.code == code)
    }
    try await bench.end()
  }

  @Test func `a task lives in the conversation of its owner`() async throws {
    let bench = try await StoreBench(.memory)
    let owner = try await bench.task()
    let other = try await bench.session.commit { try await $0.createConversation().id }
    let error = await bench.error { tx in
      _ = try await tx.createTask(
        TransactionTests.definition,
        input: [:],
        owner: owner.id,
        conversation: other
      )
    }
    #expect(error?.code == .invalidBatch)
    try await bench.end()
  }

  // MARK: Runs

  @Test func `a fork goes on from its entry as if nothing had followed`() async throws {
    let bench = TestBench()
    let model = ScriptedModel { request in
      let texts = request.messages.filter { $0["role"] == "user" }.map { message in
        message["content"]?.text ?? message.contentText
      }
      return ScriptedModel.text(texts.joined(separator: "+"))
    }
    let engine = try await bench.open(model)
    let root = try await bench.start(engine)
    let first = try await bench.ask(engine, "one")
    guard case .done(_, let answer?) = first.state else {
      Issue.record("no answer")
      return
    }
    _ = try await bench.ask(engine, "two")
    let child = try await engine.fork(root, at: answer)
    let third = try await bench.ask(engine, "three", in: child)
    guard case .done(_, let last?) = third.state else {
      Issue.record("no answer in the fork")
      return
    }
    let message = try await engine.session.store.entry(last)?.entry.model?.first
    #expect(message?.contentText == "one+three")
    _ = try await bench.ask(engine, "four")
    let grandchild = try await engine.fork(child, at: last)
    _ = try await bench.ask(engine, "five", in: grandchild)
    let newest = try await TestBench.entries(engine, grandchild).last?.model?.first
    #expect(newest?.contentText == "one+three+five")
    try await bench.end(engine)
  }

  @Test func `the unfinished work of a fork goes on after a crash`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    let root = try await bench.start(engine)
    let asked = try await engine.submit("one", to: root)
    await model.request(1).send(ScriptedModel.text("1").flatMap { $0 })
    guard case .done(_, let answer?) = try await engine.wait(for: asked).state else {
      Issue.record("no answer")
      return
    }
    let child = try await engine.fork(root, at: answer)
    let submission = try await engine.submit("two", to: child)
    _ = await model.request(2)
    let next = bench.afterDeath()
    try await engine.close()
    let again = try await next.open(ScriptedModel { _ in ScriptedModel.text("2") })
    #expect(again.scheduler.refusal == nil)
    try await again.resume()
    let record = try await again.wait(for: submission)
    #expect(record.status == .done)
    try await next.end(again)
  }
}
