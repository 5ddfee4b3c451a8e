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
    let plan = PromptPlan.entries(for: context, tools: [tool("a")], timestamp: 5)
    #expect(plan.count == 1)
    #expect(plan.first?.edits == [.omit(old.id), .omit(kept.id)])
    let expected = JSON.object([
      "role": "system", "content": "", "sections": ["p": "x", "q": "y"],
      "toolsAdded": [tool("a")], "timestamp": 5,
    ])
    #expect(plan.first?.model?.first?.compactText == expected.compactText)
  }

  @Test func `replaying planned entries gives the wanted tools in order`() throws {
    var random = SeededGenerator(for: "prompt plans")
    for _ in 0..<200 {
      var entries = [try entry(2, "pi.user", ["role": "user", "content": "u"])]
      var context = ContextCache(entries: entries)
      for _ in 0..<8 {
        let names = ["a", "b", "c", "d", "e"].filter { _ in random.chance(60) }
        let wanted = names.shuffled(using: &random).map {
          tool($0, random.chance(20) ? "changed" : "")
        }
        for draft in PromptPlan.entries(for: context, tools: wanted, timestamp: 1) {
          var record = try entry(Int64(entries.count + 2), draft.kind, .null)
          record.model = draft.model
          record.edits = draft.edits
          entries.append(record)
        }
        if random.chance(20) {
          let number = Int64(entries.count + 2)
          let head = EntryID(Int64(random.int(2...Int(number))))
          entries.append(try entry(number, "pi.compaction", ["role": "user"], head: head))
          context = ContextCache(entries: entries)
          for draft in PromptPlan.entries(for: context, tools: wanted, timestamp: 1) {
            var record = try entry(Int64(entries.count + 2), draft.kind, .null)
            record.model = draft.model
            record.edits = draft.edits
            entries.append(record)
          }
        }
        context = ContextCache(entries: entries)
        #expect(PromptState(replaying: ContextView(of: entries).messages).tools == wanted)
        #expect(PromptPlan.entries(for: context, tools: wanted, timestamp: 1).isEmpty)
      }
    }
  }
}
