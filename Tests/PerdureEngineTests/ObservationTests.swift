import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

@Suite(.timeLimit(.minutes(5))) struct ObservationTests {
  private static let note = DocumentDefinition.test(kind: "app.note")
  private static let page = DocumentDefinition.test(kind: "app.page", isFamily: true)
  private static let root = DocumentScope.conversation(.root)

  private func open(_ bench: TestBench = TestBench()) async throws -> Engine {
    let engine = try await bench.open(ScriptedModel { _ in ScriptedModel.text("yes") })
    _ = try await bench.start(engine)
    try await engine.session.commit { try await $0.edit(Self.note, .root) { _ in } }
    return engine
  }

  private func set(_ engine: Engine, _ number: Int) async throws {
    try await engine.session.commit { tx in
      try await tx.edit(Self.note, .root) { try $0.set(["n"], .int(number)) }
    }
  }

  private func state(_ engine: Engine) async throws -> DocumentState {
    let address = Self.note.address(in: .root)
    return try #require(try await engine.views.state(Self.note, at: address))
  }

  // MARK: States

  @Test func `a state has the newest value and those who follow it begin with that`()
    async throws
  {
    let engine = try await open()
    let state = try await state(engine)
    let latest = state.latest()
    for number in 1...3 { try await set(engine, number) }
    #expect(state.value == ["n": 3])
    let frames = state.frames()
    #expect(frames.initial.value == ["n": 3])
    try await set(engine, 4)
    #expect(await frames.next()?.operations == [.set(["n"], 4)])
    #expect(await latest.next()?.value == ["n": 4])
    try await engine.close()
  }

  @Test func `a state that is disposed of keeps its value and ends those who follow it`()
    async throws
  {
    let engine = try await open()
    let (first, second) = (try await state(engine), try await state(engine))
    try await set(engine, 1)
    let (frames, latest) = (first.frames(), first.latest())
    let other = second.frames()
    first.dispose()
    first.dispose()
    try await set(engine, 2)
    #expect(first.value == ["n": 1])
    #expect(first.ending?.name == "stopped")
    #expect(await frames.waitForEnd().name == "stopped")
    #expect(await latest.waitForEnd().name == "stopped")
    #expect(first.latest().ending?.name == "stopped")
    #expect(await first.latest().next()?.value == ["n": 1])
    #expect(await other.next()?.value == ["n": 2])
    #expect(second.value == ["n": 2])
    try await engine.close()
  }

  @Test func `a state that nobody holds goes with the last who follows it`() async throws {
    let engine = try await open()
    do {
      let frames = try await state(engine).frames()
      #expect(engine.views.mountCount == 1)
      try await set(engine, 1)
      #expect(await frames.next()?.value == ["n": 1])
      withExtendedLifetime(frames) {}
    }
    #expect(engine.views.mountCount == 0)
    try await engine.close()
  }

  @Test func `the end of a document is null and the next one has a state of its own`()
    async throws
  {
    let engine = try await open()
    let state = try await state(engine)
    let (frames, latest) = (state.frames(), state.latest())
    try await engine.session.commit { tx in
      try await tx.retire(Self.note, in: Self.root)
      try await tx.edit(Self.note, .root) { try $0.set(["n"], 9) }
    }
    #expect(state.value == nil)
    #expect(state.ending?.name == "retired")
    #expect(await frames.next()?.operations == [.replace(.null)])
    #expect(await frames.next() == nil)
    #expect(frames.ending?.name == "retired")
    let last = await latest.next()
    #expect(last != nil && last?.value == nil)
    #expect(await latest.next() == nil)
    let successor = try await self.state(engine)
    #expect(successor.value == ["n": 9])
    try await engine.close()
  }

  @Test func `a state keeps its last value when the session ends`() async throws {
    let engine = try await open()
    let state = try await state(engine)
    try await set(engine, 1)
    try await engine.session.stage { tx in
      try await tx.edit(Self.note, .root) { try $0.set(["n"], 2) }
    }
    try await engine.close()
    #expect(state.value == ["n": 1])
    #expect(state.ending?.name == "sessionClosed")
  }

  // MARK: Ends

  private func observers(_ engine: Engine) async throws -> [any Observing] {
    let views = engine.views
    let address = Self.note.address(in: .root)
    return [
      try #require(try await views.watch(Self.note, at: address)),
      try #require(try await views.latest(Self.note, at: address)),
      try await views.watch(.root), try await views.latest(.root),
      try await views.watch(.root, mounting: [Self.note]),
      try await views.watchMembers(Self.page, in: Self.root),
      try await views.latestMembers(Self.page, in: Self.root),
      try await views.watchTasks(), try await views.latestTasks(),
    ]
  }

  @Test func `whoever observes anything can stop and the first reason counts`() async throws {
    let engine = try await open()
    let observers = try await observers(engine)
    for observer in observers {
      observer.end(.stopped)
      observer.end(.cancelled)
    }
    for observer in observers { #expect(await observer.waitForEnd().name == "stopped") }
    #expect(engine.views.mountCount == 0)
    try await engine.close()
  }

  @Test func `closing ends whoever observes anything`() async throws {
    let engine = try await open()
    let observers = try await observers(engine)
    try await engine.close()
    for observer in observers { #expect(await observer.waitForEnd().name == "sessionClosed") }
  }

  @Test func `a failure ends whoever observes anything and says why`() async throws {
    var bench = TestBench()
    let isBroken = Event()
    bench.front = { BreakableStorage($0, isBroken) }
    let engine = try await open(bench)
    let observers = try await observers(engine)
    isBroken.happen()
    await #expect(throws: PerdureError.self) { try await set(engine, 1) }
    for observer in observers {
      let end = await observer.waitForEnd()
      #expect(end.name == "sessionFailed")
      #expect(end.error?.details?["code"] == "store_unwritable")
    }
    #expect(bench.reports.all.map(\.type) == ["session_failed"])
  }

  @Test func `cancelling a reader of anything ends that reader`() async throws {
    let engine = try await open()
    let page = try await engine.views.watchMembers(Self.page, in: Self.root)
    let graph = try await engine.views.watchTasks()
    let view = try await engine.views.latest(.root)
    _ = await view.next()
    let readers = [
      Task { _ = await page.next() }, Task { _ = await graph.next() },
      Task { _ = await view.next() },
    ]
    for reader in readers {
      reader.cancel()
      await reader.value
    }
    #expect(
      [page.ending?.name, graph.ending?.name, view.ending?.name]
        == .init(
          repeating: "cancelled",
          count: 3
        )
    )
    try await engine.close()
  }

  // MARK: Versions

  @Test func `each version of a definition has a view of its own`() async throws {
    let engine = try await open()
    let next = DocumentDefinition.test(
      kind: "app.note",
      version: 2,
      migrate: { value, _ in ["old": value] }
    )
    let address = Self.note.address(in: .root)
    let old = try #require(try await engine.views.watch(Self.note, at: address))
    let new = try #require(try await engine.views.watch(next, at: address))
    #expect(engine.views.mountCount == 2)
    #expect(new.initial.json == ["old": [:]])
    try await set(engine, 1)
    #expect(await old.next()?.operations == [.set(["n"], 1)])
    // The operations lead from a value that the other one never saw.
    #expect(await new.next()?.operations == [.replace(["n": 1])])
    try await engine.close()
  }

  // MARK: Documents of the application in views

  @Test func `one commit of entries and mounted documents is one change`() async throws {
    let engine = try await open()
    let watch = try await engine.views.watch(.root, mounting: [Self.note, Self.page])
    #expect(watch.initial.json["docs"]?["app.note"] == [:])
    #expect(watch.initial.json["docs"]?["app.page"] == [:])
    try await engine.session.commit { tx in
      try await tx.append(EntryDraft(kind: "t"), to: .root)
      try await tx.edit(Self.note, .root) { try $0.set(["n"], 1) }
      try await tx.edit(Self.page, in: Self.root, key: "a", seed: ["x": 1]) { _ in }
    }
    let frame = await watch.next()
    #expect(
      frame?.operations.dropLast() == [
        .set(["docs", "app.note", "n"], 1), .set(["docs", "app.page", "a"], ["x": 1]),
      ]
    )
    #expect(frame?.value["entries"]?.array?.count == 1)
    try await engine.close()
  }

  @Test func `what cannot be mounted is refused`() async throws {
    let engine = try await open()
    let refused: [[DocumentDefinition]] = [
      [.agent], [Self.note, Self.note], [.test(kind: "constructor")],
      [.test(.session, kind: "app.session")],
    ]
    for definitions in refused {
      let error = await #expect(throws: PerdureError.self) {
        _ = try await engine.views.watch(.root, mounting: definitions)
      }
      #expect(error?.code == .invalidInput || error?.code == .documentMismatch)
    }
    #expect(engine.views.mountCount == 0)
    try await engine.close()
  }

  @Test func `the order of the mounted kinds makes no other view`() async throws {
    let engine = try await open()
    let first = try await engine.views.watch(.root, mounting: [Self.note, Self.page])
    let second = try await engine.views.watch(.root, mounting: [Self.page, Self.note])
    let plain = try await engine.views.watch(.root)
    #expect(engine.views.mountCount == 2)
    withExtendedLifetime((first, second, plain)) {}
    try await engine.close()
  }

  private let keys: [JSONString] = ["", "a", "é", "__proto__", "e\u{301}", "constructor"]

  private func change(_ engine: Engine, _ random: inout SeededGenerator) async throws {
    let kind = random.int(0...5)
    let key = random.pick(keys)
    let number = random.int(0...9)
    let isStaged = random.chance(50)
    try await engine.session.stage { tx in
      switch kind {
      case 0: try await tx.edit(Self.note, .root) { try $0.assign(["n"], .int(number)) }
      case 1: try await tx.retire(Self.note, in: Self.root)
      case 2: try await tx.retire(Self.page, in: Self.root, key: key)
      case 3:
        try await tx.append(EntryDraft(kind: "t"), to: .root)
        try await tx.edit(Self.page, in: Self.root, key: key) { try $0.set(["n"], .int(number)) }
      default:
        try await tx.edit(Self.page, in: Self.root, key: key, seed: ["t": "x"]) { draft in
          try draft.assign(["t"], .string(String(repeating: "x", count: number)))
        }
      }
    }
    if !isStaged { try await engine.session.barrier() }
  }

  @Test func `following mounted documents and families gives what the store has`() async throws {
    var random = SeededGenerator(for: "mounted documents")
    let bench = TestBench()
    let engine = try await open(bench)
    let mounting = [Self.note, Self.page]
    for _ in 0..<12 {
      let view = try await engine.views.watch(.root, mounting: mounting)
      let family = try await engine.views.watchMembers(Self.page, in: Self.root)
      var (viewed, members) = (view.initial.json, family.initial.json)
      for _ in 0..<random.int(1...15) { try await change(engine, &random) }
      try await engine.session.barrier()
      view.stopAfterPending()
      family.stopAfterPending()
      while let frame = await view.next() {
        viewed = try viewed.applying(frame.operations)
        #expect(viewed == frame.value)
      }
      while let frame = await family.next() {
        members = try members.applying(frame.operations)
        #expect(members.compactText == frame.value.compactText)
      }
      let next = try await bench.afterDeath().open(ScriptedModel { _ in [] })
      #expect(try await next.views.watch(.root, mounting: mounting).initial.json == viewed)
      let stored = try await next.views.watchMembers(Self.page, in: Self.root).initial
      #expect(stored.json.compactText == members.compactText)
      try await next.close()
    }
    try await engine.close()
  }

  @Test func `a family of no keys or of another scope is refused`() async throws {
    let engine = try await open()
    for (definition, scope) in [(Self.note, Self.root), (Self.page, .session)] {
      let error = await #expect(throws: PerdureError.self) {
        _ = try await engine.views.watchMembers(definition, in: scope)
      }
      #expect(error?.code == .documentMismatch)
    }
    try await engine.close()
  }
}
