import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// Runs with a queue, played again from each of their commits.
@Suite(.timeLimit(.minutes(5))) struct QueueRecoveryTests {
  /// What is submitted while the conversation is busy, and when.
  struct Play: Sendable, CustomTestStringConvertible {
    var testDescription: String
    /// While the tool runs.
    var inTool: [SubmissionDraft] = []
    /// While the last answer arrives.
    var inAnswer: [SubmissionDraft] = []
  }

  static let plays: [Play] = [
    Play(
      testDescription: "a steer while tools run",
      inTool: [.input(content: "rather", whenBusy: .steer)]
    ),
    Play(
      testDescription: "a steer behind the last round",
      inAnswer: [.input(content: "rather", whenBusy: .steer)]
    ), Play(testDescription: "a reset while busy", inTool: [.input(content: "more"), .reset]),
    Play(
      testDescription: "writes, steers and follow-ups",
      inTool: [.message("fact"), .input(content: "rather", whenBusy: .steer)],
      inAnswer: [.input(content: "more"), .message("other fact")]
    ),
  ]

  /// The engine that the tools and models of a play submit to.
  private final class Host: Sendable {
    private let engine = Mutex<Engine?>(nil)

    func set(_ new: Engine) { engine.withLock { $0 = new } }

    /// Submits as an application that does not know whether it had before.
    func submit(_ drafts: [SubmissionDraft], _ name: String) async throws {
      guard let engine = engine.withLock({ $0 }) else { return }
      for (index, draft) in drafts.enumerated() {
        let id = JSONString("\(name)-\(index)")
        switch draft {
        case .input(let content, let whenBusy, let entry):
          _ = try await engine.submit(
            content,
            to: .root,
            whenBusy: whenBusy,
            requestId: id,
            entry: entry
          )
        case .write(let entry): _ = try await engine.write(entry, to: .root, requestId: id)
        }
      }
    }
  }

  /// Answers "go" with a call and everything else with a text, before which `act` runs once.
  private final class ActingModel: ModelProvider {
    private let act: @Sendable () async -> Void
    private let hasActed = Mutex(false)

    init(_ act: @escaping @Sendable () async -> Void) { self.act = act }

    func model(_ reference: ModelReference) -> ModelInfo? {
      ModelInfo(reference: reference, api: "acting", contextWindow: 0, maxTokens: 0)
    }

    func stream(_ request: ModelRequest) -> any ModelStream {
      if request.messages.last?["content"] == "go" {
        let call = AnswerBlock.toolCall(id: "a", name: "note")
        return Stream([
          .blockStart(index: 0, call), .blockEnd(index: 0, arguments: [:]), .finished(.toolUse),
        ])
      }
      let isFirst = hasActed.withLock { hasActed in
        defer { hasActed = true }
        return !hasActed
      }
      return Stream(
        [.blockStart(index: 0, .text), .delta(index: 0, "answer"), .finished(.stop)],
        isFirst ? act : nil
      )
    }

    private final class Stream: ModelStream {
      private let events: Mutex<[ModelEvent]>
      private let act: (@Sendable () async -> Void)?

      init(_ events: [ModelEvent], _ act: (@Sendable () async -> Void)? = nil) {
        self.events = Mutex(events)
        self.act = act
      }

      func next() async -> [ModelEvent] {
        await act?()
        return events.withLock { events in
          defer { events = [] }
          return events
        }
      }

      func cancel() { events.withLock { $0 = [] } }
    }
  }

  private struct End: Equatable {
    var context: [JSON]
    var submissions: [String]
  }

  private func finish(_ play: Play, _ bench: TestBench) async throws -> End {
    let host = Host()
    let tool = plainTool("note", replay: .safe) { _ in
      try await host.submit(play.inTool, "tool")
      return .text("noted")
    }
    let model = ActingModel { try? await host.submit(play.inAnswer, "answer") }
    let engine = try await bench.open(model, tools: [tool])
    host.set(engine)
    _ = try await bench.start(engine)
    let first = try await engine.submit("go", to: .root, requestId: "first")
    _ = try await engine.wait(for: first)
    try await engine.waitForIdle()
    let end = End(
      context: try await engine.context(of: .root).messages.map { message in
        var object = message.object ?? [:]
        object["timestamp"] = nil
        object["durationMs"] = nil
        return .object(object)
      },
      submissions: try await engine.session.store.scanSubmissions(.init(), PageRequest(limit: 99))
        .items.map { "\($0.requestId?.string ?? "") \($0.status) \($0.reason ?? "")" }.sorted()
    )
    try await engine.close()
    return end
  }

  @Test(arguments: plays)
  func `a run with a queue goes on from each of its commits`(_ play: Play) async throws {
    var first = TestBench()
    let storage = CopyingStorage(first.memory)
    first.front = { _ in storage }
    let expected = try await finish(play, first)
    #expect(expected.submissions.count == 1 + play.inTool.count + play.inAnswer.count)
    #expect(storage.all.count > 8)
    for (number, copy) in storage.all.enumerated() {
      #expect(
        try await StoreInvariants.violations(of: copy) == [],
        "commit \(number) leaves no half of anything"
      )
      var bench = TestBench()
      bench.memory = MemoryStorage(continuing: copy)
      let end = try await finish(play, bench)
      try await bench.checkInvariants()
      #expect(end == expected, "commit \(number)")
    }
  }
}
