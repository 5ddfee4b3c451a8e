import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import TestPrograms
import Testing

private func id(_ value: Int64) throws -> EntryID { try #require(EntryID(value)) }

private func user(_ text: String) -> JSON { ["role": "user", "content": .string(text)] }

private func system(_ text: String) -> JSON {
  ["role": "system", "content": "", "sections": ["s": .string(text)]]
}

private func assistant(_ text: String, calls: [String] = [], stop: String = "stop") -> JSON {
  let content: [JSON] =
    [["type": "text", "text": .string(text)]]
    + calls.map { ["type": "toolCall", "id": .string($0), "name": "t", "arguments": [:]] }
  return [
    "role": "assistant", "content": .array(content), "stopReason": .string(stop), "timestamp": 7,
  ]
}

private func result(_ call: String, _ text: String = "r") -> JSON {
  ["role": "toolResult", "toolCallId": .string(call), "toolName": "t", "content": .string(text)]
}

private func entry(
  _ number: Int64,
  _ kind: JSONString,
  _ model: [JSON]?,
  head: Int64? = nil,
  edits: [ContextEdit]? = nil
) throws -> EntryRecord {
  EntryRecord(
    id: try id(number),
    conversationId: .root,
    kind: kind,
    model: model,
    head: try head.map { try id($0) },
    edits: edits
  )
}

@Suite struct ContextViewTests {
  private func compacted() throws -> [EntryRecord] {
    [
      try entry(2, "pi.user", [user("2")]),
      try entry(3, "pi.system", [system("3")]),
      try entry(4, "pi.assistant", [assistant("4", calls: ["a"])]),
      try entry(5, "pi.tool-result", [result("a")]),
      try entry(6, "pi.assistant", [assistant("6")]),
      try entry(7, "pi.user", [user("7")]),
      try entry(8, "pi.compaction", [user("8")], head: 6),
      try entry(9, "pi.system", [system("9")]),
      try entry(10, "pi.assistant", [assistant("10")]),
    ]
  }

  @Test func `a marker moves to the front of its range and the baseline before it`() throws {
    let view = ContextView(of: try compacted())
    #expect(view.entries.map(\.id.value) == [8, 6, 7, 9, 10])
    #expect(
      view.messages == [system("9"), user("8"), assistant("6"), user("7"), assistant("10")]
    )
    #expect(view.contributions[3] == [system("9")])
  }

  @Test func `an earlier cutoff sees no later marker`() throws {
    let view = ContextView(of: Array(try compacted().prefix(6)))
    #expect(view.head == nil)
    #expect(view.entries.map(\.id.value) == [2, 3, 4, 5, 6, 7])
  }

  @Test func `the newest edit of the range wins and dies with it`() throws {
    var entries = try compacted()
    entries.append(
      try entry(11, "app", nil, edits: [.replace(try id(7), [user("new")])])
    )
    let edited = ContextView(of: entries)
    #expect(edited.contributions[2] == [user("new")])
    #expect(edited.contributions.last == [])
    entries.append(try entry(12, "pi.reset", nil, head: 12))
    #expect(ContextView(of: entries).entries.map(\.id.value) == [12])
    #expect(ContextView(of: entries).messages == [])
  }

  @Test func `results follow their calls in call order`() throws {
    let view = ContextView(of: [
      try entry(2, "pi.assistant", [assistant("x", calls: ["a", "b"])]),
      try entry(3, "pi.tool-result", [result("b")]),
      try entry(4, "pi.user", [user("u")]),
      try entry(5, "pi.tool-result", [result("a")]),
      try entry(6, "pi.tool-result", [result("a", "second")]),
      try entry(7, "pi.tool-result", [result("c")]),
      try entry(8, "pi.assistant", [assistant("y")]),
    ])
    #expect(
      view.messages == [
        assistant("x", calls: ["a", "b"]), result("a"), result("b"), user("u"), assistant("y"),
      ]
    )
  }

  @Test func `a call without result gets an error result`() throws {
    let view = ContextView(of: [
      try entry(2, "pi.assistant", [assistant("x", calls: ["a"])]),
      try entry(3, "pi.assistant", [assistant("y")]),
      try entry(4, "pi.tool-result", [result("a")]),
    ])
    #expect(view.messages.count == 3)
    #expect(view.messages[1]["toolCallId"] == "a")
    #expect(view.messages[1]["isError"] == true)
    #expect(view.messages[1]["details"] == ["reason": "missing_result"])
    #expect(view.messages[1]["timestamp"] == 7)
  }

  @Test(arguments: ["aborted", "error", "deferred"])
  func `an answer that did not come about contributes nothing`(stop: String) throws {
    let view = ContextView(of: [
      try entry(2, "pi.user", [user("u")]),
      try entry(3, "pi.assistant", [assistant("x", calls: ["a"], stop: stop)]),
      try entry(4, "pi.tool-result", [result("a")]),
    ])
    #expect(view.messages == [user("u")])
  }

  @Test func `deriving step by step equals deriving at once`() throws {
    var random = SeededGenerator(for: "context transcripts")
    for _ in 0..<Effort.choose(600, long: 20_000) {
      let entries = try randomTranscript(using: &random)
      var cache = ContextCache(entries: [])
      var count = 0
      while count < entries.count {
        let next = min(entries.count, count + random.int(1...3))
        if !cache.append(Array(entries[count..<next])) {
          cache = ContextCache(entries: Array(entries[..<next]))
        }
        count = next
        let visible = Array(entries[..<count])
        let expected = try referenceView(visible)
        if random.chance(60) { #expect(cache.view() == expected) }
        #expect(ContextView(of: visible) == expected)
        #expect(cache.prompt == PromptState(replaying: expected.messages))
        let cutoff = random.pick(visible).id
        if let earlier = cache.view(at: cutoff) {
          #expect(try earlier == referenceView(visible.filter { $0.id <= cutoff }))
        }
      }
    }
  }

  @Test func `a marker that reaches below the held range needs a new derivation`() throws {
    var cache = ContextCache(entries: try compacted())
    let stale = try entry(11, "pi.reset", nil, head: 4)
    let taken = cache.append([stale])
    #expect(!taken)
    #expect(cache.tail?.value == 10)
  }

  @Test func `one more entry costs the same in a long transcript as in a short one`() throws {
    func cost(of count: Int64) throws -> Duration {
      var entries = [
        try entry(2, "pi.user", [user("u")]), try entry(3, "pi.system", [system("s")]),
      ]
      for turn in 2..<count {
        entries.append(try entry(2 * turn, "pi.assistant", [assistant("x", calls: ["a"])]))
        entries.append(try entry(2 * turn + 1, "pi.tool-result", [result("a")]))
      }
      var cache = ContextCache(entries: entries)
      var best = Duration.seconds(9)
      var number = 2 * count
      for _ in 0..<20 {
        let added = [
          try entry(number, "pi.assistant", [assistant("x", calls: ["a"])]),
          try entry(number + 1, "pi.tool-result", [result("a")]),
        ]
        number += 2
        let time = ThreadTime.measure {
          for item in added { _ = cache.append([item]) }
          #expect(cache.messages().count == Int(number - 2))
        }
        best = min(best, time)
      }
      return best
    }
    let (short, long) = (try cost(of: 10), try cost(of: 10_000))
    // A copy of 20,000 messages would be a thousand times the work.
    #expect(long < short * 20 + .microseconds(100))
  }
}

