import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// Random runs, followed commit by commit by a reader of events and by a view.
@Suite(.timeLimit(.minutes(10))) struct AgentEventPropertyTests {
  /// The answers of another model behind some thoughts, and so slow that parts are committed.
  private struct SlowModel: ModelProvider {
    let base: any ModelProvider
    let seed: UInt64

    func model(_ reference: ModelReference) -> ModelInfo? { base.model(reference) }

    func stream(_ request: ModelRequest) -> any ModelStream {
      let place = "thinks \(request.messages.count).\(request.attempt)"
      return SlowStream(base.stream(request), thinks: ScriptTests.dice(seed, place, 2) == 0)
    }
  }

  private final class SlowStream: ModelStream {
    private let base: any ModelStream
    private let thoughts: Mutex<[[ModelEvent]]>
    private let shift: Int

    init(_ base: any ModelStream, thinks: Bool) {
      self.base = base
      let thoughts: [[ModelEvent]] = [
        [.blockStart(index: 0, .thinking), .delta(index: 0, "hm")],
        [.delta(index: 0, ", so 😀")], [.usage(Usage())], [.blockEnd(index: 0)],
      ]
      self.thoughts = Mutex(thinks ? thoughts : [])
      shift = thinks ? 1 : 0
    }

    func next() async -> [ModelEvent] {
      for _ in 0..<20 { await Task.yield() }
      if let thought = thoughts.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) {
        return thought
      }
      return await base.next().map { event in
        switch event {
        case .blockStart(let index, let block): .blockStart(index: index + shift, block)
        case .delta(let index, let text): .delta(index: index + shift, text)
        case .blockEnd(let index, let arguments, let members):
          .blockEnd(index: index + shift, arguments: arguments, members: members)
        default: event
        }
      }
    }

    func cancel() { base.cancel() }
  }

  /// What two observers saw of one process.
  private final class Trace: Sendable {
    let publications = Log<Publication>()
    let batches = Log<AgentEventBatch>()
    let start: AgentState
    let view: ConversationFold
    let sequence: Int64
    private let reading: Task<Void, Never>

    init(_ engine: Engine) async throws {
      _ = engine.session.publications.subscribe { [publications] in publications.add($0) }
      let reader = try await engine.views.events(of: .root)
      let first = try #require(await reader.next())
      guard case .snapshot(let state)? = first.events.first else { throw CancellationError() }
      let watch = try await engine.views.watch(.root)
      start = state
      view = watch.initial
      sequence = max(first.sequence, watch.initialSequence)
      reading = Task { [batches] in
        while let batch = await reader.next() { batches.add(batch) }
      }
    }

    /// Folds the events over the first snapshot and compares after every commit up to `end`;
    /// returns all events.
    func check(_ seed: UInt64, through end: Int64) async throws -> [AgentEvent] {
      await reading.value
      var (state, view) = (start, view)
      let known = (sequence + 1)...max(sequence + 1, end)
      var batches = batches.all.filter { known.contains($0.sequence) }[...]
      #expect(shown(view) == state, "seed \(seed)")
      for publication in publications.all where known.contains(publication.sequence) {
        _ = view.apply(publication)
        guard let batch = batches.first else {
          #expect(shown(view) == state, "seed \(seed), commit \(publication.sequence)")
          continue
        }
        if batch.sequence == publication.sequence {
          #expect(!batch.events.isEmpty)
          for event in batch.events {
            try state.apply(event)
            #expect(try AgentEvent(json: event.json) == event, "seed \(seed)")
          }
          #expect(!batch.events.contains(where: Self.retellsRun), "seed \(seed)")
          batches.removeFirst()
        } else if case .snapshot? = batch.events.first {
          continue
        }
        #expect(shown(view) == state, "seed \(seed), commit \(publication.sequence)")
      }
      #expect(batches.isEmpty, "seed \(seed)")
      return self.batches.all.flatMap(\.events)
    }

    /// Whether the rest of a commit says something of the run, which other events tell.
    private static func retellsRun(_ event: AgentEvent) -> Bool {
      guard case .liveUpdate(let operations) = event else { return false }
      return operations.contains { $0.json.array?[1].array?.first == "run" }
    }

    private func shown(_ view: ConversationFold) -> AgentState {
      let documents = view.value.documents
      return AgentState(
        entries: view.value.entries,
        live: documents["pi.live"],
        inbox: documents["pi.inbox"],
        agent: documents["pi.agent"],
        usage: documents["pi.usage"]
      )
    }
  }

  /// Does one random thing to the root conversation.
  private static func act(
    _ engine: Engine,
    _ random: inout SeededGenerator,
    _ number: Int
  ) async throws {
    let text = JSON.string("\(number)")
    switch random.int(0...11) {
    case 0...5:
      let whenBusy = random.pick(WhenBusy.allCases)
      do {
        _ = try await engine.submit(text, to: .root, whenBusy: whenBusy)
      } catch let error as PerdureError where error.code == .conversationBusy {}
    case 6: _ = try await engine.write(EntryDraft(kind: "note"), to: .root)
    case 7:
      let fact: JSON = ["role": "user", "content": text, "timestamp": 0]
      _ = try await engine.write(EntryDraft(kind: "fact", model: [fact]), to: .root)
    case 8: _ = try await engine.reset(.root)
    case 9: try await engine.configure(.root, ["thinkingLevel": number % 2 == 0 ? "low" : "high"])
    case 10:
      // What an application appends beside a streaming answer is none of it.
      let answer: JSON = ["role": "assistant", "content": [], "timestamp": 0]
      _ = try await engine.session.commit { tx in
        try await tx.append(EntryDraft(kind: "app", model: [answer]), to: .root)
      }
    default: try await engine.abort(.root)
    }
    for _ in 0..<random.int(0...60) { await Task.yield() }
    if random.chance(25) { try await engine.waitForIdle(.root) }
  }

  private static func course(_ seed: UInt64) async throws -> [AgentEvent] {
    var random = SeededGenerator(seed: seed)
    var bench = TestBench()
    bench.settings.partialIntervalMs = 0
    bench.settings.outputIntervalMs = 0
    bench.settings.retry.baseDelayMs = 0
    bench.settings.retry.maxRetries = 2
    bench.settings.restartLimit = .max
    var events: [AgentEvent] = []
    let deaths = random.int(0...2)
    for life in 0...deaths {
      let storage = CopyingStorage(bench.memory)
      bench.front = { _ in storage }
      let process = ScriptTests.Life()
      let engine = try await bench.open(
        SlowModel(base: ScriptTests.model(seed), seed: seed),
        tools: ScriptTests.tools(process)
      )
      _ = try await bench.start(engine)
      let trace = try await Trace(engine)
      try await engine.resume()
      for number in 0..<random.int(2...8) { try await act(engine, &random, number) }
      if life == deaths { try await engine.waitForIdle(.root) }
      try await engine.session.barrier()
      // What is committed while the store is being closed is not told any more.
      let end = trace.publications.all.last?.sequence ?? 0
      try await engine.close()
      events += try await trace.check(seed, through: end)
      process.die()
      let left = storage.all.isEmpty ? bench.memory : random.pick(storage.all)
      bench.memory = MemoryStorage(continuing: left)
    }
    return events
  }

  @Test(arguments: 0..<6)
  func `folding events over a snapshot gives the next snapshot`(_ part: Int) async throws {
    var seeds = SeededGenerator(for: "agent events, part \(part)")
    var counts: [String: Int] = [:]
    for _ in 0..<Effort.choose(12, long: 200) {
      let seed = seeds.next()
      do {
        for event in try await Self.course(seed) { counts[event.type, default: 0] += 1 }
      } catch {
        Issue.record("seed \(seed): \(error)")
      }
    }
    print("agent events, part \(part): \(counts.sorted { $0.key < $1.key })")
    for type in ["run_start", "turn_end", "message_start", "message_end", "tool_execution_end"] {
      #expect(counts[type] != nil, "no \(type)")
    }
  }
}
