import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// Random runs with random failures, aborts, stops and deaths.
@Suite(.timeLimit(.minutes(30))) struct ScriptTests {
  /// Chance that does not depend on which task comes first.
  static func dice(_ seed: UInt64, _ place: String, _ sides: Int) -> Int {
    var mixed = seed
    for byte in place.utf8 { mixed = (mixed ^ UInt64(byte)) &* 0x100_0000_01B3 }
    var generator = SeededGenerator(seed: mixed)
    return generator.int(0...(sides - 1))
  }

  /// Answers, calls and fails as the seed and the place in the conversation say.
  static func model(_ seed: UInt64) -> ScriptedModel {
    ScriptedModel { request in
      let users = request.messages.filter { $0["role"] == "user" }.count
      let turn = ScriptedModel.turn(of: request)
      let place = "\(users).\(turn)"
      if request.attempt <= dice(seed, "fail " + place, 4) - 1 {
        let isFinal = dice(seed, "final " + place, 8) == 0
        return ScriptedModel.failure(ProviderFailure(isFinal ? .stop : .retry, "busy"))
      }
      let calls = turn > 3 ? 0 : dice(seed, "calls " + place, 4)
      guard calls > 0 else { return ScriptedModel.text("some ", "words") }
      var events: [ModelEvent] = []
      for index in 0..<calls {
        let names = ["safe", "unsafe", "throws", "ghost"]
        let name = names[dice(seed, "tool \(place).\(index)", names.count)]
        events.append(
          .blockStart(
            index: index,
            .toolCall(id: JSONString("c\(index)"), name: JSONString(name))
          )
        )
        let arguments: JSON = ["key": .string("\(place).\(index)")]
        events.append(.blockEnd(index: index, arguments: arguments))
      }
      return [events + [.finished(.toolUse)]]
    }
  }

  /// One process: what its tools did until it died.
  final class Life: Sendable {
    private let state = Mutex((isDead: false, effects: [String]()))

    var effects: [String] { state.withLock { $0.effects } }

    func act(_ effect: String) { state.withLock { if !$0.isDead { $0.effects.append(effect) } } }

    func die() { state.withLock { $0.isDead = true } }
  }

  static func tools(_ life: Life) -> [Tool] {
    @Sendable func run(_ name: String, _ call: ToolCall) async throws -> ToolResult {
      life.act("\(name) \(call.arguments["key"]?.text ?? "")")
      try call.host.output("working", skipped: nil)
      try await call.host.flushOutput()
      await Task.yield()
      if name == "throws" { throw PerdureError(.invalidInput, "no") }
      return .text("ok")
    }
    return [
      plainTool("safe", replay: .safe) { try await run("safe", $0) },
      plainTool("unsafe") { try await run("unsafe", $0) },
      plainTool("throws", mode: .sequential) { try await run("throws", $0) },
    ]
  }

  struct Course {
    let seed: UInt64
    var bench = TestBench()
    var effects: [String] = []
    var random: SeededGenerator
    /// Whether a death leaves what was on disk then, or what was there after any commit.
    var diesNow = true

    init(seed: UInt64) {
      self.seed = seed
      random = SeededGenerator(seed: seed)
      diesNow = random.chance(50)
      bench.settings.partialIntervalMs = 0
      bench.settings.retry.baseDelayMs = 0
      bench.settings.retry.maxRetries = 2
      bench.settings.restartLimit = .max
    }

    mutating func run(deaths: Int) async throws {
      var submitted = 0
      for life in 0...deaths {
        let isLast = life == deaths
        let storage = CopyingStorage(bench.memory)
        bench.front = { _ in storage }
        let process = Life()
        let engine = try await bench.open(
          ScriptTests.model(seed),
          tools: ScriptTests.tools(process)
        )
        _ = try await bench.start(engine)
        try await engine.resume()
        for _ in 0..<random.int(1...3) {
          submitted += 1
          let requestId = JSONString("r\(submitted)")
          let whenBusy = random.pick(WhenBusy.allCases)
          guard
            (try? await engine.submit("go", to: .root, whenBusy: whenBusy, requestId: requestId))
              != nil
          else { continue }
          if random.chance(15) { try await engine.abort(.root) }
          if isLast || random.chance(60) { try await engine.waitForIdle(.root) }
        }
        if isLast { try await drain(engine) }
        let isClean = isLast || random.chance(30)
        if isClean { try await engine.close() }
        process.die()
        let copies = storage.all
        if !isClean, !copies.isEmpty {
          let left = diesNow ? copies[copies.count - 1] : random.pick(copies)
          bench.memory = MemoryStorage(continuing: left)
          try await engine.close()
        } else {
          bench.memory = MemoryStorage(continuing: bench.memory)
        }
        effects += process.effects
        try await bench.checkInvariants()
      }
      try await checkEnd()
    }

    /// Lets inputs that a failed or aborted run left in the queue go with further ones.
    private func drain(_ engine: Engine) async throws {
      try await engine.waitForIdle()
      while try await engine.session.snapshot(.inbox, .root)["items"] != [] {
        _ = try await engine.submit("go", to: .root)
        try await engine.waitForIdle()
      }
    }

    private func checkEnd() async throws {
      let store = MemoryStorage(continuing: bench.memory)
      let submissions = try await store.scanSubmissions(.init(), PageRequest(limit: 256)).items
      #expect(submissions.filter { !$0.isSettled }.isEmpty, "seed \(seed)")
      let tasks = try await store.scanTasks(.init(), PageRequest(limit: 4_096)).items
      #expect(tasks.filter(\.isLive).isEmpty, "seed \(seed)")
      let unsafe = effects.filter { !$0.hasPrefix("safe") }
      #expect(!diesNow || Set(unsafe).count == unsafe.count, "seed \(seed)")
      #expect(!bench.reports.all.contains { $0.type == "session_failed" }, "seed \(seed)")
      #expect(!bench.reports.all.contains { $0.type == "task_faulted" }, "seed \(seed)")
    }
  }

  @Test(arguments: 0..<8)
  func `whatever happens all inputs are settled in the end`(_ part: Int) async throws {
    var seeds = SeededGenerator(for: "scripts, part \(part)")
    for _ in 0..<Effort.choose(25, long: 500) {
      let seed = seeds.next()
      var course = Course(seed: seed)
      do {
        try await course.run(deaths: course.random.int(0...5))
      } catch {
        Issue.record("seed \(seed): \(error)")
      }
    }
  }
}
