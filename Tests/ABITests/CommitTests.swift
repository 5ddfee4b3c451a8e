import Foundation
import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Testing

/// What plugins write, as the rules of commits (CM) and documents (DM) have it.
@Suite(.timeLimit(.minutes(5))) struct CommitTests {
  private static func notes(_ more: JSONObject, key: JSON = "site") -> JSON {
    var step: JSONObject = ["do": "doc", "kind": "desk.notes", "key": key]
    for (name, value) in more { step[name] = value }
    return .object(step)
  }

  private static let read = Desk.op("document.get", ["kind": "desk.notes", "key": "site"])

  @Test(arguments: [false, true])
  func `a commit runs its steps in order and gives their ids`(onDisk: Bool) async throws {
    var form = Desk.Form()
    if onDisk { form.location = .sqlite(at: try Fixtures.folder() + "/store.sqlite") }
    try await Desk.with(form) { desk in
      let answers = try await desk.run([
        Desk.commit(
          ["do": "conversation.create", "as": "c", "owner": "self"],
          [
            "do": "entry.append", "as": "e", "conversation": "c",
            "entry": ["kind": "desk.note", "data": ["n": 1]],
          ],
          Self.notes(["ops": [["p", ["pages"], 0, 0, ["one"]]]])
        ),
        Self.read,
      ])
      let ids = answers[0]["answer"]?["ids"]
      let child = try #require(ConversationID(ids?["c"]), "\(answers)")
      #expect(answers[0]["answer"]?["seq"]?.int != nil)
      #expect(EntryID(ids?["e"]) != nil)
      #expect(answers[1]["answer"]?["value"] == ["pages": ["one"]])
      #expect(try await desk.harness.conversation(child) != nil)
    }
  }

  @Test func `a failing step refuses the whole commit and is named`() async throws {
    try await Desk.with { desk in
      let answers = try await desk.run([
        Desk.commit(
          Self.notes(["value": ["pages": ["kept?"]]]),
          Self.notes(["ops": [["p", ["nowhere"], 0, 0, ["x"]]]])
        ),
        Self.read,
      ])
      #expect(answers[0]["status"] == -7)
      #expect(answers[0]["answer"]?["reason"] == "unresolvable_path")
      #expect(answers[0]["answer"]?["at"] == "/steps/1")
      #expect(answers[1]["answer"] == [:])
    }
  }

  @Test func `a commit that writes nothing has no number`() async throws {
    try await Desk.with { desk in
      let answer = try await desk.ask("commit", ["steps": []])
      #expect(answer["status"] == 0)
      #expect(answer["answer"]?["seq"] == nil)
    }
  }

  @Test func `the ids of steps are put where null stands for them`() async throws {
    try await Desk.with { desk in
      let answers = try await desk.run([
        Desk.commit(
          ["do": "conversation.create", "as": "c", "owner": "self"],
          Self.notes(["value": ["pages": .array([.null])], "fill": ["/value/pages/0": "c"]])
        ),
        Self.read,
      ])
      let child = answers[0]["answer"]?["ids"]?["c"]
      #expect(child?.int != nil, "\(answers)")
      #expect(answers[1]["answer"]?["value"]?["pages"]?.array?.first == child)
    }
  }

  /// Writes the document that a transaction has read, beside the plugin.
  private static func touch(_ desk: Desk) -> Tool {
    Tool(name: "touch", description: "t", parameters: ["type": "object"]) { _ in .text("touched") }
  }

  @Test func `a commit is refused if somebody touched what its transaction read`() async throws {
    try await Desk.with { desk in
      let answers = try await desk.run([
        Desk.op("tx.begin"),
        Desk.op("document.get", ["tx": "t1", "kind": "desk.notes", "key": "site"]),
        // The plugin's own blind commit is somebody else's for the transaction.
        Desk.commit(Self.notes(["value": ["pages": ["other"]]])),
        Desk.commit(Self.notes(["value": ["pages": ["mine"]]]), tx: "t1"), Self.read,
      ])
      #expect(answers[0]["answer"]?["tx"] == "t1")
      #expect(answers[3]["status"] == -3)
      #expect(answers[3]["answer"]?["reason"] == "conflict")
      #expect(answers[4]["answer"]?["value"] == ["pages": ["other"]])
    }
  }

  @Test func `what nobody touched does not disturb a transaction`() async throws {
    try await Desk.with { desk in
      let answers = try await desk.run([
        Desk.op("tx.begin"),
        Desk.op("document.get", ["tx": "t1", "kind": "desk.notes", "key": "site"]),
        Desk.commit(Self.notes(["value": ["pages": ["other"]]], key: "elsewhere")),
        Desk.commit(Self.notes(["value": ["pages": ["mine"]]]), tx: "t1"), Self.read,
      ])
      #expect(answers[3]["status"] == 0, "\(answers)")
      #expect(answers[4]["answer"]?["value"] == ["pages": ["mine"]])
    }
  }

  /// A read, and a commit that touches what it read.
  private static let touches: [(String, JSON, JSON)] = [
    (
      "conversations.scan", ["ownerTask": "SELF"],
      ["do": "conversation.create", "owner": "self"]
    ),
    (
      "tasks.scan", ["owner": "self"],
      ["do": "task.create", "type": "desk.job", "owner": "self", "input": [:]]
    ),
    (
      "entries.scan", ["conversation": 1],
      ["do": "entry.append", "conversation": 1, "entry": ["kind": "desk.note", "data": 1]]
    ),
  ]

  @Test(arguments: touches)
  func `a scan is touched by what would be in it`(
    op: String,
    input: JSON,
    step: JSON
  ) async throws {
    try await Desk.with { desk in
      var query = input.object ?? [:]
      query["tx"] = "t1"
      if query["ownerTask"] != nil {
        query["ownerTask"] = nil
        query["ownerConversation"] = 1
      }
      let answers = try await desk.run([
        Desk.op("tx.begin"), Desk.op(op, .object(query)), Desk.commit(step),
        Desk.commit(Self.notes(["value": ["pages": []]]), tx: "t1"),
      ])
      #expect(answers[1]["status"] == 0, "\(answers)")
      #expect(answers[2]["status"] == 0, "\(answers)")
      #expect(answers[3]["answer"]?["reason"] == "conflict", "\(answers)")
    }
  }

  @Test func `a call with a transaction can do nothing else`() async throws {
    try await Desk.with { desk in
      let answers = try await desk.run([
        Desk.op("tx.begin"), Desk.op("memo", ["name": "m"]), Desk.op("tx.begin"),
        Desk.op("clock"), Desk.op("tx.abort", ["tx": "t1"]), Desk.op("memo", ["name": "m"]),
        Desk.commit(tx: "t1"),
      ])
      #expect(answers[1]["answer"]?["reason"] == "in_transaction")
      #expect(answers[2]["answer"]?["reason"] == "in_transaction")
      #expect(answers[3]["status"] == 0)
      #expect(answers[4]["status"] == 0)
      #expect(answers[5]["status"] == 0)
      #expect(answers[6]["answer"]?["reason"] == "unknown_handle")
    }
  }

  @Test func `a memo keeps its first value`() async throws {
    try await Desk.with { desk in
      let answers = try await desk.run([
        Desk.op("memo", ["name": "m"]), Desk.op("memo", ["name": "m", "candidate": 1]),
        Desk.op("memo", ["name": "m", "candidate": 2]), Desk.op("memo", ["name": "pi.m"]),
      ])
      #expect(answers[0]["answer"] == [:])
      #expect(answers[1]["answer"]?["value"] == 1)
      #expect(answers[2]["answer"]?["value"] == 1)
      #expect(answers[3]["status"] == -7)
    }
  }

  /// Steps that go too far, and the reason they are refused for (abuse 6).
  private static let refused: [(JSON, String)] = [
    (["do": "doc", "kind": "pi.live", "value": [:]], "permission"),
    (["do": "doc", "kind": "other.notes", "value": [:]], "permission"),
    (
      ["do": "entry.append", "conversation": 1, "entry": ["kind": "pi.user"]], "permission"
    ),
    (
      ["do": "entry.append", "conversation": 999, "entry": ["kind": "desk.note"]], "permission"
    ),
    (["do": "conversation.create", "owner": .null], "permission"),
    (["do": "task.create", "type": "pi.tool", "owner": "self", "input": [:]], "permission"),
    (["do": "task.create", "type": "nobody.knows", "owner": "self", "input": [:]], "not_found"),
    (["do": "task.create", "type": "desk.job", "owner": "self", "input": 5], "invalid_arguments"),
    (
      [
        "do": "task.create", "type": "desk.asked", "owner": "self", "input": ["refuse": true],
      ], "initial_failed"
    ),
    (
      ["do": "entry.append", "conversation": 1, "entry": ["kind": "desk.n", "model": []]],
      "run_active"
    ),
    (["do": "doc", "kind": "desk.notes"], "shape"),
    (["do": "doc", "kind": "desk.plan", "key": "x"], "shape"),
    (["do": "doc", "kind": "desk.plan", "of": ["conversation": 1]], "shape"),
    (["do": "doc", "kind": "desk.plan", "value": [:], "ops": []], "shape"),
    (["do": "sing"], "shape"), (["do": "doc", "kind": "desk.plan", "must": ["tune"]], "shape"),
  ]

  @Test(arguments: refused)
  func `a step that goes too far is refused`(step: JSON, reason: String) async throws {
    try await Desk.with { desk in
      let answer = try await desk.run([Desk.commit(step)])[0]
      #expect(answer["answer"]?["reason"]?.text == reason, "\(answer)")
      #expect(answer["answer"]?["at"]?.text?.hasPrefix("/steps/0") == true, "\(answer)")
    }
  }

  @Test func `a new document begins as its seed or as declared`() async throws {
    try await Desk.with { desk in
      let answers = try await desk.run([
        Desk.commit(
          Self.notes(["seed": ["pages": ["seed"]]]),
          Self.notes([:], key: "plain"),
          ["do": "doc", "kind": "desk.scratch", "value": ["a": 1]]
        ), Self.read,
        Desk.op("document.get", ["kind": "desk.notes", "key": "plain"]),
        Desk.op("document.get", ["kind": "desk.scratch"]),
        Desk.commit(["do": "doc.retire", "kind": "desk.notes", "key": "site"]), Self.read,
        Desk.op("document.get", ["kind": "desk.card"]),
      ])
      #expect(answers[1]["answer"]?["value"] == ["pages": ["seed"]], "\(answers)")
      #expect(answers[2]["answer"]?["value"] == ["pages": []])
      #expect(answers[3]["answer"]?["value"] == ["a": 1])
      #expect(answers[5]["answer"] == [:])
      #expect(answers[6]["answer"]?["value"] == ["fresh": true])
    }
  }

  @Test func `a document of an older version is migrated away from the line`() async throws {
    let store = try Fixtures.folder() + "/store.sqlite"
    var form = Desk.Form()
    form.location = .sqlite(at: store)
    try await Desk.with(form) { desk in
      let answers = try await desk.run([Desk.commit(Self.notes(["value": ["pages": ["old"]]]))])
      #expect(answers[0]["status"] == 0)
    }
    form.version = 2
    form.migrates = [1]
    try await Desk.with(form) { desk in
      let answers = try await desk.run([
        Self.read, Desk.commit(Self.notes(["ops": [["p", ["pages"], 1, 0, ["new"]]]])), Self.read,
      ])
      #expect(answers[0]["answer"]?["value"] == ["pages": ["migrated"]], "\(answers)")
      #expect(answers[0]["answer"]?["version"] == 2)
      #expect(answers[1]["status"] == 0, "\(answers)")
      #expect(answers[2]["answer"]?["value"] == ["pages": ["migrated", "new"]])
    }
    form.version = 3
    form.migrates = []
    try await Desk.with(form) { desk in
      let answers = try await desk.run([Self.read, Desk.commit(Self.notes([:]))])
      #expect(answers[0]["answer"]?["reason"] == "migration_failed")
      #expect(answers[1]["answer"]?["reason"] == "migration_failed")
    }
  }
}
