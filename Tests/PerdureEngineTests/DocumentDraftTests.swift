import PerdureEngine
import PerdureTestKit
import PerdureValue
import TestPrograms
import Testing

@Suite struct DocumentDraftTests {
  private func operations(
    _ base: JSON,
    _ change: (inout DocumentDraft) throws -> Void
  ) throws -> [Operation] {
    var draft = DocumentDraft(base: base)
    try change(&draft)
    let replayed = try base.applying(draft.operations)
    #expect(replayed.compactText == draft.value.compactText)
    return draft.operations
  }

  @Test func `an equal scalar records nothing`() throws {
    let base: JSON = ["a": 1, "b": "x", "c": .null]
    let recorded = try operations(base) { draft in
      try draft.set(["a"], 1)
      try draft.set(["b"], "x")
      try draft.set(["c"], .null)
      try draft.delete(["d"])
      try draft.assign([], base)
    }
    #expect(recorded.isEmpty)
  }

  @Test func `a zero with another sign is recorded`() throws {
    let recorded = try operations(["a": .double(0)]) { try $0.set(["a"], .double(-0.0)) }
    #expect(recorded.count == 1)
  }

  @Test(arguments: [
    ("abc", "abcdef", [Operation.append(["t"], "def")]),
    ("", "abc", [.append(["t"], "abc")]),
    ("hello world", "world, again", [.trim(["t"], 6), .append(["t"], ", again")]),
    ("abcd", "cd", [.trim(["t"], 2)]),
    ("abc", "xyz", [.set(["t"], "xyz")]),
    ("abc", "", [.set(["t"], "")]),
    ("aé😀", "😀b", [.trim(["t"], 2), .append(["t"], "b")]),
    ("aab", "aabaab", [.append(["t"], "aab")]),
  ])
  func `a string that continues is appended to`(
    old: String,
    new: String,
    expected: [Operation]
  ) throws {
    let recorded = try operations(["t": .string(old)]) { try $0.set(["t"], .string(new)) }
    #expect(recorded == expected)
  }

