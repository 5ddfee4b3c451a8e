import Foundation
import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Testing

/// Plugins in processes of their own, and what is left when they end.
@Suite struct IsolationTests {
  /// Loads the plugin whose tools end their process.
  private func load(clock: any HostClock = SystemClock()) async throws -> PluginBench {
    let path = try Fixtures.plugin("doom")
    return try await Place.$current.withValue(.runner) {
      try await PluginBench.load(path, clock: clock)
    }
  }

  @Test(arguments: [
    ("segv", "crashed", "crashed (SIGSEGV) in tool:segv"),
    ("trap", "crashed", "crashed (SIGILL) in tool:trap"),
    ("abort", "crashed", "crashed (SIGABRT) in tool:abort"),
    ("overflow", "crashed", "crashed (SIGSEGV) in tool:overflow"),
    ("hog", "crashed", "crashed (SIGSEGV) in tool:hog"),
    ("exit", "crashed", "ended itself with the exit status 0"),
    ("quit", "crashed", "ended itself with the exit status 7"),
    ("noise", "broken_frame", "sent a frame of 5 bytes, which is less than a header"),
    ("unsealed", "broken_frame", "sent a frame whose memory is not sealed or has another size"),
    ("skip", "broken_frame", "sent a frame numbered 4, which is not the next number"),
    ("forged", "broken_frame", "sent a frame with a call that was never made"),
  ])
  func `a plugin that ends its process costs its call a plugin fault and nothing else`(
    tool: String,
    reason: String,
    phrase: String
  ) async throws {
    let bench = try await load()
    let error = await bench.failure(tool)
    #expect(error?.code == .pluginFault)
    #expect(error?.details?["reason"]?.text == reason)
    let sentence = try #require(error?.message)
    // A sign of life that the host asked for meanwhile has a number, too, which the plugin reuses.
    let isLate = reason == "broken_frame" && sentence.hasSuffix("which is not the next number")
    #expect(isLate || sentence == "the process of plugin test.doom \(phrase)")
    // It is started again, and the next call has to wait for that only.
    #expect(try await bench.text("echo", ["n": 1]) == #"{"n":1}"#)
    #expect(bench.reports.messages("plugin_died") == [sentence])
    #expect(await bench.plugin.close() == [])
  }

  @Test func `an exception of C++ that leaves its plugin costs its call a plugin fault`()
    async throws
  {
    let path = try Fixtures.cppPlugin("thrower")
    try await Place.$current.withValue(.runner) {
      let bench = try await PluginBench.load(path)
      let error = await bench.failure("raise")
      #expect(error?.code == .pluginFault)
      #expect(error?.message.contains("crashed (SIGABRT) in tool:raise") == true)
      // One that is caught within is an error like any other.
      let caught = await bench.failure("catch")
      #expect(caught?.message == "no luck")
      _ = await bench.plugin.close()
    }
  }

  @Test func `a plugin that closes its connection costs its call a plugin fault`() async throws {
    let bench = try await load()
    #expect(await bench.failure("deaf")?.code == .pluginFault)
    #expect(try await bench.text("echo") == "{}")
    _ = await bench.plugin.close()
  }

  @Test func `a plugin that leaks descriptors only reaches its own limit`() async throws {
    let bench = try await load()
    let leaked = try #require(Int(try await bench.text("leak")))
    #expect(leaked < 80)
    // Too large for a datagram, and there is no descriptor left for it.
    let large = JSON.string(JSONString(String(repeating: "x", count: 100_000)))
    #expect(await bench.failure("echo", ["text": large])?.code == .pluginFault)
    #expect(try await bench.text("echo", ["text": large]).count == 100_011)
    _ = await bench.plugin.close()
  }

  @Test func `a plugin that loops for ever is killed after its grace`() async throws {
    let bench = try await load()
    let host = FakeHost()
    let other = FakeHost()
    let held = Task { try await bench.call("hold", host: other) }
    await other.whenReady()
    let call = await bench.cancelled("loop", reason: .deadline, host: host)
    await #expect(throws: PerdureError.self) { try await call.value }
    let error = await #expect(throws: PerdureError.self) { try await held.value }
    #expect(error?.code == .pluginFault)
    #expect(error?.details?["reason"] == "killed")
    #expect(try await bench.text("echo") == "{}")
    _ = await bench.plugin.close()
  }

