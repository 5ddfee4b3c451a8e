import Foundation
import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Testing

/// What becomes of work of a plugin whose process is killed in the middle of it.
@Suite(.timeLimit(.minutes(5))) struct KilledRunnerTests {
  private static let done: JSON = [
    "state": ["status": "terminal", "outcome": ["status": "completed"]]
  ]

  private func with(_ body: (Desk) async throws -> Void) async throws {
    try await Place.$current.withValue(.runner) { try await Desk.with { try await body($0) } }
  }

  private func kill(_ desk: Desk) throws {
    #expect(Foundation.kill(try #require(desk.plugin.processID), SIGKILL) == 0)
  }

  @Test func `a task goes on from its last commit, and no earlier phase runs twice`() async throws {
    try await with { desk in
      let gate = try Gate()
      let effects = try Fixtures.folder() + "/effects"
      let append: JSON = [
        "op": "append", "input": ["path": .string(JSONString(effects)), "text": "x"],
      ]
      let next: JSON = ["state": ["status": "running", "checkpoint": ["phase": "second"]]]
      let record = try await desk.job(
        [
          "first": ["ops": [append], "complete": next],
          "second": ["ops": [gate.step], "complete": Self.done],
        ],
        waits: false
      )
      try await gate.reached()
      try kill(desk)
      // The same phase runs again in another process.
      try await gate.reached()
      #expect(try await desk.harness.task(record.id)?.restarts == 1)
      try await gate.open()
      #expect(try await desk.harness.waitForTask(record.id).state.outcome?.isCompleted == true)
      #expect(try Data(contentsOf: URL(filePath: effects)).count == 1)
    }
  }

  @Test func `a migration whose process dies is asked for again`() async throws {
    let folder = try Fixtures.folder()
    var form = Desk.Form()
    form.location = .sqlite(at: folder + "/store.sqlite")
    let sleeping: JSON = [
      "status": "sleeping", "until": 9_000_000_000_000, "checkpoint": ["phase": "third"],
    ]
    let script: JSON = [
      "crash": .string(JSONString(folder + "/crashed")),
      "first": ["complete": ["state": sleeping]], "abort": ["complete": Self.done],
    ]
    try await Place.$current.withValue(.runner) {
      let id = try await Desk.with(form) { desk in
        let record = try await desk.job(script, waits: false)
        await desk.harness.waitUntilQuietForTests(record.id)
        return record.id
      }
      form.version = 2
      form.migrates = [1]
      try await Desk.with(form) { [form] desk in
        // The mark wakes it, and its code is that of the new version.
        _ = try await desk.harness.abortTask(id)
        let record = try await desk.harness.waitForTask(id)
        #expect(record.version == Int64(form.version))
        #expect(record.state.outcome?.isCompleted == true)
        #expect(desk.reports.messages("plugin_died").count == 1)
        #expect(desk.reports.messages("migration_failed") == [])
      }
    }
    #expect(FileManager.default.fileExists(atPath: folder + "/crashed"))
  }

  @Test(arguments: [("run", 1), ("safe", 2)])
  func `a call of an unsafe tool is not made again, one of a safe tool is`(
    tool: String,
    effects: Int
  ) async throws {
    try await with { desk in
      let gate = try Gate()
      let path = try Fixtures.folder() + "/effects"
      let append: JSON = [
        "op": "append", "input": ["path": .string(JSONString(path)), "text": "x"],
      ]
      let result = Task { try await desk.result(tool, ["ops": [append, gate.step]]) }
      try await gate.reached()
      try kill(desk)
      if effects > 1 {
        try await gate.reached()
        try await gate.open()
      }
      let text = Desk.text(try await result.value)
      #expect(text.contains("interrupted") == (effects == 1), "\(text)")
      #expect(try Data(contentsOf: URL(filePath: path)).count == effects)
    }
  }
}
