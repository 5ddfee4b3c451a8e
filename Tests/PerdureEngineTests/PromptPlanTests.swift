import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

private func tool(_ name: String, _ text: String = "") -> JSON {
  ["name": .string(name), "description": .string(text), "parameters": ["type": "object"]]
}

private func system(_ members: JSONObject) -> JSON {
  var message: JSONObject = ["role": "system", "content": ""]
  for (key, value) in members { message[key] = value }
  return .object(message)
}

private func entry(
  _ number: Int64,
  _ kind: JSONString,
  _ model: JSON,
  head: EntryID? = nil
) throws -> EntryRecord {
  EntryRecord(
    id: try #require(EntryID(number)),
    conversationId: .root,
    kind: kind,
    model: [model],
    head: head
  )
}

@Suite struct PromptPlanTests {
  private func planned(_ offered: [JSON], _ wanted: [JSON]) throws -> JSON? {
    let shown = try entry(2, "pi.system", system(["toolsAdded": .array(offered)]))
    let plan = PromptPlan.entries(
      for: ContextCache(entries: [shown]),
      sections: [:],
      tools: wanted,
      timestamp: 5
    )
    #expect(plan.count <= 1)
    return plan.first?.model?.first
  }

  @Test func `nothing is planned when nothing changes`() throws {
    #expect(try planned([tool("a"), tool("b")], [tool("a"), tool("b")]) == nil)
    #expect(try planned([], []) == nil)
  }

  @Test func `another order exchanges all tools`() throws {
    let message = try planned(
      [tool("read"), tool("bash")],
      [tool("read"), tool("edit"), tool("bash")]
    )
    #expect(message?["toolsRemoved"] == [["name": "read"], ["name": "bash"]])
    #expect(message?["toolsAdded"] == [tool("read"), tool("edit"), tool("bash")])
  }

  @Test func `a tool at the end is added alone`() throws {
    let message = try planned(
      [tool("read"), tool("bash")],
      [tool("read"), tool("bash"), tool("edit")]
    )
    let expected = JSON.object([
      "role": "system", "content": "", "toolsAdded": [tool("edit")], "timestamp": 5,
    ])
    #expect(message?.compactText == expected.compactText)
  }

  @Test func `a changed declaration is removed and added in one message`() throws {
    let message = try planned(
      [tool("read"), tool("bash")],
      [tool("read"), tool("bash", "new")]
    )
    #expect(message?["toolsRemoved"] == [["name": "bash"]])
    #expect(message?["toolsAdded"] == [tool("bash", "new")])
  }

  @Test func `after a marker one entry restates everything and omits the retained ones`() throws {
    let old = try entry(3, "pi.system", system(["sections": ["p": "x", "q": "y"]]))
    let kept = try entry(4, "pi.system", system(["toolsAdded": [tool("a")]]))
    let marker = try entry(5, "pi.compaction", ["role": "user"], head: old.id)
    let context = ContextCache(entries: [old, kept, marker])
    let plan = PromptPlan.entries(
      for: context,
      sections: ["p": "x", "q": "y"],
      tools: [tool("a")],
      timestamp: 5
    )
    #expect(plan.count == 1)
    #expect(plan.first?.edits == [.omit(old.id), .omit(kept.id)])
    let expected = JSON.object([
      "role": "system", "content": "", "sections": ["p": "x", "q": "y"],
      "toolsAdded": [tool("a")], "timestamp": 5,
    ])
    #expect(plan.first?.model?.first?.compactText == expected.compactText)
  }

  // MARK: Sections

