import Foundation
import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// What plugins may ask of the host.
@Suite(.bothPlaces) struct OperationTests {
  /// Asks for an operation from inside or outside a call; gives the status and the answer.
  private func ask(
    _ bench: PluginBench,
    _ operation: String,
    _ input: JSON = [:],
    outside: Bool = false,
    host: FakeHost? = nil
  ) async throws -> JSON {
    let result = try await bench.call(
      "op",
      ["op": .string(operation), "input": input, "outside": .bool(outside)],
      host: host
    )
    return result.structuredOutput ?? .null
  }

  @Test func `host info tells what is served`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      let info = try #require(try await ask(bench, "host.info")["answer"])
      #expect(info["messages"] == 1)
      #expect(
        info["ops"]?.array?.compactMap { $0.text } == OperationListing.all.map(\.name)
      )
      #expect(info["isolated"] == .bool(Place.current == .runner))
      #expect(info["plugin"]?["id"] == "test.adversary")
    }
  }

  @Test(arguments: ["env.fly", "env", "nonsense", "HOST.INFO"])
  func `what is not served is unsupported`(operation: String) async throws {
    try await PluginBench.adversary { (bench) async throws in
      let answer = try await ask(bench, operation)
      #expect(answer["status"] == -10)
      #expect(answer["answer"]?["reason"] == "op")
    }
  }

  @Test(arguments: ["output.flush", "output.retained", "barrier"])
  func `what needs a call is not here outside of one`(operation: String) async throws {
    try await PluginBench.adversary { (bench) async throws in
      let answer = try await ask(bench, operation, outside: true)
      #expect(answer["status"] == -7)
      #expect(answer["answer"]?["reason"] == "not_here")
    }
  }

  @Test func `lifecycle stopped is not here inside a call`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      let answer = try await ask(bench, "lifecycle.stopped", ["ticket": "1"])
      #expect(answer["answer"]?["reason"] == "not_here")
    }
  }

  @Test func `an unknown ticket is stale`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      let answer = try await ask(bench, "lifecycle.stopped", ["ticket": "1"], outside: true)
      #expect(answer["status"] == -3)
      #expect(answer["answer"]?["reason"] == "unknown_handle")
    }
  }

  private static let wrongInputs: [(String, JSON, String)] = [
    ("log", ["level": "loud", "message": "x"], "/level"),
    ("log", ["level": "info"], "/message"), ("random", ["bytes": 65_537], "/bytes"),
    ("random", ["bytes": "5"], "/bytes"), ("timer.wait", [:], ""),
    ("timer.wait", ["ms": -1], "/ms"), ("settings.get", ["scope": "all"], "/scope"),
  ]

  @Test func `a member that must be understood and is not is unsupported`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      let answer = try await ask(bench, "report", ["must": ["future"], "message": "x"])
      #expect(answer["status"] == -10)
      #expect(answer["answer"]?["reason"] == "fields")
      #expect(answer["answer"]?["fields"] == ["future"])
    }
  }

  private static let notOutside = OperationListing.all.filter {
    !$0.classes.contains("all") && !$0.classes.contains("N")
  }.map(\.name)

  @Test func `every operation is refused where it is not legal`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      for name in Self.notOutside {
        let answer = try await ask(bench, name, outside: true)
        #expect(answer["status"] == -7, "\(name)")
        #expect(answer["answer"]?["reason"] == "not_here", "\(name)")
      }
      for name in ["hooks.each", "register", "unregister", "next", "lifecycle.stopped"] {
        let answer = try await ask(bench, name)
        #expect(answer["answer"]?["reason"] == "not_here", "\(name)")
      }
    }
  }

  @Test func `every operation refuses members of the wrong type`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      for listing in OperationListing.all {
        let isOutside = listing.classes == "N" || listing.classes == "P N"
        guard isOutside || listing.classes.contains("all") || listing.classes.contains("T") else {
          continue
        }
        for member in listing.members where member.type != "JSON" {
          let wrong: JSON = member.type.hasPrefix("list") ? 5 : [[]]
          var input: JSONObject = [:]
          for other in listing.members where other.isRequired && other.name != member.name {
            // Members are checked in order, so those behind the wrong one do not matter.
            input[JSONString(other.name)] = Self.sample(other.type)
          }
          input[JSONString(member.name)] = wrong
          let answer = try await ask(bench, listing.name, .object(input), outside: isOutside)
          #expect(answer["status"] == -7, "\(listing.name) \(member.name)")
          #expect(answer["answer"]?["reason"] == "shape", "\(listing.name) \(member.name)")
          #expect(answer["answer"]?["at"]?.text?.hasPrefix("/\(member.name)") == true)
        }
      }
    }
  }

  private static func sample(_ type: String) -> JSON {
    switch type {
    case "id", "integer", "number": 1
    case "bool": true
    case "object": [:]
    case "list of object": [[:]]
    case "list of id", "list of string": []
    case "string", "handle", "string or list of string": "x"
    default:
      type.hasPrefix("\"")
        ? .string(JSONString(String(type.dropFirst().prefix { $0 != "\"" }))) : [:]
    }
  }

  @Test(arguments: wrongInputs)
  func `a wrong input is invalid at a place`(
    operation: String,
    input: JSON,
    pointer: String
  ) async throws {
    try await PluginBench.adversary { (bench) async throws in
      let answer = try await ask(bench, operation, input)
      #expect(answer["status"] == -7)
      #expect(answer["answer"]?["reason"] == "shape")
      #expect(answer["answer"]?["at"] == .string(pointer))
    }
  }

  @Test func `unknown members of an input are ignored`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      #expect(try await ask(bench, "clock", ["x-acme-note": 1])["status"] == 0)
    }
  }

  @Test func `the clock is the call's`() async throws {
    let clock = ManualClock()
    try await PluginBench.adversary(clock: clock) { (bench) async throws in
      let answer = try await ask(bench, "clock")["answer"]
      #expect(answer?["now"] == .int(clock.now()))
      #expect(answer?["monotonicNs"] == .string("\(clock.monotonic())"))
    }
  }

  @Test func `random gives bytes`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      #expect(try await ask(bench, "random", ["bytes": 300])["bytes"] == 300)
    }
  }

  @Test func `a timer waits for the host's clock`() async throws {
    let clock = ManualClock()
    try await PluginBench.adversary(clock: clock) { (bench) async throws in
      async let answer = ask(bench, "timer.wait", ["ms": 5_000])
      await clock.waitForSleeper(of: .seconds(5))
      clock.advance(by: .seconds(5))
      #expect(try await answer["answer"]?["now"] == .int(clock.now()))
    }
  }

  @Test func `settings are the plugin's or the run's`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      let own = try await ask(bench, "settings.get", ["scope": "plugin"])["answer"]
      #expect(own?["settings"] == ["colour": "red"])
      #expect(own?["revision"] == 1)
      let run = try await ask(bench, "settings.get", ["scope": "run"])["answer"]
      #expect(run?["settings"] == ["maxTurns": 3])
      let outside = try await ask(bench, "settings.get", ["scope": "run"], outside: true)
      #expect(outside["answer"]?["reason"] == "not_here")
    }
  }

  @Test func `flush and retained see what was sent`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      let host = FakeHost()
      #expect(try await ask(bench, "output.flush", host: host)["status"] == 0)
      #expect(host.state.withLock { $0.flushes } == 1)
      #expect(try await ask(bench, "output.retained", host: host)["answer"]?["text"] == "")
      #expect(try await ask(bench, "barrier", host: host)["status"] == 0)
    }
  }

  @Test func `log and report reach the host`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      let host = FakeHost()
      _ = try await ask(
        bench,
        "log",
        ["level": "warn", "message": "low", "fields": ["n": 1]],
        host: host
      )
      _ = try await ask(bench, "report", ["message": "inside"], host: host)
      _ = try await ask(bench, "report", ["message": "outside"], outside: true)
      #expect(bench.reports.messages("plugin_log") == ["[warn] low {\"n\":1}"])
      #expect(host.state.withLock { $0.reports } == ["inside"])
      #expect(bench.reports.messages("extension_error") == ["outside"])
    }
  }

  @Test func `only one-way operations go without a function for the result`() async throws {
    try await PluginBench.adversary { (bench) async throws in
      #expect(try await bench.text("one_way") == "0 0 -7 -8 -8 -3 -3")
      #expect(bench.reports.messages("plugin_log") == ["[info] hello {\"n\":1}"])
    }
  }
}
