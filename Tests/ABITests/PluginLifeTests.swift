import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Testing

/// Calls of a plugin that belong to no conversation.
@Suite(.timeLimit(.minutes(5))) struct PluginLifeTests {
  private func with(
    _ members: JSONObject,
    _ script: JSONObject,
    _ body: (LoadedPlugin, ScriptedBench) async throws -> Void
  ) async throws {
    let bench = ScriptedBench()
    let plugin = try await bench.plugin(members, script: script)
    do {
      try await body(plugin.loaded, bench)
      try await plugin.close()
    } catch {
      try await plugin.close()
      throw error
    }
  }

  @Test func `a self-test gives its checks`() async throws {
    let step: JSON = [
      "answer": [
        "checks": [["name": "a", "ok": true], ["name": "b", "ok": false, "message": "no disk"]]
      ]
    ]
    try await with([:], ["selftest": step]) { (plugin, bench) async throws in
      let checks = try await plugin.selfTest(.upgrade)
      #expect(
        checks == [
          PluginCheck(name: "a", isGood: true, message: nil),
          PluginCheck(name: "b", isGood: false, message: "no disk"),
        ]
      )
      #expect(try bench.input("selftest")["reason"] == "upgrade")
    }
  }

  @Test func `a plugin without self-tests passes`() async throws {
    try await with([:], ["selftest": ["refuse": -10]]) { (plugin, _) async throws in
      #expect(try await plugin.selfTest(.install) == [])
    }
  }

  @Test func `a self-test that fails is thrown`() async throws {
    try await with([:], ["selftest": ["fail": "no disk"]]) { (plugin, _) async throws in
      let error = await #expect(throws: PerdureError.self) {
        _ = try await plugin.selfTest(.install)
      }
      #expect(error?.message == "no disk")
    }
  }

  static let healths: [(step: JSON, status: PluginHealth.Status)] = [
    (["answer": ["status": "ok"]], .ok),
    (["answer": ["status": "warn", "message": "slow", "hint": "wait"]], .warn),
    (["answer": ["status": "great"]], .fail), (["fail": "it broke"], .fail),
    (["refuse": -10], .fail),
  ]

  @Test(arguments: healths)
  func `the health of a plugin that fails to answer is bad`(
    _ step: JSON,
    _ status: PluginHealth.Status
  ) async throws {
    try await with([:], ["health": step]) { (plugin, bench) async throws in
      #expect(await plugin.health("proxy").status == status)
      #expect(try bench.input("health")["check"] == "proxy")
    }
  }

  private static let state: JSONObject = ["state": ["version": 2, "restores": [1, 2]]]

  @Test func `a snapshot goes to the next version`() async throws {
    let script: JSONObject = ["snapshot": ["answer": ["version": 2, "state": ["a": 1]]]]
    try await with(Self.state, script) { (plugin, bench) async throws in
      let snapshot = try #require(try await plugin.snapshot())
      #expect(snapshot == PluginSnapshot(version: 2, state: ["a": 1]))
      try await plugin.restore(snapshot, from: "0.9.0")
      let input = try bench.input("restore")
      #expect(input["fromVersion"] == "0.9.0")
      #expect(input["version"] == 2)
      #expect(input["state"] == ["a": 1])
    }
  }

  @Test func `a plugin without state has no snapshot`() async throws {
    try await with([:], [:]) { (plugin, bench) async throws in
      #expect(try await plugin.snapshot() == nil)
      #expect(bench.targets == [])
    }
  }

  @Test func `a snapshot of another version is junk`() async throws {
    let script: JSONObject = ["snapshot": ["answer": ["version": 3, "state": [:]]]]
    try await with(Self.state, script) { (plugin, _) async throws in
      await #expect(throws: PerdureError.self) { _ = try await plugin.snapshot() }
    }
  }

  @Test func `a state that the manifest does not name is not restored`() async throws {
    try await with(Self.state, [:]) { (plugin, bench) async throws in
      let error = await #expect(throws: PerdureError.self) {
        try await plugin.restore(PluginSnapshot(version: 7, state: [:]), from: "0.1.0")
      }
      #expect(error?.code == .pluginRefused)
      #expect(bench.targets == [])
    }
  }

  @Test func `settings that do not fit the schema never reach the plugin`() async throws {
    let members: JSONObject = [
      "settings": [
        "schema": ["type": "object", "properties": ["pages": ["type": "integer"]]]
      ],
      "health": [["name": "h", "title": "H"]],
    ]
    try await with(members, [:]) { (plugin, bench) async throws in
      await #expect(throws: PerdureError.self) {
        try await plugin.tellSettings(["pages": "many"])
      }
      try await plugin.tellSettings(["pages": 4])
      _ = await plugin.health("h")
      // The second settings are in force.
      #expect(try bench.input("health")["ctx"]?["settings"] == 2)
    }
  }
}
