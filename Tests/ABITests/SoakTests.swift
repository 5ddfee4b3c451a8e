import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// The adversary for a long time: calls of all kinds beside each other, cancelled at any moment, and
/// closes with calls under way.
@Suite(.timeLimit(.minutes(120)), .bothPlaces) struct SoakTests {
  private static let kinds = [
    "text_utf8", "utf8", "json", "keys", "deep", "array", "shape", "error_type", "must", "null",
    "huge", "limit", "media", "bytes", "parts", "positive", "flags", "error_utf8", "nothing",
    "small_struct",
  ]
  private static let operations = [
    "clock", "random", "settings.get", "output.retained", "timer.wait", "barrier", "no.such", "",
    "lifecycle.stopped", "host.info", "memo.get", "doc.read", "commit", "next",
  ]
  /// Those that end when they are cancelled, and not before.
  private static let endless = ["poll", "after_cancel"]

  /// One call to make.
  private struct Step: Sendable {
    var tool: String
    var arguments: JSON = [:]
    var isCancelled = false
  }

  private static func step(_ generator: inout SeededGenerator) -> Step {
    func one(_ names: [String]) -> String {
      names[Int.random(in: names.indices, using: &generator)]
    }
    // Some are cancelled right away.
    let isCancelled = Int.random(in: 0..<8, using: &generator) == 0
    switch Int.random(in: 0..<10, using: &generator) {
    case 0: return Step(tool: one(endless), isCancelled: true)
    case 1...2:
      let junk: JSON = ["kind": .string(JSONString(one(kinds)))]
      return Step(tool: "junk", arguments: junk, isCancelled: isCancelled)
    case 3...4:
      let outside = Bool.random(using: &generator)
      let input: JSON = Bool.random(using: &generator) ? ["ms": 1] : ["ms": "1", "must": ["x"]]
      let ask: JSON = [
        "op": .string(JSONString(one(operations))), "outside": .bool(outside), "input": input,
      ]
      return Step(tool: "op", arguments: ask, isCancelled: isCancelled)
    case 5:
      let code = Int64.random(in: -14...2, using: &generator)
      return Step(tool: "fail", arguments: ["code": .int(code), "flags": 8])
    case 6: return Step(tool: "echo", arguments: ["text": .string("word")])
    default:
      let tool = one([
        "twice", "from_thread", "emit_junk", "frames", "one_way", "blob", "busy", "refuse",
        "refuse_after", "stale", "single", "open_request",
      ])
      return Step(tool: tool, isCancelled: isCancelled)
    }
  }

  /// Makes calls one after another; each must end in a result or in a sentence.
  private static func make(_ steps: [Step], _ bench: PluginBench) async {
    for step in steps {
      let host = FakeHost()
      if step.isCancelled, endless.contains(step.tool) {
        let task = await bench.cancelled(step.tool, reason: .abort, host: host)
        expectSentence(await task.result, step)
        continue
      }
      let task = Task { try await bench.call(step.tool, step.arguments, host: host) }
      if step.isCancelled {
        host.state.withLock { $0.reason = .abort }
        task.cancel()
      }
      expectSentence(await task.result, step)
    }
  }

  private static func expectSentence(_ result: Result<ToolResult, any Error>, _ step: Step) {
    guard case .failure(let error) = result else { return }
    #expect(error is PerdureError, "\(step.tool): \(error)")
  }

  @Test func `every call of an adversary ends, and so does its life`() async throws {
    var generator = SeededGenerator(for: "the soak")
    for _ in 0..<Effort.choose(2, long: 150) {
      let bench = try await PluginBench.load(Fixtures.plugin("adversary"))
      let process = bench.plugin.processID
      let lists = (0..<8).map { _ in
        (0..<Effort.choose(25, long: 200)).map { _ in Self.step(&generator) }
      }
      await withTaskGroup(of: Void.self) { group in
        for steps in lists { group.addTask { await Self.make(steps, bench) } }
      }
      // Breaking promises is no reason for the process of a plugin to go.
      #expect(bench.plugin.processID == process)
      #expect(try await bench.text("echo", ["text": "still here"]) == "still here")
      let host = FakeHost()
      let last = Task { try await bench.call("poll", host: host) }
      await host.whenReady()
      _ = await bench.plugin.close()
      #expect(bench.plugin.liveCalls == [])
      Self.expectSentence(await last.result, Step(tool: "poll"))
    }
  }
}
