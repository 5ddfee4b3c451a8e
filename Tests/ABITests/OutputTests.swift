import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// Output that tools send ahead of their completion.
@Suite(.bothPlaces) struct OutputTests {
  @Test func `frames arrive in order and before the completion`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      let host = FakeHost()
      _ = try await bench.call("frames", host: host)
      let state = host.state.withLock { $0 }
      #expect(host.text == "one two\nthree")
      #expect(state.details == [["step": 1]])
      #expect(state.diagnostics == [ToolDiagnostic(.warn, "careful", code: "c")])
      #expect(
        state.skipped == [SkippedOutput(bytes: 10, newlines: 2, endsWithNewline: true)]
      )
    }
  }

  @Test func `a gigabyte passes through a window of credit`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      let host = FakeHost(keepsText: false)
      let result = try await bench.call("flood", ["mib": 1_024], host: host)
      let state = host.state.withLock { $0 }
      #expect(state.bytes == 1 << 30)
      #expect(result.structuredOutput?["sent"] == 16_384)
      #expect((result.structuredOutput?["blocked"]?.int ?? 0) > 0)
    }
  }

  @Test func `what is sent without credit is refused and not kept`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      let host = FakeHost(keepsText: false)
      let result = try await bench.call("flood", ["mib": 64, "ignoreCredit": true], host: host)
      let sent = try #require(result.structuredOutput?["sent"]?.int)
      let blocked = try #require(result.structuredOutput?["blocked"]?.int)
      #expect(sent + blocked == 64 * 16)
      #expect(host.state.withLock { $0.bytes } == Int(sent) << 16)
    }
  }

  @Test func `junk is refused and the next frame passes`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      let host = FakeHost()
      #expect(try await bench.text("emit_junk", host: host) == "-8 -7 -8 -8 -7 -8 -7 0")
      #expect(host.text == "ok")
    }
  }

  @Test func `threads of one call send everything`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      let host = FakeHost()
      _ = try await bench.call("threads", host: host)
      #expect(host.text == String(repeating: "line\n", count: 800))
    }
  }
}