  @Test func `assigning changes the leaves that differ`() throws {
    let base: JSON = ["m": ["content": [["text": "ab"]], "old": 1, "n": 2]]
    let recorded = try operations(base) {
      try $0.assign(["m"], ["content": [["text": "abc"], ["text": "d"]], "n": 2, "new": true])
    }
    #expect(
      recorded == [
        .delete(["m", "old"]),
        .splice(["m", "content"], at: 1, remove: 0, insert: [["text": "d"]]),
        .append(["m", "content", 0, "text"], "c"),
        .set(["m", "new"], true),
      ]
    )
  }

  @Test func `assigning keeps the order of the new keys`() throws {
    var draft = DocumentDraft(base: ["m": ["a": 1, "b": 2, "c": 3]])
    try draft.assign(["m"], ["b": 2, "c": 3, "a": 1])
    #expect(draft.value.compactText == #"{"m":{"b":2,"c":3,"a":1}}"#)
    #expect(draft.operations == [.delete(["m", "a"]), .set(["m", "a"], 1)])
  }

  @Test(arguments: [
    ("[1,2,3]", "[1,3]", #"[["p",["a"],1,1,[]]]"#),
    ("[1,2,3,4,5]", "[1,2]", #"[["p",["a"],2,3,[]]]"#),
    ("[1,2]", "[0,1,2]", #"[["p",["a"],0,0,[0]]]"#),
    ("[1,2,3,4,5]", "[2,3,9,5,6]", #"[["p",["a"],0,1,[]],["p",["a"],4,0,[6]],["s",["a",2],9]]"#),
    ("[[1],[2],[3]]", "[[1],[2,0],[3]]", #"[["p",["a",1],1,0,[0]]]"#),
    (#"["xx","b","c","d"]"#, #"["b","c","d","xx"]"#, #"[["m",["a"],[1,2,3,0]]]"#),
    ("[[],[]]", "[]", #"[["p",["a"],0,2,[]]]"#),
    ("[1]", "{}", #"[["s",["a"],{}]]"#),
  ])
  func `arrays change by what was removed, moved and inserted`(
    old: String,
    new: String,
    expected: String
  ) throws {
    let (old, new) = (try JSON(parsing: old), try JSON(parsing: new))
    let recorded = try operations(["a": old]) { try $0.assign(["a"], new) }
    #expect(JSON.array(recorded.map { $0.json }).compactText == expected)
  }

  @Test func `a moved element of a long array is taken out and inserted`() throws {
    let numbers: [JSON] = (0..<10_000).map { .int($0) }
    let moved = [numbers[9_999]] + numbers.dropLast()
    let recorded = try operations(["a": .array(numbers)]) { try $0.assign(["a"], .array(moved)) }
    #expect(
      recorded == [
        .splice(["a"], at: 9_999, remove: 1, insert: []),
        .splice(["a"], at: 0, remove: 0, insert: [9_999]),
      ]
    )
  }

  @Test func `long elements that change places are reordered and not repeated`() throws {
    let pages: [JSON] = (0..<50).map { ["text": .string(String(repeating: "\($0) ", count: 500))] }
    let recorded = try operations(["a": .array(pages)]) {
      try $0.assign(["a"], .array(pages.reversed()))
    }
    #expect(recorded == [.reorder(["a"], Array((0..<50).reversed()))])
  }

  @Test func `an array of which everything changed is set`() throws {
    let old: JSON = .array((0..<500).map { .int($0) })
    let new: JSON = .array((0..<500).map { .int(-1 - $0) })
    let recorded = try operations(["a": old]) { try $0.assign(["a"], new) }
    #expect(recorded == [.set(["a"], new)])
  }

  @Test func `the operations of an assignment grow with what changed`() throws {
    var random = SeededGenerator(for: "sizes of assignments")
    for _ in 0..<40 {
      var elements: [JSON] = (0..<random.int(100...2_000)).map { index in
        ["id": .int(index), "text": .string(String(repeating: "x", count: 60))]
      }
      let base: JSON = ["list": .array(elements), "other": [1, 2, 3]]
      let edits = random.int(1...4)
      for _ in 0..<edits {
        let place = random.int(0...(elements.count - 1))
        switch random.int(0...3) {
        case 0: elements.remove(at: place)
        case 1: elements.insert(["id": .int(random.int(5_000...9_000))], at: place)
        case 2: elements.swapAt(place, random.int(0...(elements.count - 1)))
        default: elements[place] = ["id": .int(place), "text": "short"]
        }
      }
      let recorded = try operations(base) { try $0.assign(["list"], .array(elements)) }
      let size = recorded.map { $0.json.compactText.utf8.count }.reduce(0, +)
      #expect(size < edits * 600, "\(recorded)")
    }
  }

  @Test func `an element that is set at the end is recorded as an insertion`() throws {
    let recorded = try operations(["a": [1]]) { try $0.set(["a", 1], 2) }
    #expect(recorded == [.splice(["a"], at: 1, remove: 0, insert: [2])])
  }

  @Test func `an object with a key that no path may name is set whole`() throws {
    let recorded = try operations(["a": ["__proto__": 1]]) {
      try $0.assign(["a"], ["__proto__": 2])
    }
    #expect(recorded == [.set(["a"], ["__proto__": 2])])
  }

  @Test func `many operations fold into one replacement`() throws {
    let recorded = try operations(["n": 0]) { draft in
      for number in 1...4_097 { try draft.set(["n"], .int(number)) }
    }
    #expect(recorded == [.replace(["n": 4_097])])
  }

  @Test func `a change that fails changes nothing`() throws {
    var draft = DocumentDraft(base: ["a": [1]])
    #expect(throws: OperationError.self) { try draft.set(["b", "c"], 1) }
    #expect(throws: OperationError.self) { try draft.set(["a", 3], 1) }
    #expect(throws: OperationError.self) { try draft.splice(["a"], at: 2, remove: 0, insert: []) }
    #expect(throws: OperationError.self) { try draft.append(["a"], "") }
    #expect(throws: OperationError.self) { try draft.assign(["a", -1], 1) }
    #expect(throws: OperationError.self) { try draft.delete(["a", 1]) }
    #expect(!draft.isChanged)
    #expect(draft.value == ["a": [1]])
  }

  @Test func `an overlap is found in linear time`() throws {
    let text = String(repeating: "a", count: 60_000)
    var recorded: [Operation] = []
    let cost = try ThreadTime.measure {
      recorded = try operations(["t": .string(text + "b")]) {
        try $0.set(["t"], .string("c" + text))
      }
    }
    #expect(recorded.count == 1)
    // The square of 60,000 comparisons would take minutes.
    #expect(cost < .seconds(20))
  }

  @Test func `replaying the operations gives the value and the order of its keys`() throws {
    var random = SeededGenerator(for: "document drafts")
    for _ in 0..<1_500 {
      let base = randomJSON(depth: 3, using: &random)
      var draft = DocumentDraft(base: base)
      for _ in 0..<random.int(1...12) {
        let path = randomPath(into: draft.value, using: &random)
        let new = randomJSON(depth: 2, using: &random)
        let old = draft.value
        if (try? change(&draft, path, new, using: &random)) == nil {
          #expect(draft.value.compactText == old.compactText)
        }
      }
      #expect(draft.base.compactText == base.compactText)
      let replayed = try base.applying(draft.operations)
      #expect(replayed.compactText == draft.value.compactText)
    }
  }

  private func change(
    _ draft: inout DocumentDraft,
    _ path: [PathSegment],
    _ new: JSON,
    using random: inout SeededGenerator
  ) throws {
    switch random.int(0...5) {
    case 0: try draft.set(path, new)
    case 1: try draft.delete(path)
    case 2:
      try draft.splice(path, at: random.int(-1...3), remove: random.int(0...2), insert: [new])
    case 3: try draft.append(path, "é😀")
    default:
      let isStream = random.chance(50)
      let target = isStream ? mutated(draft.value.value(at: path) ?? new, &random) : new
      try draft.assign(path, target)
      #expect(draft.value.value(at: path)?.compactText == target.compactText)
    }
  }

  private let keys: [JSONString] = ["a", "b", "c", "d", "é", "__proto__"]

  private func randomJSON(depth: Int, using random: inout SeededGenerator) -> JSON {
    switch random.int(0...(depth > 0 ? 8 : 4)) {
    case 0: return .null
    case 1: return .bool(random.chance(50))
    case 2: return .int(random.int(-3...3))
    case 3: return .double(random.pick([0, -0.0, 1.5]))
    case 4: return .string(randomString(using: &random))
    case 5, 6:
      return .array(
        (0..<random.int(0...(random.chance(20) ? 12 : 3))).map { _ in
          randomJSON(depth: depth - 1, using: &random)
        }
      )
    default:
      var members = JSONObject()
      for _ in 0..<random.int(0...4) {
        members[random.pick(keys)] = randomJSON(depth: depth - 1, using: &random)
      }
      return .object(members)
    }
  }

  private func randomString(using random: inout SeededGenerator) -> JSONString {
    let units: [UInt16] = [0x61, 0x62, 0xE9, 0xD83D, 0xDE00, 0xDC00]
    return JSONString(utf16: (0..<random.int(0...6)).map { _ in random.pick(units) })
  }

  private func randomPath(into value: JSON, using random: inout SeededGenerator) -> [PathSegment] {
    var path: [PathSegment] = []
    var value = value
    while random.chance(70) {
      switch value {
      case .object(let members):
        let key = random.pick(members.keys + keys)
        path.append(.key(key))
        value = members[key] ?? .null
      case .array(let elements):
        let index = random.int(-1...elements.count)
        path.append(.index(index))
        value = elements.indices.contains(index) ? elements[index] : .null
      default: return path
      }
    }
    return path
  }

  /// The value with a small change somewhere, as the next state of a stream has it.
  private func mutated(_ value: JSON, _ random: inout SeededGenerator) -> JSON {
    switch value {
    case .string(let text): return .string(text.appending(randomString(using: &random)))
    case .array(var elements):
      if random.chance(50) { elements.append(randomJSON(depth: 1, using: &random)) }
      if random.chance(30) { elements.shuffle(using: &random) }
      if random.chance(30), !elements.isEmpty {
        elements.remove(at: random.int(0...(elements.count - 1)))
      }
      if random.chance(30) {
        let place = random.int(0...elements.count)
        elements.insert(randomJSON(depth: 2, using: &random), at: place)
      }
      return .array(elements.map { random.chance(50) ? mutated($0, &random) : $0 })
    case .object(var members):
      for key in members.keys where random.chance(50) {
        members[key] = members[key].map { mutated($0, &random) }
      }
      if random.chance(30) { members[random.pick(keys)] = nil }
      if random.chance(30) { members[random.pick(keys)] = 7 }
      return .object(members)
    default: return random.chance(50) ? value : randomJSON(depth: 1, using: &random)
    }
  }
}
