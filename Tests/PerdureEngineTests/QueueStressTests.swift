import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// Conversations to which many speak at once.
@Suite(.timeLimit(.minutes(5))) struct QueueStressTests {
  /// Does something to the root conversation; what it may be refused is no failure.
  private static func act(
    _ engine: Engine,
    _ random: inout SeededGenerator,
    _ number: Int,
    _ made: Log<SubmissionID>
  ) async throws {
    let text = JSON.string(JSONString("\(number)"))
    let requestId = JSONString("r\(number)")
    switch Int.random(in: 0..<10, using: &random) {
    case 0..<4:
      let whenBusy = WhenBusy.allCases.randomElement(using: &random) ?? .steer
      do {
        made.add(
          try await engine.submit(text, to: .root, whenBusy: whenBusy, requestId: requestId)
        )
      } catch let error as PerdureError where error.code == .conversationBusy {}
    case 4, 5:
      made.add(try await engine.write(EntryDraft(kind: "note"), to: .root, requestId: requestId))
    case 6:
      let fact: JSON = ["role": "user", "content": text, "timestamp": 0]
      let head = made.all.randomElement(using: &random).flatMap { EntryID($0.value) }
      let draft = EntryDraft(kind: "fact", model: [fact], head: head.map { .entry($0) })
      made.add(try await engine.write(draft, to: .root, requestId: requestId))
    case 7: made.add(try await engine.reset(.root, requestId: requestId))
    case 8:
      if let id = made.all.randomElement(using: &random) {
        _ = try await engine.abortSubmission(id)
      }
    default:
      if Bool.random(using: &random) { try await engine.abortAndWait(.root) }
    }
  }

  @Test(arguments: 1...12)
  func `whatever is submitted in whatever order ends once`(_ seed: UInt64) async throws {
    var random = SeededGenerator(seed: seed)
    var bench = TestBench()
    bench.settings.steeringMode = QueueMode.allCases.randomElement(using: &random) ?? .all
    bench.settings.followUpMode = QueueMode.allCases.randomElement(using: &random) ?? .all
    let model = ScriptedModel { request in
      ScriptedModel.turn(of: request) < 2
        ? ScriptedModel.calls(("a\(request.messages.count)", "echo", ["text": "x"]))
        : ScriptedModel.text("done")
    }
    let engine = try await bench.open(model, tools: [echo])
    _ = try await bench.start(engine)
    let made = Log<SubmissionID>()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for speaker in 0..<4 {
        var own = SeededGenerator(seed: random.next())
        group.addTask {
          for turn in 0..<12 { try await Self.act(engine, &own, speaker * 100 + turn, made) }
        }
      }
      try await group.waitForAll()
    }
    // What an aborted run left in the queue goes with the next inputs.
    try await engine.waitForIdle(.root)
    while try await engine.session.snapshot(.inbox, .root)["items"]?.array?.isEmpty == false {
      _ = try await engine.submit("last", to: .root)
      try await engine.waitForIdle(.root)
    }
    let submissions = try await Page.all { page in
      try await engine.session.store.scanSubmissions(.init(), page)
    }
    let open = submissions.filter { !$0.isSettled }
    #expect(open == [], "seed \(seed)")
    let entries = submissions.compactMap(\.entry)
    #expect(Set(entries).count == entries.count, "seed \(seed)")
    try await bench.end(engine)
  }
}
