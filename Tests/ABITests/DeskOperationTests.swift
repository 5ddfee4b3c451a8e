import Foundation
import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Testing

/// What plugins may ask of the engine from a tool.
@Suite(.timeLimit(.minutes(5))) struct DeskOperationTests {
  /// Operations that need nothing but the conversation of the call, and a member of the answer.
  private static let plain: [(String, JSON, String)] = [
    ("conversation.get", ["conversation": 1], "record"),
    ("entries.scan", ["conversation": 1, "limit": 2], "items"),
    ("entries.scan", ["conversation": 1, "heads": true], "items"),
    ("context.get", ["conversation": 1, "from": 0, "to": 1], "messages"),
    ("tasks.scan", ["live": true], "items"), ("agent.get", [:], "agent"),
    ("agent.get", ["conversation": 1], "agent"), ("tools.list", ["set": "offered"], "tools"),
    ("tools.list", ["set": "callable"], "tools"), ("tools.list", ["set": "deferred"], "tools"),
    ("registry.get", [:], "extensions"), ("settings.get", ["scope": "run"], "settings"),
    ("document.get", ["kind": "pi.agent"], "value"),
    ("document.get", ["kind": "pi.live", "of": ["conversation": 1]], "value"),
    ("model.list", [:], "models"), ("task.outcomes", ["tasks": []], "outcomes"),
    ("model.get", ["provider": "scripted", "modelId": "scripted-1"], "model"),
    ("host.info", [:], "ops"),
  ]

  @Test(arguments: plain)
  func `a read gives what it is for`(op: String, input: JSON, member: String) async throws {
    try await Desk.with { desk in
      let answer = try await desk.ask(op, input)
      if op == "model.get", answer["status"] != 0 { return }
      #expect(answer["status"] == 0, "\(answer)")
      #expect(answer["answer"]?[JSONString(member)] != nil, "\(answer)")
    }
  }

  @Test func `operations outside a transaction or a permission are denied`() async throws {
    var form = Desk.Form()
    form.permissions = [:]
    try await Desk.with(form) { desk in
      let answers = try await desk.run([
        Desk.op("conversation.get", ["conversation": 77]), Desk.op("conversations.scan"),
        Desk.op("tool.call", ["name": "inner", "arguments": [:]]),
        Desk.op("secret.get", ["name": "TOKEN"]), Desk.op("model.complete", ["messages": [[:]]]),
        Desk.op("document.get", ["kind": "other.kind"]),
      ])
      for answer in answers {
        #expect(answer["status"] == -9, "\(answer)")
        #expect(answer["answer"]?["reason"] == "permission")
      }
      #expect(!desk.reports.messages("plugin_denied").isEmpty)
    }
  }

  @Test func `a secret is given and masked in the log`() async throws {
    try await Desk.with { desk in
      let answers = try await desk.run([
        Desk.op("secret.get", ["name": "TOKEN"]),
        Desk.op("log", ["level": "info", "message": "it is open sesame"]),
        Desk.op("metric", ["name": "pages", "add": 2]),
      ])
      #expect(answers[0]["answer"]?["bytes"] == 11)
      #expect(answers[2]["status"] == 0)
      #expect(desk.reports.messages("plugin_log").contains { $0.hasSuffix("it is ***") })
    }
  }

  @Test func `a tool runs a conversation of its own (T1)`() async throws {
    try await Desk.with { desk in
      let first = try await desk.run([
        Desk.op("tx.begin"), Desk.op("conversations.scan", ["tx": "t1", "ownerConversation": 1]),
        Desk.commit(
          [
            "do": "conversation.create", "as": "c", "owner": "self",
            "agent": ["model": ScriptedModel.reference.json],
          ],
          tx: "t1"
        ),
      ])
      let child = try #require(first[2]["answer"]?["ids"]?["c"]?.int, "\(first)")
      // The ids of a store count up, so the next run knows those it will create.
      let next = try await desk.run([
        Desk.commit([
          "do": "conversation.create", "as": "c", "owner": "self",
          "agent": ["model": ScriptedModel.reference.json],
        ])
      ])
      let second = try #require(next[0]["answer"]?["ids"]?["c"]?.int)
      #expect(second > child)
      var form = Desk.Form()
      form.permissions = ["conversations": "write"]
      let answers = try await Desk.with(form) { desk in
        let id = try await desk.harness.createConversation()
        try await id.configure(.init(model: ScriptedModel.reference))
        let submitted = try await desk.run([
          Desk.op(
            "conversation.submit",
            ["conversation": id.id.json, "content": "hello", "requestId": "r1"]
          )
        ])
        let submission = try #require(submitted[0]["answer"]?["submission"], "\(submitted)")
        return try await desk.run([
          Desk.op("submission.wait", ["submission": submission]),
          Desk.op("submission.get", ["conversation": id.id.json, "requestId": "r1"]),
          Desk.op("submission.abort", ["submission": submission]),
          Desk.op("conversation.wait", ["conversation": id.id.json]),
          Desk.op("conversation.abort", ["conversation": id.id.json]),
          Desk.op("conversation.wait", ["conversation": 1]),
        ])
      }
      #expect(answers[0]["answer"]?["status"] == "done", "\(answers)")
      #expect(answers[0]["answer"]?["answer"]?.int != nil)
      #expect(answers[1]["answer"]?["submission"]?["status"] == "done")
      #expect(answers[2]["answer"]?["result"] == "settled")
      #expect(answers[3]["status"] == 0)
      #expect(answers[4]["status"] == 0)
      #expect(answers[5]["answer"]?["reason"] == "wait_cycle", "\(answers)")
    }
  }

  @Test func `a tool calls another one`() async throws {
    try await Desk.with { desk in
      let call: JSON = [
        "name": "inner", "key": "k",
        "arguments": ["complete": ["structuredOutput": ["found": 3]]],
      ]
      var other = call.object ?? [:]
      other["arguments"] = [:]
      let answers = try await desk.run([
        Desk.op("tool.call", call), Desk.op("tool.call", call),
        Desk.op("tool.call", .object(other)),
        Desk.op("tool.call", ["name": "run", "arguments": [:]]),
      ])
      #expect(answers[0]["answer"]?["structuredOutput"] == ["found": 3], "\(answers)")
      #expect(answers[0]["answer"]?["task"]?.int != nil)
      #expect(answers[1]["answer"]?["task"] == answers[0]["answer"]?["task"])
      #expect(answers[2]["answer"]?["reason"] == "key_conflict", "\(answers)")
      #expect(answers[3]["answer"]?["reason"] == "permission")
    }
  }

  @Test func `a tool asks a model`() async throws {
    try await Desk.with { desk in
      let messages: JSON = [["role": "user", "content": "hi"]]
      let answers = try await desk.run([
        Desk.op("model.complete", ["messages": messages]),
        Desk.op("model.stream", ["messages": messages]),
        Desk.op("stream.next", ["stream": "s1"]), Desk.op("stream.next", ["stream": "s1"]),
        Desk.op("stream.next", ["stream": "s1"]), Desk.op("stream.next", ["stream": "s9"]),
        Desk.op("stream.close", ["stream": "s9"]),
      ])
      let content = answers[0]["answer"]?["message"]?["content"]
      #expect(content?.array?.first?["text"] == "done: hi", "\(answers)")
      #expect(answers[1]["answer"]?["stream"] == "s1")
      let ends = answers[2...4].compactMap { $0["answer"]?["end"]?["message"] }
      #expect(ends.first?["content"] == content, "\(answers)")
      #expect(answers[5]["answer"]?["reason"] == "unknown_handle")
      #expect(answers[6]["answer"]?["reason"] == "unknown_handle")
    }
  }

  @Test func `a document is followed`() async throws {
    try await Desk.with { desk in
      let notes: JSON = [
        "do": "doc", "kind": "desk.notes", "key": "k", "value": ["pages": ["a"]],
      ]
      let more: JSON = [
        "do": "doc", "kind": "desk.notes", "key": "k",
        "ops": [["p", ["pages"], 1, 0, ["b"]]],
      ]
      let answers = try await desk.run([
        Desk.commit(notes), Desk.op("document.watch", ["kind": "desk.notes", "key": "k"]),
        Desk.op("stream.next", ["stream": "s1"]), Desk.commit(more),
        Desk.op("stream.next", ["stream": "s1"]),
        Desk.commit(["do": "doc.retire", "kind": "desk.notes", "key": "k"]),
        Desk.op("stream.next", ["stream": "s1"]), Desk.op("stream.close", ["stream": "s1"]),
      ])
      #expect(answers[2]["answer"]?["items"] == [["value": ["pages": ["a"]]]], "\(answers)")
      let change = answers[4]["answer"]?["items"]?.array?.first
      #expect(change?["value"] == ["pages": ["a", "b"]], "\(answers)")
      #expect(change?["ops"]?.array?.isEmpty == false)
    }
  }

  @Test func `arguments are repaired before they are checked`() async throws {
    try await Desk.with { desk in
      let good = try await desk.result("prepared", ["number": 7, "echo": true])
      #expect(Desk.text(good) == "[]")
      let bad = try await desk.result("prepared", ["refuse": true])
      #expect(Desk.text(bad).contains("beyond repair"), "\(bad)")
    }
  }

  @Test func `a completion brings an image as a part`() async throws {
    try await Desk.with { desk in
      let entry = try await desk.result("picture", [:])
      let content = try #require(entry.model?.first?["content"]?.array, "\(entry)")
      #expect(content.last?["mimeType"] == "image/png")
      #expect(content.last?["data"] == "iVBORyE=")
    }
  }

  @Test func `images are shown without their bytes`() async throws {
    try await Desk.with { desk in
      let entry = try await desk.result("picture", [:])
      let answers = try await desk.run([
        Desk.op("entry.get", ["entry": entry.id.json]),
        Desk.op("content.read", ["source": "m0"]), Desk.op("content.read", ["source": "m7"]),
      ])
      let shown = answers[0]["answer"]?["entry"]?["model"]?.array?.first?["content"]?.array?.last
      #expect(shown?["data"] == nil)
      #expect(shown?["bytes"] == 5, "\(answers)")
      #expect(answers[1]["answer"]?["bytes"] == 5)
      #expect(answers[2]["answer"]?["reason"] == "unknown_handle")
    }
  }

  @Test func `a call of the plugin from a hook or a section has its own operations`() async throws {
    try await Desk.with { desk in
      _ = try await desk.result(
        "run",
        [
          "hook": [
            "ops": [
              Desk.op("memo", ["name": "h", "candidate": 1]), Desk.op("agent.get"),
              Desk.commit(), Desk.op("conversation.submit", ["conversation": 1, "content": "x"]),
            ]
          ]
        ]
      )
      let hook = try #require(desk.told("hook").first)
      #expect(hook[0]["answer"]?["value"] == 1, "\(hook)")
      #expect(hook[1]["status"] == 0)
      #expect(hook[2]["answer"]?["reason"] == "not_here")
      #expect(hook[3]["answer"]?["reason"] == "not_here")
      let section = try #require(desk.told("section").first)
      #expect(section[0]["status"] == 0, "\(section)")
      #expect(section[1]["status"] == 0)
      #expect(section[2]["answer"]?["reason"] == "not_here")
    }
  }

  @Test func `a person answers what a plugin asks`() async throws {
    try await Desk.with { desk in
      let answers = try await desk.run([
        Desk.commit([
          "do": "task.create", "as": "q", "type": "perdure.approval", "owner": "conversation",
          "background": true, "input": ["title": "May I?"],
        ])
      ])
      let id = try #require(TaskID(answers[0]["answer"]?["ids"]?["q"]), "\(answers)")
      #expect(try await desk.harness.task(id)?.state.status == .sleeping)
    }
  }
}
