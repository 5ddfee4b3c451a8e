import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// The arguments of a call while they arrive.
@Suite(.timeLimit(.minutes(5))) struct PartialArgumentTests {
  /// Pieces of the text, and what is shown after each of them.
  static let pieces: [(text: String, shown: JSON)] = [
    (#" {"path": "/tm"#, ["path": "/tm"]), (#"p\"#, ["path": "/tmp"]),
    (#"u00e4\nx"#, ["path": "/tmpä\nx"]),
    (#"\ud83d\udc32", "count": 12"#, ["path": "/tmpä\nx🐲"]),
    (
      #"3, "list": [1, {"a": tru"#,
      ["path": "/tmpä\nx🐲", "count": 123, "list": [1, [:]]]
    ),
    (
      #"e}, "x"#,
      ["path": "/tmpä\nx🐲", "count": 123, "list": [1, ["a": true], "x"]]
    ),
    (
      #"y", nul"#,
      ["path": "/tmpä\nx🐲", "count": 123, "list": [1, ["a": true], "xy"]]
    ),
    (
      #"l], "las"#,
      ["path": "/tmpä\nx🐲", "count": 123, "list": [1, ["a": true], "xy", .null]]
    ),
    (
      #"t": ""#,
      ["path": "/tmpä\nx🐲", "count": 123, "list": [1, ["a": true], "xy", .null], "last": ""]
    ),
  ]

  private static func arguments(_ publication: Publication) -> JSON? {
    publication.partial?["content"]?.array?.first?["arguments"]
  }

  /// Lets the time pass that lies between two looks at the answer.
  private func ticking(_ clock: ManualClock) -> Task<Void, Never> {
    Task {
      while !Task.isCancelled {
        await clock.waitForSleeper(of: .milliseconds(100))
        clock.advance(by: .milliseconds(100))
        await Task.yield()
      }
    }
  }

  @Test func `arguments are shown while they arrive`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model, tools: [])
    let commits = Commits(engine.session)
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    let stream = await model.request(1)
    let ticking = ticking(bench.clock)
    stream.send([.blockStart(index: 0, .toolCall(id: "a", name: "t"))])
    for (text, shown) in Self.pieces {
      stream.send([.delta(index: 0, text)])
      await commits.first { Self.arguments($0) == shown }
    }
    stream.send([.delta(index: 0, #""}"#), .blockEnd(index: 0), .finished(.stop)])
    #expect(try await engine.wait(for: id).status == .done)
    ticking.cancel()
    let answer = try await TestBench.entries(engine).last { $0.kind == "pi.assistant" }
    let call = answer?.model?.first?["content"]?.array?.first
    #expect(call?["arguments"] == Self.pieces.last?.shown)
    try await bench.end(engine)
  }

  @Test func `text that is added to an argument is told as such`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model, tools: [])
    let commits = Commits(engine.session)
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    let stream = await model.request(1)
    let ticking = ticking(bench.clock)
    stream.send([
      .blockStart(index: 0, .toolCall(id: "a", name: "t")), .delta(index: 0, #"{"path": "one "#),
    ])
    await commits.first { Self.arguments($0) == ["path": "one "] }
    stream.send([.delta(index: 0, "two")])
    let commit = await commits.first { Self.arguments($0) == ["path": "one two"] }
    let operations = commit.changes.flatMap { change in
      if case .document(_, _, _, let operations) = change {
        operations
      } else {
        [] as [PerdureValue.Operation]
      }
    }
    let path: [PathSegment] = ["generation", "message", "content", 0, "arguments", "path"]
    #expect(operations == [.append(path, "two")])
    stream.send([.delta(index: 0, #""}"#), .blockEnd(index: 0), .finished(.stop)])
    #expect(try await engine.wait(for: id).status == .done)
    ticking.cancel()
    try await bench.end(engine)
  }

  @Test(arguments: ["[1, 2", #""text"#, "}}}}", "{{{", #"{"a" "b" c"#, #"{"a":\"#, "nonsense"])
  func `text that is no object shows nothing and ends the run all the same`(
    _ text: String
  ) async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model, tools: [])
    let commits = Commits(engine.session)
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    let stream = await model.request(1)
    let ticking = ticking(bench.clock)
    stream.send([
      .blockStart(index: 0, .toolCall(id: "a", name: "t")), .delta(index: 0, text),
    ])
    await commits.first { Self.arguments($0) == [:] }
    stream.send([.finished(.stop)])
    #expect(try await engine.wait(for: id).status == .done)
    ticking.cancel()
    try await bench.end(engine)
  }
}
