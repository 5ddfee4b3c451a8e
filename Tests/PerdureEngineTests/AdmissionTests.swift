import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

@Suite(.timeLimit(.minutes(5))) struct AdmissionTests {
  private static let silent = ScriptedModel { _ in ScriptedModel.text("hello") }

  private func code(_ body: () async throws -> Void) async -> PerdureError.Code? {
    do {
      try await body()
      return nil
    } catch {
      return (error as? PerdureError)?.code
    }
  }

  @Test func `an idle conversation takes a submission`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(Self.silent)
    _ = try await bench.start(engine)
    #expect(try await bench.ask(engine).status == .done)
    #expect(try await bench.ask(engine).status == .done)
    try await bench.end(engine)
  }

  @Test func `a submission is on disk when it is taken`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(LiveModel())
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    #expect(try await bench.memory.submission(id)?.status == .placed)
    try await bench.end(engine)
  }

  @Test func `a busy conversation refuses and nothing is written`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    _ = try await engine.submit("hi", to: .root)
    _ = await model.request(1)
    try await engine.session.barrier()
    let before = engine.session.store.lastStaged
    let code = await code {
      _ = try await engine.submit("more", to: .root, whenBusy: .reject)
    }
    #expect(code == .conversationBusy)
    #expect(engine.session.store.lastStaged == before)
    try await bench.end(engine)
  }

  @Test func `a request id that is known stands for its submission`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(Self.silent)
    _ = try await bench.start(engine)
    let first = try await engine.submit("hi", to: .root, requestId: "r")
    let whileBusy = try await engine.submit("hi", to: .root, requestId: "r")
    _ = try await engine.wait(for: first)
    let afterwards = try await engine.submit("hi", to: .root, requestId: "r")
    #expect(whileBusy == first)
    #expect(afterwards == first)
    #expect(try await TestBench.entries(engine).count == 2)
    try await bench.end(engine)
  }

  @Test func `a request id counts within its conversation only`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(Self.silent)
    _ = try await bench.start(engine)
    let other = try await engine.createConversation()
    try await engine.configure(other, ["model": ScriptedModel.reference.json])
    let first = try await engine.submit("hi", to: .root, requestId: "r")
    let second = try await engine.submit("hi", to: other, requestId: "r")
    #expect(first != second)
    await engine.waitUntilQuiet()
    try await bench.end(engine)
  }

  @Test func `a request id of a write is refused for an input`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(Self.silent)
    _ = try await bench.start(engine)
    try await engine.session.commit { tx in
      let entry = try await tx.append(EntryDraft(kind: "note"), to: .root)
      _ = try await tx.createSubmission(
        in: .root,
        requestId: "r",
        kind: .write,
        state: .done(entry: entry.id, answer: nil)
      )
    }
    let code = await code { _ = try await engine.submit("hi", to: .root, requestId: "r") }
    #expect(code == .requestIdConflict)
    try await bench.end(engine)
  }

  @Test func `an unknown conversation is named`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(Self.silent)
    _ = try await bench.start(engine)
    let unknown = ConversationID.known(99)
    #expect(await code { _ = try await engine.submit("hi", to: unknown) } == .notFound)
    #expect(await code { try await engine.configure(unknown, ["a": 1]) } == .notFound)
    #expect(await code { try await engine.abort(unknown) } == .notFound)
    try await bench.end(engine)
  }

  static let contents: [(content: JSON, isAllowed: Bool)] = [
    ("text", true), ("", true), ([["type": "text", "text": "a"]], true),
    ([["type": "image", "data": "AA==", "mimeType": "image/png"]], true), ([], false),
    (.null, false), (7, false), (["text": "a"], false), (["a"], false),
    ([["type": "text"]], false), ([["type": "toolCall", "id": "a", "name": "b"]], false),
  ]

  @Test(arguments: 0..<contents.count)
  func `content is a string or a list of items`(_ index: Int) async throws {
    let (content, isAllowed) = Self.contents[index]
    let bench = TestBench()
    let engine = try await bench.open(Self.silent)
    _ = try await bench.start(engine)
    let code = await code { _ = try await engine.submit(content, to: .root) }
    #expect(code == (isAllowed ? nil : .invalidInput), "\(content.compactText)")
    await engine.waitUntilQuiet()
    try await bench.end(engine)
  }

  @Test func `choices are replaced cleared or left alone`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(Self.silent)
    _ = try await engine.root()
    try await engine.configure(.root, ["tools": ["a", "b"], "thinkingLevel": "low"])
    try await engine.configure(.root, ["tools": ["c"], "cwd": .null])
    try await engine.configure(.root, ["thinkingLevel": .null])
    #expect(try await engine.session.snapshot(.agent, .root) == ["tools": ["c"]])
    #expect(await code { try await engine.configure(.root, ["__proto__": 1]) } == .invalidInput)
    try await bench.end(engine)
  }

  @Test func `choices are taken over by conversations that a task owns`() async throws {
    let still = try await StillConversation()
    let task = try await still.makeBusy()
    let choices: JSONObject = [
      "model": ["provider": "p", "modelId": "m"], "tools": ["remove": ["a"]],
      "modelTools": ["add": ["b"]], "instructions": "be brief", "cwd": "/", "extensions": ["e"],
      "thinkingLevel": "low",
    ]
    let owned = try await still.session.commit { tx in
      try await tx.configure(.root, choices)
      return try await tx.createConversation(owner: task).id
    }
    #expect(try await still.session.snapshot(.agent, owned) == .object(choices))
    try await still.session.commit { try await $0.configure(.root, ["cwd": .null]) }
    #expect(try await still.session.snapshot(.agent, owned)["cwd"] == "/")
    try await still.session.close()
  }

  // MARK: Features

  @Test func `a store with work by a document of a newer version stays as it is`() async throws {
    let bench = TestBench()
    let session = try await Session.open(
      bench.memory,
      clock: bench.clock,
      onCreation: Engine.builtInDocuments
    )
    try await session.commit { _ = try await $0.createConversation(root: true) }
    let address = DocumentAddress(kind: "pi.live", scope: .conversation(.root))
    let live = try #require(try await session.store.findDocument(address, at: nil))
    let task = TaskRecord(
      id: .known(try session.store.mintId()),
      conversationId: .root,
      kind: "pi.generation",
      version: 1,
      input: [:],
      state: .pending(checkpoint: ["phase": "prepare"])
    )
    _ = try await session.store.stage([
      .changeDocument(live.id, .base(version: 2, value: [:])), .task(task),
    ])
    try await session.close()
    let engine = try await bench.afterDeath().open(Self.silent)
    let before = engine.session.store.lastStaged
    #expect(await code { try await engine.resume() } == .unsupportedFeature)
    // Nor by another way in.
    let ways: [(String, () async throws -> Void)] = [
      ("submit", { _ = try await engine.submit("hi", to: .root) }),
      ("wait", { _ = try await engine.wait(for: .known(2)) }),
      ("abort", { try await engine.abort(.root) }),
    ]
    for (name, way) in ways { #expect(await code(way) == .unsupportedFeature, "\(name)") }
    await engine.waitUntilQuiet()
    #expect(engine.session.store.lastStaged == before)
    // Reading works.
    _ = try await TestBench.entries(engine)
    try await engine.close()
  }

  @Test func `a document of a newer version is not gone on with`() async throws {
    let bench = TestBench()
    let session = try await Session.open(
      bench.memory,
      clock: bench.clock,
      onCreation: Engine.builtInDocuments
    )
    try await session.commit { _ = try await $0.createConversation(root: true) }
    let address = DocumentAddress(kind: "pi.live", scope: .conversation(.root))
    let live = try #require(try await session.store.findDocument(address, at: nil))
    _ = try await session.store.stage([.changeDocument(live.id, .base(version: 2, value: [:]))])
    try await session.close()
    let engine = try await bench.afterDeath().open(Self.silent)
    #expect(await code { _ = try await engine.submit("hi", to: .root) } == .unsupportedFeature)
    try await engine.close()
  }
}

extension TaskDefinition {
  func named(_ name: JSONString) -> TaskDefinition {
    var definition = self
    definition.name = name
    return definition
  }
}
