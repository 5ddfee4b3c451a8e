import Foundation
import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// A plugin that brings a runtime of Swift of its own, in a host that has one, too.
@Suite(.serialized, .timeLimit(.minutes(10))) struct SwiftKitTests {
  private static let sum = "1.0.0: 5050"
  /// Each loads a copy of the runtime, and hashes it several times.
  private static let changes = Effort.choose(6, long: 50)
  private static let numbers: JSON = ["numbers": .array((1...100).map { .int($0) })]

  @Test(.bothPlaces) func `actors, tasks and casts of the plugin work`() async throws {
    try await PluginBench.with(Fixtures.kitPlugin()) { bench in
      let sum = try await bench.text("tally", Self.numbers)
      #expect(sum == Self.sum)
      let counts = [try await bench.text("count"), try await bench.text("count")]
      #expect(counts == ["1", "2"])
    }
  }

  @Test(.bothPlaces) func `an error of the plugin fails its call alone`() async throws {
    try await PluginBench.with(Fixtures.kitPlugin()) { bench in
      let error = await bench.failure("odd")
      #expect(error?.message.contains("odd") == true)
      let sum = try await bench.text("tally", Self.numbers)
      #expect(sum == Self.sum)
      #expect(bench.plugin.strikes == 0)
    }
  }

  @Test(.bothPlaces) func `a call that is cancelled cancels the task of its handler`()
    async throws
  {
    try await PluginBench.with(Fixtures.kitPlugin()) { bench in
      let host = FakeHost()
      let call = await bench.cancelled("endless", reason: .abort, host: host)
      await #expect(throws: (any Error).self) { try await call.value }
      #expect(bench.plugin.strikes == 0)
    }
  }

  @Test(.bothPlaces) func `many activations work, each with a runtime of its own`() async throws {
    let path = try Fixtures.kitPlugin()
    for _ in 1...Self.changes {
      try await PluginBench.with(path) { bench in
        let sum = try await bench.text("tally", Self.numbers)
        #expect(sum == Self.sum)
        let count = try await bench.text("count")
        #expect(count == "1")
      }
    }
  }

  @Test func `the state of an actor goes to the next version`() async throws {
    let bench = try InstallBench()
    try await bench.installation.install(Fixtures.kitPlugin("1.0.0"), InstallBench.unsigned)
    let hot = try await HotBench.open(bench.folder, calling: "count")
    let before = [try await hot.ask(), try await hot.ask()]
    _ = try await hot.plugins.upgrade(Fixtures.kitPlugin("1.0.1"), InstallBench.unsigned)
    let after = try await hot.ask()
    #expect(before + [after] == ["It says: 1", "It says: 2", "It says: 3"])
    #expect(try await hot.close() == [])
  }

  @Test(arguments: [Isolation.inProcess, .runner])
  func `many changes of version lose no call`(
    isolation: Isolation
  ) async throws {
    let bench = try InstallBench()
    try await bench.installation.install(Fixtures.kitPlugin("1.0.0"), InstallBench.unsigned)
    let hot = try await HotBench.open(
      bench.folder,
      calling: "tally",
      Self.numbers,
      configure: { $0.runner = Place.program },
      change: { $0.isolation = isolation }
    )
    let isOver = Mutex(false)
    async let answers = {
      var answers: [String] = []
      repeat { answers.append(try await hot.ask()) } while !isOver.withLock { $0 }
      return answers
    }()
    let newer = try Fixtures.kitPlugin("1.0.1")
    for change in 1...Self.changes {
      if change.isMultiple(of: 2) {
        _ = try await hot.plugins.rollback("test.kit")
      } else {
        _ = try await hot.plugins.upgrade(newer, InstallBench.unsigned)
      }
      let answer = try await hot.ask()
      #expect(answer == "It says: 1.0.\(change % 2): 5050")
    }
    isOver.withLock { $0 = true }
    for answer in try await answers {
      #expect(["It says: 1.0.0: 5050", "It says: 1.0.1: 5050"].contains(answer))
    }
    await hot.plugins.waitUntilDrained()
    #expect(try await hot.close() == [])
  }
}
