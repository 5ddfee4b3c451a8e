import Foundation
import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Testing

/// Task types of plugins.
@Suite(.timeLimit(.minutes(5))) struct TaskKindTests {
  private static let done: JSON = [
    "state": ["status": "terminal", "outcome": ["status": "completed", "result": ["pages": 2]]]
  ]

  private static func running(_ phase: String) -> JSON {
    ["status": "running", "checkpoint": ["phase": .string(JSONString(phase)), "x": 1]]
  }

  @Test(arguments: [false, true])
  func `a phase ends with one last commit`(onDisk: Bool) async throws {
    var form = Desk.Form()
    if onDisk { form.location = .sqlite(at: try Fixtures.folder() + "/store.sqlite") }
    try await Desk.with(form) { desk in
      let record = try await desk.job([
        "first": ["complete": ["state": Self.running("second")]],
        "second": ["ops": [Desk.op("task.get", ["task": 1])], "complete": Self.done],
      ])
      #expect(record.state == .terminal(.completed(result: ["pages": 2])))
      #expect(desk.told("second").first?.first?["status"] == 0)
    }
  }

  @Test func `a phase waits for tasks that it creates`() async throws {
    try await Desk.with { desk in
      let child: JSON = [
        "do": "task.create", "as": "a", "type": "desk.job", "owner": "self",
        "input": ["script": ["first": ["complete": Self.done]]],
      ]
      let record = try await desk.job([
        "first": [
          "complete": [
            "steps": [child],
            "state": [
              "status": "waiting", "on": ["a"], "policy": "failFast",
              "checkpoint": ["phase": "second", "jobs": [.null]],
              "fill": ["/checkpoint/jobs/0": "a"],
            ],
          ]
        ],
        "second": [
          "ops": [Desk.op("tasks.scan", ["owner": "self"])], "complete": Self.done,
        ],
      ])
      #expect(record.state.outcome?.isCompleted == true)
      let scan = desk.told("second").first?.first?["answer"]
      #expect(scan?["items"]?.array?.count == 1, "\(desk.reports.messages("plugin_log"))")
    }
  }

  @Test func `a run is over after a state that ends it`() async throws {
    try await Desk.with { desk in
      let record = try await desk.job([
        "first": [
          "ops": [
            Desk.op("commit", ["steps": [], "state": Self.done["state"] ?? .null]),
            Desk.op("memo", ["name": "m"]), Desk.commit(), Desk.op("clock"),
          ]
        ]
      ])
      #expect(record.state.outcome?.isCompleted == true)
      let answers = try #require(desk.told("first").first)
      #expect(answers[1]["answer"]?["reason"] == "ended", "\(answers)")
      #expect(answers[2]["answer"]?["reason"] == "ended")
      #expect(answers[3]["status"] == 0)
    }
  }

  @Test func `a run goes on after the state running`() async throws {
    try await Desk.with { desk in
      _ = try await desk.job([
        "first": [
          "ops": [
            Desk.op("commit", ["steps": [], "state": Self.running("second")]),
            Desk.op("memo", ["name": "m", "candidate": 3]),
          ]
        ],
        "second": ["complete": Self.done],
      ])
      #expect(desk.told("first").first?[1]["answer"]?["value"] == 3)
    }
  }

  /// Phases that fail, and what the outcome says.
  private static let failures: [(JSON, String)] = [
    (["fail": true], "failed on purpose"), (["complete": [:]], "no durable progress"),
    (["complete": ["state": ["status": "dancing"]]], "status"),
    (["complete": ["steps": [["do": "doc", "kind": "pi.live"]]]], "pi.live"),
    (
      ["complete": ["state": ["status": "running", "checkpoint": ["phase": "nowhere"]]]], "nowhere"
    ),
  ]

  @Test(arguments: failures)
  func `a phase that fails faults its task`(script: JSON, message: String) async throws {
    try await Desk.with { desk in
      let record = try await desk.job(["first": script])
      guard case .terminal(.faulted(let text, _)) = record.state else {
        Issue.record("the task did not fault: \(record.state)")
        return
      }
      #expect(text.contains(message), "\(text)")
    }
  }

  @Test func `the abort handler leaves the outcome`() async throws {
    try await Desk.with { desk in
      let record = try await desk.job(
        [
          "first": [
            "complete": [
              "state": [
                "status": "sleeping", "until": 9_000_000_000_000,
                "checkpoint": ["phase": "second"],
              ]
            ]
          ],
          "abort": [
            "ops": [Desk.op("commit", ["steps": [], "state": Self.running("second")])],
            "complete": [
              "state": [
                "status": "terminal", "outcome": ["status": "aborted", "reason": "cleaned up"],
              ]
            ],
          ],
        ],
        waits: false
      )
      _ = try await desk.harness.abortTask(record.id)
      let ended = try await desk.harness.waitForTask(record.id)
      #expect(ended.state == .terminal(.aborted(reason: "cleaned up")))
      #expect(desk.told("abort").first?.first?["status"] == -7)
    }
  }

  @Test func `the first checkpoint can be asked for`() async throws {
    try await Desk.with { desk in
      let record = try await desk.job(["second": ["complete": Self.done]], type: "desk.asked")
      #expect(record.state.outcome?.isCompleted == true)
    }
  }

  @Test func `an older task is migrated before it goes on`() async throws {
    var form = Desk.Form()
    form.location = .sqlite(at: try Fixtures.folder() + "/store.sqlite")
    let script: JSON = [
      "first": [
        "complete": [
          "state": ["status": "sleeping", "until": 1, "checkpoint": ["phase": "second"]]
        ]
      ],
      "second": [
        "complete": [
          "state": [
            "status": "sleeping", "until": 9_000_000_000_000, "checkpoint": ["phase": "first"],
          ]
        ]
      ],
      "third": ["complete": Self.done],
    ]
    let sleeper: JSON = [
      "first": [
        "complete": [
          "state": [
            "status": "waiting", "on": [], "policy": "allSettled",
            "checkpoint": ["phase": "second"],
          ]
        ]
      ],
      "second": [
        "complete": [
          "state": [
            "status": "sleeping", "until": 9_000_000_000_000, "checkpoint": ["phase": "third"],
          ]
        ]
      ], "third": ["complete": Self.done], "abort": ["complete": Self.done],
    ]
    _ = script
    let id = try await Desk.with(form) { desk in
      let record = try await desk.job(sleeper, waits: false)
      await desk.harness.waitUntilQuietForTests(record.id)
      return record.id
    }
    form.version = 2
    form.migrates = [1]
    try await Desk.with(form) { desk in
      // The mark wakes it, and its code is that of the new version.
      _ = try await desk.harness.abortTask(id)
      let record = try await desk.harness.waitForTask(id)
      #expect(record.version == 2)
      #expect(record.state.outcome?.isCompleted == true)
    }
  }

  @Test func `a task whose version nothing leads to is blocked`() async throws {
    var form = Desk.Form()
    form.location = .sqlite(at: try Fixtures.folder() + "/store.sqlite")
    let id = try await Desk.with(form) { desk in
      let record = try await desk.job(
        [
          "first": [
            "complete": [
              "state": [
                "status": "sleeping", "until": 9_000_000_000_000,
                "checkpoint": ["phase": "second"],
              ]
            ]
          ]
        ],
        waits: false
      )
      await desk.harness.waitUntilQuietForTests(record.id)
      return record.id
    }
    form.version = 3
    form.migrates = [2]
    try await Desk.with(form) { desk in
      let live = try await desk.harness.inspect().tasks
      let task = try #require(live.first { $0.record.id == id })
      if case .sleeping = task.condition { return }
      Issue.record("\(task.condition)")
    }
  }
}

extension Harness {
  /// Waits until a task sleeps.
  func waitUntilQuietForTests(_ id: TaskID) async {
    while let record = try? await task(id), record.state.status != .sleeping, record.isLive {
      await Task.yield()
    }
  }
}
