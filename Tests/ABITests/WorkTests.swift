import Foundation
import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Testing

/// What plugins have done for them while a call runs.
@Suite(.bothPlaces, .timeLimit(.minutes(5))) struct WorkTests {
  private static func sleeping(_ phase: JSON) -> JSON {
    [
      "state": [
        "status": "sleeping", "until": 9_000_000_000_000, "checkpoint": ["phase": phase],
      ]
    ]
  }

  private static let done: JSON = [
    "state": ["status": "terminal", "outcome": ["status": "completed", "result": ["n": 1]]]
  ]

  // MARK: A conversation of its own (trace T1 of the message layer)

  @Test func `a tool streams and runs a conversation of its own`() async throws {
    var form = Desk.Form()
    // A transaction that nobody uses for two seconds is over, and gates may take longer.
    form.clock = ManualClock()
    try await Desk.with(form) { desk in
      let gates = try (0..<5).map { _ in try Gate() }
      let arguments: JSON = [
        "ops": .array(
          [["op": "emit", "input": ["text": "fetching…"]], Desk.op("tx.begin")]
            + gates.map(\.step)
        ),
        "complete": [
          "structuredOutput": ["found": true], "output": [["type": "text", "text": "ok"]],
        ],
      ]
      let result = Task { try await desk.result("run", arguments) }
      let begun = try await gates[0].reached()
      let tool = try #require(begun.last?["answer"]?["task"]?["id"], "\(begun)")
      try await gates[0].open(Desk.op("conversations.scan", ["tx": "t1", "ownerTask": tool]))
      let scanned = try await gates[1].reached()
      #expect(scanned.last?["answer"]?["items"] == [], "\(scanned)")
      try await gates[1].open(
        Desk.commit(
          [
            "do": "conversation.create", "as": "c", "owner": "self",
            "agent": ["model": ScriptedModel.reference.json],
          ],
          tx: "t1"
        )
      )
      let created = try await gates[2].reached()
      let child = try #require(created.last?["answer"]?["ids"]?["c"], "\(created)")
      try await gates[2].open(
        Desk.op(
          "conversation.submit",
          ["conversation": child, "content": "hello", "requestId": "crawl"]
        )
      )
      let submitted = try await gates[3].reached()
      let submission = try #require(submitted.last?["answer"]?["submission"], "\(submitted)")
      try await gates[3].open(Desk.op("submission.wait", ["submission": submission]))
      let answered = try await gates[4].reached()
      #expect(answered.last?["answer"]?["status"] == "done", "\(answered)")
      let answer = try #require(answered.last?["answer"]?["answer"], "\(answered)")
      try await gates[4].open(Desk.op("entry.get", ["entry": answer, "conversation": child]))
      let entry = try await result.value
      #expect(entry.model?.first?["isError"] != true, "\(entry)")
      let id = try #require(ConversationID(child))
      let view = try await #require(try await desk.harness.conversation(id)).view()
      #expect(view.entries.last?.kind == "pi.assistant")
      #expect(view.entries.last?.id == EntryID(answer))
    }
  }

  // MARK: Tasks

  @Test func `a call waits for a task that it owns and takes another one along`() async throws {
    try await Desk.with { desk in
      let gates = try (0..<3).map { _ in try Gate() }
      let run = Task {
        try await desk.run(
          [
            Desk.commit(
              [
                "do": "task.create", "as": "a", "type": "desk.job", "owner": "self",
                "input": ["script": ["first": ["complete": Self.done]]],
              ],
              [
                "do": "task.create", "as": "b", "type": "desk.job", "owner": "self",
                "input": [
                  "script": [
                    "first": ["complete": Self.sleeping("second")],
                    "abort": [
                      "complete": [
                        "state": ["status": "terminal", "outcome": ["status": "aborted"]]
                      ]
                    ],
                  ]
                ],
              ]
            )
          ] + gates.map(\.step)
        )
      }
      let ids = try #require(try await gates[0].reached().first?["answer"]?["ids"])
      try await gates[0].open(Desk.op("task.wait", ["task": ids["a"] ?? .null]))
      let waited = try await gates[1].reached()
      #expect(waited.last?["answer"]?["state"]?["outcome"]?["result"] == ["n": 1], "\(waited)")
      try await gates[1].open(Desk.op("task.abort", ["task": ids["b"] ?? .null]))
      let aborted = try await gates[2].reached()
      #expect(aborted.last?["status"] == 0, "\(aborted)")
      try await gates[2].open(
        Desk.op("task.outcomes", ["tasks": [ids["a"] ?? .null, ids["b"] ?? .null]])
      )
      let outcomes = try #require(try await run.value.last?["answer"]?["outcomes"]?.array)
      #expect(outcomes.map { $0["status"] } == ["completed", "aborted"], "\(outcomes)")
    }
  }

  @Test func `a task of somebody else cannot be aborted`() async throws {
    try await Desk.with { desk in
      let other = try await desk.job(
        ["first": ["complete": Self.sleeping("second")]],
        waits: false
      )
      let answers = try await desk.run([Desk.op("task.abort", ["task": other.id.json])])
      #expect(answers[0]["answer"]?["reason"] == "owner", "\(answers)")
      #expect(try await desk.harness.task(other.id)?.isLive == true)
    }
  }

  // MARK: Hooks of its own

  private static func hook(
    _ role: Hook.Role,
    _ answer: @escaping @Sendable (JSON) async throws -> HookAnswer
  ) -> Hook {
    Hook.task("desk.job", "point", role: role) { arguments, _ in try await answer(arguments) }
  }

  @Test func `a task asks the hooks at its point, all or one after another`() async throws {
    var form = Desk.Form()
    form.others = [
      Extension(name: "one", hooks: [Self.hook(.observer) { .value(["one": $0]) }]),
      Extension(name: "two", hooks: [Self.hook(.guard) { _ in .deny("not today") }]),
      Extension(name: "three", hooks: [Self.hook(.guard) { _ in .proceed }]),
    ]
    try await Desk.with(form) { desk in
      let each: (JSONObject) -> JSON = { more in
        var input: JSONObject = ["name": "point", "arguments": 7]
        for (key, value) in more { input[key] = value }
        return Desk.op("hooks.each", .object(input))
      }
      _ = try await desk.job([
        "first": [
          "ops": [
            each([:]), each(["limit": 1]), each(["from": 1, "limit": 1]), each(["from": 3]),
            each(["name": "elsewhere"]),
          ],
          "complete": Self.done,
        ]
      ])
      let answers = try #require(desk.told("first").first)
      let all = answers[0]["answer"]?["results"]?.array ?? []
      #expect(all.map { $0["extension"] } == ["one", "two", "three"], "\(answers)")
      #expect(all.first?["value"] == ["one": 7])
      #expect(all.dropFirst().first?["denied"] == "not today")
      #expect(answers[1]["answer"]?["more"] == true)
      #expect(answers[2]["answer"]?["results"]?.array?.first?["index"] == 1)
      #expect(answers[3]["answer"] == ["results": [], "more": false])
      #expect(answers[4]["answer"]?["reason"] == "not_found")
    }
  }

  // MARK: Answers that were put off

  @Test func `an answer that was put off is fetched or taken back`() async throws {
    var form = Desk.Form()
    form.fetch = { handle in
      handle["ready"] == true
        ? ScriptedModel.text("here it is") : [[.deferred(handle: handle)]]
    }
    try await Desk.with(form) { desk in
      let model = ScriptedModel.reference.json
      let answers = try await desk.run([
        Desk.op("model.deferred", ["model": model, "handle": ["ready": false]]),
        Desk.op("model.deferred", ["model": model, "handle": ["ready": true]]),
        Desk.op("model.deferred", ["model": model, "handle": ["ready": false], "cancel": true]),
        Desk.op(
          "model.deferred",
          ["model": ["provider": "nobody", "modelId": "x"], "handle": [:]]
        ),
      ])
      #expect(answers[0]["answer"] == [:], "\(answers)")
      let content = answers[1]["answer"]?["message"]?["content"]?.array
      #expect(content?.first?["text"] == "here it is", "\(answers)")
      #expect(answers[2]["status"] == 0)
      #expect(desk.model.cancelled == [["ready": false]])
      #expect(answers[3]["status"] != 0)
    }
  }
}