/// A transcript with everything that can happen to one, in any order.
private func randomTranscript(using random: inout SeededGenerator) throws -> [EntryRecord] {
  var entries: [EntryRecord] = []
  var number: Int64 = 1
  func message(_ random: inout SeededGenerator) -> JSON {
    let calls = ["a", "b", "c"].filter { _ in random.chance(40) }
    switch random.int(0...9) {
    case 0, 1: return user("\(number)")
    case 2: return system("\(number)")
    case 3, 4, 5:
      let stop = random.pick(["stop", "stop", "stop", "toolUse", "error", "aborted"])
      return assistant("\(number)", calls: calls, stop: stop)
    default: return result(random.pick(["a", "b", "c", "d"]), "\(number)")
    }
  }
  for _ in 0..<random.int(1...25) {
    number += Int64(random.int(1...3))
    let model: [JSON]? =
      random.chance(10) ? nil : (0..<random.int(0...2)).map { _ in message(&random) }
    var head: Int64?
    if random.chance(8) { head = random.chance(40) ? number : Int64(random.int(1...Int(number))) }
    var edits: [ContextEdit]?
    if random.chance(10) {
      edits = try (0..<random.int(0...2)).map { _ in
        let target = try id(Int64(random.int(1...(Int(number) + 6))))
        return random.chance(50) ? .omit(target) : .replace(target, [message(&random)])
      }
    }
    let kind: JSONString = random.chance(20) ? "pi.system" : "pi.user"
    entries.append(try entry(number, kind, model, head: head, edits: edits))
  }
  return entries
}

