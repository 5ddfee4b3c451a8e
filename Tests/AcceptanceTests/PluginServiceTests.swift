import Glibc
import PerdureValue
import Testing

/// What a run gives to plugins and takes from them, and what it does after one has done harm.
@Suite struct PluginServiceTests {
  private let folder = Folder()
  private var store: String { folder.file("s.sqlite") }

  private func perdure(
    _ words: [String],
    environment: [String: String] = [:]
  ) -> Program.Finished {
    Program.run(words, in: folder, environment: environment)
  }

  private func desk(_ permissions: String = "{}") -> String {
    let quoted = permissions.split(separator: "\"", omittingEmptySubsequences: false)
      .joined(separator: "\\\"")
    return Fixtures.compile(
      "Tests/Fixtures/Plugins/desk.c",
      as: "desk.so",
      in: folder,
      ["-pthread", "-DPERMISSIONS=\"\(quoted)\""]
    )
  }

  private func late() -> String {
    Fixtures.compile("Tests/Fixtures/Acceptance/late.c", as: "late.so", in: folder)
  }

  /// A script whose turns each call a tool, and then say what the last one answered.
  private func script(_ calls: [(tool: String, arguments: JSON)]) -> String {
    var turns = calls.enumerated().map { number, call -> JSON in
      [
        "steps": [
          [
            "toolCall": [
              "id": .string("c\(number)"), "name": .string(JSONString(call.tool)),
              "arguments": call.arguments,
            ]
          ]
        ]
      ]
    }
    let last = JSONString("c\(calls.count - 1)")
    turns.append(["steps": [["text": "It says: "], ["toolResult": .string(last)]]])
    let text = JSON.object(["turns": .array(turns)]).compactText
    return folder.write(text, to: "script.json")
  }

  private func run(
    _ plugin: String,
    _ calls: [(tool: String, arguments: JSON)],
    _ more: [String] = [],
    environment: [String: String] = [:]
  ) -> Program.Finished {
    perdure(
      ["run", "--store", store, "--plugin", plugin, "--faux", script(calls), "Go."] + more,
      environment: environment
    )
  }

  private static func op(_ name: JSON, _ input: JSON) -> JSON {
    ["ops": [["op": name, "input": input]]]
  }

  // MARK: Secrets and metrics

