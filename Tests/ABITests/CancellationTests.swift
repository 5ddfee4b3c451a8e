import Foundation
import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// Cancellation, grace, and calls that are given up.
@Suite(.bothPlaces) struct CancellationTests {
  @Test(arguments: [CancelReason.abort, .deadline, .closing])
  func `the plugin sees why it is cancelled`(reason: CancelReason) async throws {
    try await PluginBench.adversary { (bench) async throws in
      let host = FakeHost()
      let task = await bench.cancelled("poll", reason: reason, host: host)
      #expect(try await task.value.output?.first?["text"]?.text == "\(reason.rawValue)")
    }
  }

  @Test func `a completion from another thread after the cancellation counts`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      let host = FakeHost()
      let task = await bench.cancelled("after_cancel", reason: .abort, host: host)
      #expect(try await task.value.output?.first?["text"]?.text == "from a thread")
    }
  }

  @Test func `a call that never answers is given up after its grace`() async throws {
    let clock = ManualClock()
    try await PluginBench.adversary(clock: clock) { (bench) async throws in
      let host = FakeHost(time: clock)
      _ = await bench.cancelled("never", reason: .deadline, host: host)
      await clock.waitForSleeper(of: .milliseconds(1_000))
      clock.advance(by: .milliseconds(1_300))
      await bench.hasStrikes(1)
      #expect(
        bench.reports.strikes == [
          "plugin test.adversary did not answer tool never in time after it was cancelled"
        ]
      )
    }
  }

  @Test func `a call that was given up is waited for until the plugin is closed`() async throws {
    // A process of its own is killed instead.
    guard Place.current == .inProcess else { return }
    let clock = ManualClock()
    try await PluginBench.adversary(clock: clock) { (bench) async throws in
      let task = await bench.cancelled("never", reason: .deadline, host: FakeHost(time: clock))
      await clock.waitForSleeper(of: .milliseconds(1_000))
      clock.advance(by: .milliseconds(1_300))
      await bench.hasStrikes(1)
      // Nobody advances the clock: closing does not give it a second grace.
      #expect(await bench.plugin.close() == [])
      let error = await #expect(throws: PerdureError.self) { try await task.value }
      #expect(error?.code == "interrupted")
    }
  }

  @Test func `a completion after the call was given up is stale, a strike and its end`()
    async throws
  {
    // A process of its own would be killed when the call is given up.
    guard Place.current == .inProcess else { return }
    let clock = ManualClock()
    try await PluginBench.adversary(clock: clock) { (bench) async throws in
      let host = FakeHost(time: clock)
      let task = await bench.cancelled("keep", reason: .deadline, host: host)
      await clock.waitForSleeper(of: .milliseconds(1_000))
      clock.advance(by: .milliseconds(1_300))
      await bench.hasStrikes(1)
      #expect(try await bench.text("complete_kept") == "-3")
      let error = await #expect(throws: PerdureError.self) { try await task.value }
      #expect(error?.message == "plugin test.adversary answered tool keep too late")
      #expect(bench.plugin.strikes == 2)
    }
  }

  @Test func `calls that were given up take no place from other calls of the plugin`()
    async throws
  {
    // A process of its own is killed instead.
    guard Place.current == .inProcess else { return }
    let clock = ManualClock()
    try await PluginBench.adversary(clock: clock) { (bench) async throws in
      // As many as the plugin may have at a time.
      for number in 1...32 {
        _ = await bench.cancelled("never", reason: .abort, host: FakeHost(time: clock))
        await clock.waitForSleeper(of: .milliseconds(1_000))
        clock.advance(by: .milliseconds(1_300))
        await bench.hasStrikes(number)
      }
      #expect(try await bench.text("echo", ["text": "still here"]) == "still here")
    }
  }

  @Test func `a completion after the engine gave up is stale though the grace is not over`()
    async throws
  {
    let clock = ManualClock()
    try await PluginBench.adversary(clock: clock) { (bench) async throws in
      let host = FakeHost(time: clock)
      let task = await bench.cancelled("keep", reason: .deadline, host: host)
      await clock.waitForSleeper(of: .milliseconds(1_000))
      host.state.withLock { $0.isOver = true }
      // The runner does not know what the host, which drops the completion, knows.
      let code = Place.current == .runner ? "0" : "-3"
      #expect(try await bench.text("complete_kept") == code)
      _ = await task.result
      #expect(bench.plugin.strikes == 1)
    }
  }

  @Test func `a late completion within the grace counts`() async throws {
    let clock = ManualClock()
    try await PluginBench.adversary(clock: clock) { (bench) async throws in
      let host = FakeHost(time: clock)
      let task = await bench.cancelled("keep", reason: .deadline, host: host)
      await clock.waitForSleeper(of: .milliseconds(1_000))
      #expect(try await bench.text("complete_kept") == "0")
      #expect(try await task.value.output?.first?["text"]?.text == "late")
    }
  }

  @Test func `open requests of a call end when it does`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      #expect(try await bench.text("open_request") == "left one open")
      // The answer is on its way on another thread.
      while try await bench.text("open_request", ["count": true]) != "1" { await Task.yield() }
    }
  }

  @Test func `open requests of a call end when it is cancelled`() async throws {
    let clock = ManualClock()
    try await PluginBench.adversary(clock: clock) { (bench) async throws in
      let host = FakeHost(time: clock)
      _ = await bench.cancelled(
        "open_request",
        ["keep": true],
        reason: .abort,
        host: host
      )
      while try await bench.text("open_request", ["count": true]) != "1" { await Task.yield() }
      await clock.waitForSleeper(of: .milliseconds(1_000))
      clock.advance(by: .seconds(2))
      await bench.hasStrikes(1)
    }
  }

  @Test func `a request is cancelled once`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      #expect(try await bench.text("open_request", ["cancel": true]) == "0 -3")
    }
  }
}
