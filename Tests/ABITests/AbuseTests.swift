import Foundation
import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Testing

/// Plugins that ask for too much, too late, or for what is not theirs.
@Suite(.bothPlaces, .timeLimit(.minutes(5))) struct AbuseTests {
  private static func note(_ kind: JSON = "desk.note") -> JSON {
    ["do": "entry.append", "conversation": 1, "entry": ["kind": kind, "data": 1]]
  }

  private static let done: JSON = [
    "state": ["status": "terminal", "outcome": ["status": "completed"]]
  ]

  /// Whether a task of this record has written its note.
  private func hasNote(_ desk: Desk) async throws -> Bool {
    try await desk.root.view().entries.contains { $0.kind == "desk.note" }
  }

  // MARK: Transactions (abuse 5, CM-6)

  /// A transaction that is open while a gate is shut.
  private static func held(_ gate: Gate) -> [JSON] {
    [
      Desk.op("tx.begin"), gate.step,
      Desk.commit(["do": "doc", "kind": "desk.notes", "key": "k"], tx: "t1"),
    ]
  }

  @Test func `a transaction that nobody uses dies, and nobody but its plugin waits for it`()
    async throws
  {
    let clock = ManualClock()
    var form = Desk.Form()
    form.clock = clock
    form.others = [
      Extension(
        name: "app",
        tools: [Tool(name: "quick", description: "q", parameters: [:]) { _ in .text("quick") }]
      )
    ]
    try await Desk.with(form) { desk in
      let (first, second) = (try Gate(), try Gate())
      let sleeps = Task { try await desk.run(Self.held(first), in: desk.conversation()) }
      try await first.reached()
      let waits = Task { try await desk.run(Self.held(second), in: desk.conversation()) }
      // Neither the line nor another plugin has noticed.
      let quick = try await desk.result("quick", [:], in: desk.conversation())
      #expect(Desk.text(quick) == "quick")
      await clock.waitForSleeper(ofExactly: .seconds(2))
      clock.advance(by: .seconds(2))
      try await second.reached()
      try await second.open()
      try await first.open()
      let late = try await sleeps.value
      #expect(late[1]["status"] == -2, "\(late)")
      #expect(late[1]["answer"]?["reason"] == "tx_expired")
      #expect(try await waits.value[1]["status"] == 0)
      #expect(desk.reports.strikes.contains { $0.contains("a transaction open for too long") })
    }
  }

  // MARK: Commits (CM-7, CM-9)

  @Test func `a commit of a task that is to be aborted is stale (CM-7)`() async throws {
    try await Desk.with { desk in
      let gate = try Gate()
      let record = try await desk.job(
        [
          "first": ["ops": [gate.step, ["op": "until_cancelled"], Desk.commit(Self.note())]],
          "abort": ["complete": Self.done],
        ],
        waits: false
      )
      try await gate.reached()
      // It returns when the task has ended.
      let abort = Task { try await desk.harness.abortTask(record.id) }
      try await gate.open()
      _ = try await abort.value
      let answer = try #require(desk.told("first").first?.first)
      #expect(answer["status"] == -3, "\(answer)")
      #expect(answer["answer"]?["reason"] == "aborting")
      #expect(try await hasNote(desk) == false)
    }
  }

  @Test func `a commit while the host closes is stale (CM-7)`() async throws {
    let desk = try await Desk.open()
    let gate = try Gate()
    _ = try await desk.job(
      ["first": ["ops": [gate.step, ["op": "until_cancelled"], Desk.commit(Self.note())]]],
      waits: false
    )
    try await gate.reached()
    let closing = Task { try await desk.harness.close() }
    try await gate.open()
    try await closing.value
    await desk.plugin.close()
    let answer = try #require(desk.told("first").first?.first)
    #expect(answer["status"] == -3, "\(answer)")
    #expect(answer["answer"]?["reason"] == "closing")
  }

  @Test func `a commit that is taken back before the line writes nothing (CM-9)`() async throws {
    try await Desk.with { desk in
      let (start, gate) = (try Gate(), try Gate())
      var taken = gate.input
      taken["op"] = "commit"
      taken["input"] = ["steps": [Self.note()]]
      let step: JSON = ["op": "cancelled", "input": .object(taken)]
      let run = Task { try await desk.run([start.step, step]) }
      try await start.reached()
      // Somebody else has the line meanwhile.
      let (entered, isEntered) = AsyncStream.makeStream(of: Void.self)
      let (leave, mayLeave) = AsyncStream.makeStream(of: Void.self)
      let holder = Task {
        try await desk.harness.commit { _ in
          isEntered.yield()
          for await _ in leave { break }
        }
      }
      for await _ in entered { break }
      try await start.open()
      try await gate.reached()
      try await gate.open()
      try await gate.reached()
      mayLeave.yield()
      try await holder.value
      try await gate.open()
      let answer = try #require(try await run.value.last)
      #expect(answer["status"] == -1, "\(answer)")
      #expect(try await hasNote(desk) == false)
    }
  }

  @Test func `a commit that has the line is made although it is taken back (CM-9)`() async throws {
    try await Desk.with { desk in
      let gate = try Gate()
      var taken = gate.input
      taken["op"] = "commit"
      taken["input"] = ["steps": [Self.note()]]
      let run = Task {
        try await desk.run([["op": "cancelled", "input": .object(taken)]])
      }
      try await gate.reached()
      while try await !hasNote(desk) { await Task.yield() }
      try await gate.open()
      try await gate.reached()
      try await gate.open()
      #expect(try await run.value.last?["status"] == 0)
    }
  }

  // MARK: Floods (abuse 8)

  @Test func `a flood of operations is busy for its plugin alone`() async throws {
    let clock = ManualClock()
    var form = Desk.Form()
    form.clock = clock
    form.others = [
      Extension(
        name: "app",
        tools: [Tool(name: "quick", description: "q", parameters: [:]) { _ in .text("quick") }]
      )
    ]
    try await Desk.with(form) { desk in
      let gate = try Gate()
      let flood: JSON = [
        "op": "flood",
        "input": ["op": "timer.wait", "input": ["ms": 1_000_000], "count": 10_000],
      ]
      let run = Task { try await desk.run([flood, gate.step], in: desk.conversation()) }
      try await gate.reached()
      let quick = try await desk.result("quick", [:], in: desk.conversation())
      #expect(Desk.text(quick) == "quick")
      try await gate.open()
      let answer = try #require(try await run.value.first?["answer"])
      #expect(answer["accepted"] == 1_024, "\(answer)")
      #expect(answer["busy"] == 8_976)
      // Its call is over, and with it what it asked for.
      #expect(try await desk.run([Desk.op("clock")])[0]["status"] == 0)
    }
  }

  @Test func `a flood of log lines and metrics is cut to a thousand a second`() async throws {
    var form = Desk.Form()
    form.clock = ManualClock()
    try await Desk.with(form) { desk in
      let line: JSON = ["level": "info", "message": "flood"]
      for _ in 0..<12 {
        let ops = Array(repeating: Desk.op("log", line), count: 100)
        let answers = try await desk.run(ops)
        #expect(answers.allSatisfy { $0["status"] == 0 })
      }
      // The hook and the section of the plugin log, too.
      let lines = desk.reports.messages("plugin_log")
      #expect(lines.count == 1_000)
    }
  }

  @Test func `what a flood of tasks was granted is there`() async throws {
    try await Desk.with { desk in
      let step: JSON = [
        "do": "task.create", "type": "desk.job", "owner": "conversation", "background": true,
        "input": ["script": ["first": ["complete": Self.done]]],
      ]
      let query = TaskQuery(kind: "desk.job")
      for (count, granted) in [(257, 0), (256, 256)] {
        let steps = JSON.array(Array(repeating: step, count: count))
        let ops: JSON = [Desk.op("commit", ["steps": steps])]
        // What it answers would be longer than a result may be.
        _ = try await desk.result("run", ["ops": ops, "complete": [:]])
        let tasks = try await desk.harness.reader.reads.scanTasks(query, PageRequest(limit: 256))
        #expect(tasks.items.count == granted)
        #expect(tasks.next == nil)
      }
    }
  }

  // MARK: Circles (abuse 9)

  @Test func `a tool that calls itself is refused at the sixteenth level`() async throws {
    try await Desk.with { desk in
      var arguments: JSON = ["tell": true, "ops": [Desk.op("clock")]]
      for _ in 0..<18 {
        arguments = [
          "tell": true,
          "ops": [Desk.op("tool.call", ["name": "inner", "arguments": arguments])],
        ]
      }
      _ = try await desk.result("run", arguments)
      let levels = desk.told("tool")
      #expect(levels.count == 16)
      #expect(levels.first?.first?["answer"]?["reason"] == "nesting", "\(levels)")
    }
  }

  @Test func `of two tasks that wait for each other one is told the circle`() async throws {
    try await Desk.with { desk in
      let gate = try Gate()
      let first = try await desk.job(
        ["first": ["ops": [gate.step], "complete": Self.done]],
        waits: false
      )
      try await gate.reached()
      let wait = Desk.op("task.wait", ["task": first.id.json])
      let second = try await desk.job(
        ["first": ["ops": [wait], "complete": Self.done]],
        waits: false
      )
      try await gate.open(Desk.op("task.wait", ["task": second.id.json]))
      _ = try await desk.harness.waitForTask(first.id)
      _ = try await desk.harness.waitForTask(second.id)
      let answers = desk.told("first").compactMap(\.first)
      let refused = answers.filter { $0["answer"]?["reason"] == "wait_cycle" }
      #expect(answers.count == 2)
      #expect(refused.count == 1, "\(answers)")
    }
  }

  @Test func `a task that waits for itself or for what it is part of is told so`() async throws {
    try await Desk.with { desk in
      let gate = try Gate()
      let record = try await desk.job(
        [
          "first": [
            "ops": [gate.step, Desk.op("conversation.wait", ["conversation": 1])],
            "complete": Self.done,
          ]
        ],
        waits: false
      )
      try await gate.reached()
      try await gate.open(Desk.op("task.wait", ["task": record.id.json]))
      _ = try await desk.harness.waitForTask(record.id)
      let answers = try #require(desk.told("first").first)
      #expect(
        answers.map { $0["answer"]?["reason"] } == ["wait_cycle", "wait_cycle"],
        "\(answers)"
      )
    }
  }

  // MARK: What is not theirs (abuse 11)

  @Test func `handles of a call that is over mean nothing to the next one`() async throws {
    try await Desk.with { desk in
      _ = try await desk.run([
        Desk.op("tx.begin"), Desk.op("tx.abort", ["tx": "t1"]),
        Desk.op("document.watch", ["kind": "desk.notes"]),
      ])
      let answers = try await desk.run([
        Desk.op("stream.next", ["stream": "s1"]), Desk.commit(tx: "t1"),
        Desk.op("document.get", ["tx": "t1", "kind": "desk.notes"]),
        Desk.op("content.read", ["source": "m0"]),
      ])
      for answer in answers {
        #expect(answer["status"] == -3, "\(answer)")
        #expect(answer["answer"]?["reason"] == "unknown_handle", "\(answer)")
      }
    }
  }

  @Test func `the id of a call of another plugin is stale`() async throws {
    try await Desk.with { other in
      let gate = try Gate()
      let held = Task { try await other.run([["op": "call"], gate.step]) }
      let id = try #require(try await gate.reached().first?["answer"])
      try await Desk.with { desk in
        let answers = try await desk.run([
          ["op": "within", "input": ["call": id, "op": "log", "input": ["level": "info"]]],
          ["op": "within", "input": ["call": "0", "op": "clock"]],
          ["op": "within", "input": ["call": "12345678901234567890", "op": "log"]],
        ])
        #expect(answers[0]["status"] == -3, "\(answers)")
        #expect(answers[1]["status"] == -7)
        #expect(answers[2]["status"] == -3)
      }
      try await gate.open()
      _ = try await held.value
      #expect(other.reports.messages("plugin_log").allSatisfy { !$0.contains("level") })
    }
  }
}