  @Test(arguments: ["in-process", "runner"])
  func `a secret is what its variable holds, and is masked in the log`(isolation: String) {
    let result = run(
      desk(#"{"secrets":["TOKEN"]}"#),
      [
        ("run", Self.op("secret.get", ["name": "TOKEN"])),
        ("run", Self.op("log", ["level": "error", "message": "it is open sesame"])),
      ],
      ["--secret", "test.desk:TOKEN=MY_TOKEN", "--isolation", isolation, "--json"],
      environment: ["MY_TOKEN": "open sesame"]
    )
    #expect(result.status == 0, "\(result.error)")
    #expect(result.output.contains(#"\"bytes\":11"#))
    #expect(result.output.contains("it is ***"))
  }

  @Test(
    arguments: [
      ("TOKEN", 2, "write PLUGIN:NAME=VARIABLE"), ("test.desk:TOKEN=NOT_SET", 3, "is not set"),
    ]
  )
  func `a binding that makes no sense is named`(text: String, status: Int32, says: String) {
    let result = run(desk(), [("run", ["ops": []])], ["--secret", text])
    #expect(result.status == status)
    #expect(result.error.contains(says), "\(result.error)")
  }

  @Test func `with --json what a plugin measures is an event`() {
    let metric: JSON = ["name": "pages", "add": 2, "labels": ["site": "a"]]
    let result = run(desk(), [("run", Self.op("metric", metric))], ["--json"])
    let events = result.events.filter { $0["type"] == "metric" }
    #expect(events.count == 1)
    #expect(events.first?["plugin"] == "test.desk")
    #expect(events.first?["add"]?.double == 2)
    #expect(events.first?["labels"] == ["site": "a"])
  }

  // MARK: Registrations and errors

  @Test(arguments: ["in-process", "runner"])
  func `a tool that is registered during a run is offered in it`(isolation: String) {
    let calls: [(String, JSON)] = [("grow", [:]), ("extra_tool", [:])]
    let result = run(late(), calls, ["--isolation", isolation])
    #expect(result.output == "It says: extra\n", "\(result.error)")
  }

  @Test func `an error that is not for the model is told to whoever runs it`() {
    let result = run(late(), [("fail", [:])])
    #expect(!result.output.contains("the disk is full"))
    #expect(result.error.contains("failed (internal): the disk is full"))
  }

  // MARK: Harm

  @Test func `an installed plugin that crashed a run is not run until it is enabled`() {
    let rude = Fixtures.compile(
      "Tests/Fixtures/Acceptance/rude.c",
      as: "rude.so",
      in: folder,
      ["-DRUDE=abort()"]
    )
    let install = ["plugin", "install", rude, "--allow-unsigned", "--isolation", "in-process"]
    #expect(perdure(install).status == 0)
    let crashed = perdure(["run", "--store", store, "--faux", script([("act", [:])]), "Go."])
    #expect(crashed.status == 128 + SIGABRT)
    for _ in 0..<2 {
      let next = perdure(
        ["run", "--store", folder.file("t.sqlite"), "--faux", script([("act", [:])]), "Go."]
      )
      #expect(next.status == 0)
      #expect(next.error.contains("is quarantined: it crashed an earlier process in tool:act"))
      #expect(next.output.contains("quarantined"))
    }
    #expect(perdure(["plugin", "list"]).output.contains("quarantined"))
    #expect(perdure(["plugin", "enable", "test.rude", "--isolation", "runner"]).status == 0)
    #expect(!perdure(["plugin", "list"]).output.contains("quarantined"))
    let isolated = perdure(
      ["run", "--store", folder.file("t.sqlite"), "--faux", script([("act", [:])]), "Go."]
    )
    #expect(isolated.status == 0)
    #expect(isolated.output.contains("interrupted"))
  }

  // MARK: Removal

  @Test(arguments: [[], ["--drain"]])
  func `without a host a plugin that tasks of the store need is not removed`(how: [String]) {
    let sleep: JSON = [
      "state": [
        "status": "sleeping", "until": 9_000_000_000_000, "checkpoint": ["phase": "second"],
      ]
    ]
    let step: JSON = [
      "do": "task.create", "type": "desk.job", "owner": "conversation", "background": true,
      "input": ["script": ["first": ["complete": sleep]]],
    ]
    #expect(perdure(["plugin", "install", desk(), "--allow-unsigned"]).status == 0)
    let faux = script([("run", Self.op("commit", ["steps": [step]]))])
    #expect(perdure(["run", "--store", store, "--faux", faux, "Go."]).status == 0)
    let uninstall = ["plugin", "uninstall", "test.desk", "--store", store]
    let refused = perdure(uninstall + how)
    #expect(refused.status != 0)
    #expect(refused.error.contains("test.desk is needed by tasks of the store \(store): "))
    #expect(refused.error.contains("(desk.job)"), "\(refused.error)")
    #expect(perdure(uninstall + ["--force"]).status == 0)
    #expect(perdure(["task", "list", "--store", store]).output.contains("desk.job"))
  }

  // MARK: Kills

  @Test(arguments: ["in-process", "runner"])
  func `a task of a plugin goes on after its host was killed, and repeats no effect`(
    isolation: String
  ) throws {
    let (served, journal) = (Journal(in: folder, named: "served"), Journal(in: folder))
    func own(_ op: JSON, _ file: String, _ text: JSON = "") -> JSON {
      ["op": op, "input": ["path": .string(JSONString(file)), "text": text]]
    }
    let job: JSON = [
      "first": [
        "ops": [own("append", folder.file("effects"), "x")],
        "complete": ["state": ["status": "running", "checkpoint": ["phase": "second"]]],
      ],
      "second": [
        "ops": [own("append", journal.path, "started\n"), own("until_file", folder.file("gate"))],
        "complete": ["state": ["status": "terminal", "outcome": ["status": "completed"]]],
      ],
    ]
    let step: JSON = [
      "do": "task.create", "type": "desk.job", "owner": "conversation", "background": true,
      "input": ["script": job],
    ]
    let faux = script([("run", Self.op("commit", ["steps": [step]]))])
    let host = Program.start(
      [
        "serve", "--store", store, "--plugin", desk(), "--faux", faux, "--isolation", isolation,
      ],
      in: folder,
      output: served
    )
    _ = try #require(served.line())
    let asked = perdure(["run", "--store", store, "Go."])
    #expect(asked.status == 0, "\(asked.error)")
    #expect(journal.line() == "started")
    host.signal(SIGKILL)
    _ = host.wait()
    #expect(folder.read("effects") == "x")
    folder.write("", to: "gate")
    let resumed = perdure(["resume", "--store", store])
    #expect(resumed.status == 0, "\(resumed.error)")
    #expect(journal.line() == "started")
    #expect(folder.read("effects") == "x")
    #expect(perdure(["task", "list", "--store", store]).output == "")
  }
}
