import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

/// Runs with submissions that arrive while they are under way.
@Suite(.timeLimit(.minutes(5))) struct QueueTests {
  @Test func `a steering input joins the run behind its round of tools`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let (hasStarted, mayEnd) = (Event(), Event())
    let tool = plainTool("works") { _ in
      hasStarted.happen()
      await mayEnd.wait()
      return .text("worked")
    }
    let engine = try await bench.open(model, tools: [tool])
    _ = try await bench.start(engine)
    let first = try await engine.submit("hi", to: .root)
    await model.request(1).call("works")
    await hasStarted.wait()
    let steer = try await engine.submit("rather this", to: .root, whenBusy: .steer)
    let later = try await engine.submit("and then", to: .root)
    #expect(try await engine.submission(steer)?.status == .queued)
    mayEnd.happen()
    let second = await model.request(2)
    #expect(second.request.texts == ["hi", "", "worked", "rather this"])
    second.say("done")
    let answers = [
      (try await engine.wait(for: first)).answer, (try await engine.wait(for: steer)).answer,
    ]
    #expect(answers[0] != nil)
    #expect(answers[0] == answers[1])
    #expect(try await engine.submission(later)?.status == .placed)
    await model.request(3).say("that too")
    #expect(try await engine.wait(for: later).status == .done)
    try await bench.end(engine)
  }

  @Test func `a steering input behind the last round begins the next run`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    let commits = Commits(engine.session)
    _ = try await bench.start(engine)
    let first = try await engine.submit("hi", to: .root)
    let stream = await model.request(1)
    let steer = try await engine.submit("rather this", to: .root, whenBusy: .steer)
    stream.say("done")
    let one = try await engine.wait(for: first)
    await model.request(2).say("done differently")
    let two = try await engine.wait(for: steer)
    #expect(one.answer != nil && two.answer != nil)
    #expect(one.answer != two.answer)
    // The end of the one run and the start of the other are one commit.
    let end = await commits.first { $0.submissions.contains { $0.id == first && $0.isSettled } }
    #expect(end.submissions.map(\.status) == [.placed, .done])
    #expect(end.tasks.filter { $0.kind == "pi.generation" }.count == 2)
    try await bench.end(engine)
  }

  @Test(arguments: [QueueMode.oneAtATime, .all])
  func `follow-ups come one by one or together`(_ mode: QueueMode) async throws {
    var bench = TestBench()
    bench.settings.followUpMode = mode
    let model = LiveModel()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    _ = try await engine.submit("hi", to: .root)
    let stream = await model.request(1)
    let queued = [
      try await engine.submit("one", to: .root), try await engine.submit("two", to: .root),
    ]
    stream.say("done")
    let second = await model.request(2)
    let last = second.request.texts.suffix(mode == .all ? 2 : 1)
    #expect(Array(last) == (mode == .all ? ["one", "two"] : ["one"]))
    second.say("more")
    if mode == .oneAtATime { (await model.request(3)).say("most") }
    let records = [
      try await engine.wait(for: queued[0]), try await engine.wait(for: queued[1]),
    ]
    #expect((records[0].answer == records[1].answer) == (mode == .all))
    try await bench.end(engine)
  }

  @Test func `a reset ends the run behind its round and begins anew`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let (hasStarted, mayEnd) = (Event(), Event())
    let tool = plainTool("works") { _ in
      hasStarted.happen()
      await mayEnd.wait()
      return .text("worked")
    }
    let engine = try await bench.open(model, tools: [tool])
    _ = try await bench.start(engine)
    let first = try await engine.submit("hi", to: .root)
    await model.request(1).call("works")
    await hasStarted.wait()
    let later = try await engine.submit("and then", to: .root)
    let reset = try await engine.reset(.root, handoff: "from the start")
    let note = try await engine.write(EntryDraft(kind: "note"), to: .root)
    #expect(try await engine.submission(note)?.status == .queued)
    mayEnd.happen()
    let second = await model.request(2)
    #expect(second.request.texts == ["from the start", "and then"])
    #expect(try await engine.wait(for: first).reason == "reset")
    #expect(try await engine.wait(for: reset).status == .done)
    #expect(try await engine.wait(for: note).status == .done)
    second.say("done")
    #expect(try await engine.wait(for: later).status == .done)
    try await bench.end(engine)
  }

  @Test func `a reset of an idle conversation starts nothing`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(ScriptedModel { _ in ScriptedModel.text("hello") })
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine)
    #expect(try await engine.wait(for: try await engine.reset(.root)).status == .done)
    try await engine.waitForIdle(.root)
    #expect(try await engine.context(of: .root).messages == [])
    #expect(try await engine.context(of: .root).entries.map(\.kind) == ["pi.reset"])
    try await bench.end(engine)
  }

  // MARK: Runs that fail

  struct Failure: Sendable, CustomTestStringConvertible {
    var policy: AfterFailedRun
    var hasModel: Bool
    var testDescription: String { "\(policy.rawValue), \(hasModel ? "model error" : "no model")" }
  }

  static let failures = AfterFailedRun.allCases.flatMap { policy in
    [true, false].map { Failure(policy: policy, hasModel: $0) }
  }

  @Test(arguments: failures)
  func `what is queued behind a failed run stays starts or ends`(_ row: Failure) async throws {
    var bench = TestBench()
    bench.settings.afterFailedRun = row.policy
    let engine = try await bench.open(
      ScriptedModel { request in
        request.messages.last?["content"] == "bad"
          ? ScriptedModel.failure(ProviderFailure(.stop, "no")) : ScriptedModel.text("yes")
      }
    )
    _ = try await bench.start(engine)
    if !row.hasModel { try await engine.configure(.root, ["model": .null]) }
    // All three are there before anything runs.
    var ids: [SubmissionID] = []
    try await engine.session.commit(conversation: .root) { tx in
      ids.append(try await tx.admit(.input(content: "bad"), to: .root, QueueModes()))
    }
    for draft in [SubmissionDraft.input(content: "good"), .message("fact")] {
      try await engine.session.commit(conversation: .root) { tx in
        ids.append(try await tx.admit(draft, to: .root, QueueModes()))
      }
    }
    let reason = row.hasModel ? "model_error" : "no_model"
    #expect(try await engine.wait(for: ids[0]).reason == reason)
    try await engine.waitForIdle()
    let queued = try #require(try await engine.submission(ids[1]))
    let write = try await engine.submission(ids[2])?.status
    switch row.policy {
    case .keep:
      #expect(queued.status == .queued)
      #expect(write == .queued)
      // The next submission brings it along.
      let next = try await engine.submit("good too", to: .root)
      _ = try await engine.wait(for: ids[1])
      try await engine.waitForIdle()
      if row.hasModel { #expect(try await engine.wait(for: next).status == .done) }
    case .continue:
      #expect(queued.status == (row.hasModel ? .done : .unanswered))
      #expect(write == .done)
    case .withdraw:
      #expect(queued.reason == "run_failed")
      #expect(write == .queued)
    }
    try await bench.end(engine)
  }

  @Test func `a run that faults leaves what is queued`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let first = try await engine.submit("hi", to: .root)
    let stream = await model.request(1)
    let queued = try await engine.submit("more", to: .root)
    // An inbox that cannot be read makes the end of the run impossible.
    try await engine.session.commit { tx in
      try await tx.edit(.inbox, .root) { inbox in
        try inbox.set(["items", 0, "mode"], "nonsense")
      }
    }
    stream.say("done")
    #expect(try await engine.wait(for: first).reason == "faulted")
    #expect(try await engine.submission(queued)?.status == .queued)
    try await engine.close()
  }
}

extension Publication {
  var submissions: [SubmissionRecord] {
    changes.compactMap { if case .submission(let record) = $0 { record } else { nil } }
  }
}

extension LiveModel.Stream {
  /// Answers with this text at once.
  func say(_ text: String) {
    send([.blockStart(index: 0, .text), .delta(index: 0, text), .finished(.stop)])
  }

  /// Answers with one call.
  func call(_ name: JSONString) {
    send([
      .blockStart(index: 0, .toolCall(id: "a", name: name)),
      .blockEnd(index: 0, arguments: [:]), .finished(.toolUse),
    ])
  }
}

extension ModelRequest {
  /// What its messages say, without the prompt.
  var texts: [String] { messages.texts }
}

extension [JSON] {
  /// What these messages say, without the prompt.
  var texts: [String] {
    filter { $0["role"] != "system" }.map { $0["content"]?.text ?? $0.contentText }
  }
}

extension SubmissionRecord {
  var answer: EntryID? {
    if case .done(_, let answer) = state { return answer }
    return nil
  }
}