  @Test func `64 calls at once end when their process dies`() async throws {
    let bench = try await load()
    let hosts = (0..<63).map { _ in FakeHost() }
    let calls = hosts.map { host in
      Task { await bench.failure("hold", host: host) }
    }
    for host in hosts { await host.whenReady() }
    #expect(await bench.failure("segv")?.code == .pluginFault)
    for call in calls { #expect(await call.value?.code == .pluginFault) }
    #expect(try await bench.text("echo") == "{}")
    _ = await bench.plugin.close()
  }

  @Test func `a plugin whose process dies again and again is quarantined until it is cleared`()
    async throws
  {
    let bench = try await load()
    for _ in 0..<RestartPace.deathLimit {
      #expect(await bench.failure("segv")?.code == .pluginFault)
    }
    let error = await bench.failure("echo")
    #expect(error?.code == "tool_unavailable")
    #expect(error?.message.hasPrefix("plugin test.doom is quarantined: ") == true)
    #expect(bench.plugin.quarantine == "its process died 5 times within 10 minutes")
    #expect(bench.reports.messages("plugin_quarantined").count == 1)
    bench.plugin.clearQuarantine()
    #expect(try await bench.text("echo") == "{}")
    #expect(bench.plugin.quarantine == nil)
    _ = await bench.plugin.close()
  }

  @Test(arguments: [(1, 100), (2, 200), (3, 400), (8, 12_800), (10, 30_000), (1_000, 30_000)])
  func `the pause before a restart doubles up to half a minute`(deaths: Int, ms: Int64) {
    #expect(RestartPace.pause(after: deaths) == ms * 1_000_000)
  }

  @Test func `the process that was started again is another one`() async throws {
    let bench = try await load()
    let first = try #require(bench.plugin.processID)
    _ = await bench.failure("abort")
    _ = try await bench.text("echo")
    let second = try #require(bench.plugin.processID)
    #expect(first != second)
    #expect(kill(first, 0) != 0)
    _ = await bench.plugin.close()
    #expect(bench.plugin.processID == nil)
    #expect(kill(second, 0) != 0)
  }

  @Test func `what a plugin prints is logged under its name`() async throws {
    let bench = try await load()
    #expect(try await bench.text("print") == "printed")
    _ = await bench.plugin.close()
    let lines = bench.reports.messages("plugin_log")
    #expect(lines.sorted() == ["a line for the log", "and one of errors"])
  }

  @Test func `a plugin sees no secrets of the host's environment`() async throws {
    unsafe setenv("PERDURE_TEST_SECRET", "hunter2", 1)
    let bench = try await load()
    #expect(try await bench.text("variables") == "none")
    _ = await bench.plugin.close()
  }

  @Test(arguments: [60_000, 65_400, 70_000, 1 << 20, 8 << 20])
  func `payloads of any size pass both ways`(size: Int) async throws {
    let bench = try await load()
    let text = JSON.string(JSONString(String(repeating: "y", count: size)))
    #expect(try await bench.text("echo", ["text": text]).utf8.count == size + 11)
    _ = await bench.plugin.close()
  }

  @Test func `a plugin that must have a process of its own is refused in this one`() async throws {
    let path = try Fixtures.plugin("doom")
    let error = await #expect(throws: PerdureError.self) { try await PluginBench.load(path) }
    #expect(error?.code == .pluginRefused)
    #expect(error?.message.hasSuffix("must run in a process of its own") == true)
  }

  @Test func `a runner that is not there is a sentence`() async throws {
    var environment = PluginBench.environment(Reports(), copies: try Fixtures.folder())
    environment.runner = "/nowhere/perdure-runner"
    let path = try Fixtures.plugin("doom")
    let error = await #expect(throws: PerdureError.self) {
      try await PluginFiles.load(path: path, environment: environment)
    }
    #expect(error?.message.contains("/nowhere/perdure-runner is no program") == true)
  }

  @Test func `a runner that is something else is a sentence`() async throws {
    var environment = PluginBench.environment(Reports(), copies: try Fixtures.folder())
    environment.runner = "/bin/true"
    let path = try Fixtures.plugin("doom")
    let error = await #expect(throws: PerdureError.self) {
      try await PluginFiles.load(path: path, environment: environment)
    }
    #expect(error?.cause == "its process ended itself with the exit status 0")
  }

  @Test func `host and runner are of one version`() {
    #expect(RunnerProtocol.build == PerdureVersion.perdure)
  }
}