  static let patches: [(shown: JSONObject, wanted: JSONObject, patches: [JSON])] = [
    ([:], [:], []),
    (["p": "1", "cwd": "a"], ["p": "1", "cwd": "a"], []),
    ([:], ["p": "1", "q": "2"], [["p": "1", "q": "2"]]),
    (["p": "1", "cwd": "a", "s": "x"], ["p": "1", "cwd": "b", "s": "x"], [["cwd": "b"]]),
    (["p": "1", "cwd": "a", "s": "x"], ["p": "1", "s": "x"], [["cwd": .null]]),
    (["p": "1"], ["p": "1", "q": "2"], [["q": "2"]]),
    (["p": "1", "q": "2"], ["p": "0", "r": "3"], [["p": "0", "q": .null, "r": "3"]]),
    (
      ["p": "1", "cwd": "a", "s": "x"], ["p": "1", "new": "n", "cwd": "a", "s": "x"],
      [
        ["p": .null, "cwd": .null, "s": .null],
        ["p": "1", "new": "n", "cwd": "a", "s": "x"],
      ]
    ),
    (
      ["p": "1", "q": "2"], ["q": "2", "p": "1"],
      [["p": .null, "q": .null], ["q": "2", "p": "1"]]
    ),
  ]

  @Test(arguments: 0..<patches.count)
  func `sections change by the smallest patch, or by an exchange where the order asks for it`(
    _ index: Int
  ) throws {
    let (shown, wanted, patches) = Self.patches[index]
    let entry = try entry(2, "pi.system", system(["sections": .object(shown)]))
    let plan = PromptPlan.entries(
      for: ContextCache(entries: [entry]),
      sections: wanted,
      tools: [],
      timestamp: 5
    )
    let planned = plan.map { $0.model?.first?["sections"]?.compactText }
    #expect(planned == patches.map { $0.compactText })
    #expect(plan.allSatisfy { $0.model?.first?["content"] == "" })
  }

  @Test func `changes of tools ride on the last entry of sections`() throws {
    let entry = try entry(2, "pi.system", system(["sections": ["p": "1", "q": "2"]]))
    let plan = PromptPlan.entries(
      for: ContextCache(entries: [entry]),
      sections: ["q": "2", "p": "1"],
      tools: [tool("a")],
      timestamp: 5
    )
    #expect(plan.count == 2)
    #expect(plan.first?.model?.first?["toolsAdded"] == nil)
    #expect(plan.last?.model?.first?["toolsAdded"] == [tool("a")])
  }

  /// A transcript to which plans are applied.
  private struct Transcript {
    var entries: [EntryRecord]
    var context: ContextCache

    init() throws {
      entries = [try entry(2, "pi.user", ["role": "user", "content": "u"])]
      context = ContextCache(entries: entries)
    }

    mutating func add(_ kind: JSONString, _ model: [JSON], head: EntryID?) throws {
      let id = try #require(EntryID(Int64(entries.count + 2)))
      entries.append(
        EntryRecord(id: id, conversationId: .root, kind: kind, model: model, head: head)
      )
      context = ContextCache(entries: entries)
    }

    mutating func plan(_ sections: JSONObject, _ tools: [JSON]) throws -> Int {
      let plan = PromptPlan.entries(
        for: context,
        sections: sections,
        tools: tools,
        timestamp: 1
      )
      for draft in plan {
        try add(draft.kind, draft.model ?? [], head: nil)
        entries[entries.count - 1].edits = draft.edits
      }
      context = ContextCache(entries: entries)
      return plan.count
    }
  }

  @Test func `replaying planned entries gives the wanted sections and tools in order`() throws {
    var random = SeededGenerator(for: "prompt plans")
    for _ in 0..<200 {
      var transcript = try Transcript()
      for _ in 0..<8 {
        if random.chance(20) {
          let head = EntryID(Int64(random.int(2...transcript.entries.count + 2)))
          try transcript.add("pi.compaction", [["role": "user"]], head: head)
        }
        let names = ["a", "b", "c", "d", "e"].filter { _ in random.chance(60) }
        let tools = names.shuffled(using: &random).map {
          tool($0, random.chance(20) ? "changed" : "")
        }
        var sections = JSONObject()
        for key in ["p", "q", "r", "s"].shuffled(using: &random) where random.chance(60) {
          sections[JSONString(key)] = random.chance(20) ? "changed" : .string(key)
        }
        _ = try transcript.plan(sections, tools)
        let state = PromptState(
          replaying: ContextView(of: transcript.entries).messages
        )
        #expect(state.tools == tools)
        #expect(JSON.object(state.sections).compactText == JSON.object(sections).compactText)
        #expect(try transcript.plan(sections, tools) == 0)
      }
    }
  }
}