/// The derivation said plainly, rule by rule, on the whole list.
private func referenceView(_ entries: [EntryRecord]) throws -> ContextView {
  let head = entries.last { $0.head != nil }
  let range = entries.filter { entry in head?.head.map { entry.id >= $0 } ?? true }
  var edits: [EntryID: ContextEdit] = [:]
  for entry in range { for edit in entry.edits ?? [] { edits[edit.target] = edit } }
  let active = head.map { [$0] + range.filter { $0.head == nil } } ?? range
  let contributions = active.map { entry -> [JSON] in
    var messages = entry.model ?? []
    if case .omit = edits[entry.id] { messages = [] }
    if case .replace(_, let others) = edits[entry.id] { messages = others }
    return messages.filter {
      $0["role"] != "assistant"
        || !["aborted", "error", "deferred"].contains($0["stopReason"]?.text ?? "")
    }
  }
  var messages = ordered(contributions.flatMap { $0 })
  if let position = messages.firstIndex(where: { $0["role"] == "system" }) {
    let before = messages[..<position]
    if before.allSatisfy({ $0["role"] == "user" })
      || leads(active, contributions, edits, after: head)
    {
      messages.insert(messages.remove(at: position), at: 0)
    }
  }
  var view = ContextView(of: [])
  view.head = head
  view.entries = active
  view.contributions = contributions
  view.messages = messages
  return view
}

private func leads(
  _ active: [EntryRecord],
  _ contributions: [[JSON]],
  _ edits: [EntryID: ContextEdit],
  after head: EntryRecord?
) -> Bool {
  let baseline = active.firstIndex { entry in
    entry.kind == "pi.system" && head.map { entry.id > $0.id } ?? true
  }
  guard let baseline, edits[active[baseline].id] == nil else { return false }
  func isSystem(_ message: JSON) -> Bool { message["role"] == "system" }
  let carriesEarlier = active[..<baseline].contains { entry in
    let injected = (entry.edits ?? []).flatMap { edit -> [JSON] in
      if case .replace(_, let messages) = edit { return messages }
      return []
    }
    return ((entry.model ?? []) + injected).contains(where: isSystem)
  }
  if head == nil, carriesEarlier { return false }
  // The first system message of the request must be that of the baseline.
  return !contributions[..<baseline].joined().contains(where: isSystem)
    && contributions[baseline].contains(where: isSystem)
}

private func ordered(_ messages: [JSON]) -> [JSON] {
  var result: [JSON] = []
  for (position, message) in messages.enumerated() where message["role"] != "toolResult" {
    result.append(message)
    guard message["role"] == "assistant" else { continue }
    let following = messages[(position + 1)...].prefix { $0["role"] != "assistant" }
    for call in message["content"]?.array ?? [] where call["type"] == "toolCall" {
      let found = following.first { $0["role"] == "toolResult" && $0["toolCallId"] == call["id"] }
      result.append(
        found ?? [
          "role": "toolResult", "toolCallId": call["id"] ?? .null, "toolName": "t",
          "content": [
            [
              "type": "text",
              "text": "No result: the visible history ends before this call ended.",
            ]
          ],
          "isError": true, "details": ["reason": "missing_result"], "timestamp": 7,
        ]
      )
    }
  }
  return result
}
