import PerdureTestKit
import PerdureValue
import TestPrograms
import Testing

@Suite struct OperationTests {
  private func applied(_ base: String, _ batch: String) throws -> String {
    let operations = try Operation.batch(json: JSON(parsing: batch))
    return try JSON(parsing: base).applying(operations).compactText
  }

  @Test(arguments: [
    (
      #"[["p",["items"],0,1,[]],["a",["text"],"def"],["s",["n","x"],2]]"#,
      #"{"items":[2,3],"text":"abcdef","n":{"x":2}}"#
    ),
    (#"[["m",["items"],[2,1,0]]]"#, #"{"items":[3,2,1],"text":"abc","n":{"x":1}}"#),
    (#"[["d",["text"]],["s",["text"],"x"]]"#, #"{"items":[1,2,3],"n":{"x":1},"text":"x"}"#),
    (
      #"[["t",["text"],2],["a",["text"],", again"]]"#,
      #"{"items":[1,2,3],"text":"c, again","n":{"x":1}}"#
    ),
    (#"[["s",["items",3],4],["d",["items",0]]]"#, #"{"items":[2,3,4],"text":"abc","n":{"x":1}}"#),
    (#"[["d",["absent"]]]"#, #"{"items":[1,2,3],"text":"abc","n":{"x":1}}"#),
    (#"[["r",[1]],["p",[],1,0,[2]],["m",[],[1,0]]]"#, "[2,1]"),
  ])
  func `a batch is applied in order`(batch: String, expected: String) throws {
    let base = #"{"items":[1,2,3],"text":"abc","n":{"x":1}}"#
    #expect(try applied(base, batch) == expected)
  }

  @Test(arguments: [
    #"["s",["__proto__"],1]"#, #"["d",["a","constructor"]]"#, #"["a",["prototype"],"x"]"#,
    #"["s",["__proto__","x"],1]"#, #"["p",["prototype"],0,0,[]]"#,
  ])
  func `a path through a prototype is refused`(text: String) throws {
    let operation = try Operation(json: JSON(parsing: text))
    let error = #expect(throws: OperationError.self) {
      try JSON.object(["a": [:]]).applying([operation])
    }
    guard case .unsafePathSegment = error else {
      Issue.record("\(String(describing: error))")
      return
    }
  }

  @Test(arguments: [
    #"["s",["a","x"],1]"#, #"["s",["o",0],1]"#, #"["s",["a",3],1]"#, #"["d",["a",2]]"#,
    #"["a",["a"],"x"]"#, #"["t",["o"],0]"#, #"["t",["t"],4]"#, #"["a",["none"],"x"]"#,
    #"["p",["a"],3,0,[]]"#, #"["p",["a"],1,2,[]]"#, #"["p",["o"],0,0,[]]"#,
    #"["m",["a"],[0]]"#, #"["m",["o"],[]]"#, #"["s",["none","x"],1]"#,
  ])
  func `a path that leads nowhere is refused`(text: String) throws {
    let operation = try Operation(json: JSON(parsing: text))
    let base = try JSON(parsing: #"{"a":[1,2],"o":{},"t":"abc"}"#)
    let error = #expect(throws: OperationError.self) { try base.applying([operation]) }
    guard case .unresolvablePath = error else {
      Issue.record("\(String(describing: error))")
      return
    }
  }

  @Test(arguments: [
    "{}", "[]", "[1]", #"["x",[],1]"#, #"["r"]"#, #"["r",1,2]"#, #"["s",["a"]]"#,
    #"["s",["a",-1],1]"#, #"["s",["a",0.5],1]"#, #"["s",["a",1.0],1]"#, #"["s",["a",null],1]"#,
    #"["s","a",1]"#, #"["a",["a"],1]"#, #"["t",["a"],-1]"#, #"["t",["a"],"1"]"#,
    #"["p",["a"],0,0]"#, #"["p",["a"],0,0,{}]"#, #"["m",["a"],[0.5]]"#,
    #"["s",["a",99999999999999999999],1]"#,
  ])
  func `what is no operation is refused`(text: String) throws {
    let json = try JSON(parsing: text)
    #expect(throws: OperationError.self) { try Operation(json: json) }
  }

  @Test(arguments: [Operation.set([], 1), .delete([]), .append([], "x"), .trim([], 0)])
  func `the whole document can only be replaced, spliced or reordered`(operation: Operation) {
    #expect(throws: OperationError.self) { try JSON.string("a").applying([operation]) }
  }

  @Test(arguments: [
    Operation.set(["a", -1], 1), .delete(["a", -1]), .trim(["t"], -1), .set(["a", -1, "x"], 1),
    .splice(["a"], at: -1, remove: 0, insert: []), .splice(["a"], at: 0, remove: -1, insert: []),
    .splice(["a"], at: 1, remove: .max, insert: []), .reorder(["a"], [-1, 0]),
  ])
  func `numbers out of range are refused`(operation: Operation) {
    let base: JSON = ["a": [1, 2], "t": "abc"]
    #expect(throws: OperationError.self) { try base.applying([operation]) }
  }

  @Test func `a document cannot become deeper than a parser reads`() throws {
    var value: JSON = []
    for _ in 1..<512 { value = [value] }
    #expect(try JSON.null.applying([.replace(value)]) == value)
    #expect(throws: OperationError.self) { try JSON.null.applying([.replace([value])]) }
    #expect(throws: OperationError.self) { try JSON.object([:]).applying([.set(["a"], value)]) }
    #expect(throws: OperationError.self) {
      try JSON.array([]).applying([.splice([], at: 0, remove: 0, insert: [value])])
    }
  }

  @Test func `appending costs what is appended`() throws {
    let text = JSONString(
      String(decoding: [UInt8](repeating: 0x78, count: 4_000_000), as: UTF8.self)
    )
    var value: JSON = ["a": ["b": .string(text)]]
    let cost = try ThreadTime.measure {
      for _ in 0..<20_000 { try value.apply(.append(["a", "b"], "y")) }
    }
    // Copying the string each time would move 80 GB.
    #expect(cost < .seconds(5))
    #expect(value.value(at: ["a", "b"])?.string?.utf8Count == 4_020_000)
  }

  @Test func `changing a large value copies nothing else`() throws {
    var members = JSONObject()
    for number in 0..<20_000 { members[JSONString("k\(number)")] = .int(number) }
    var value: JSON = ["o": .object(members), "a": .array((0..<200_000).map { .int($0) })]
    members = [:]
    let cost = try ThreadTime.measure {
      for number in 0..<5_000 {
        try value.apply(.set(["o", "k7"], .int(number)))
        try value.apply(.set(["a", 7], .int(number)))
        try value.apply(.splice(["a"], at: 200_000, remove: 0, insert: [1]))
      }
    }
    // Copying 200,000 elements each time would move 50 GB.
    #expect(cost < .seconds(3))
  }

  @Test func `a value that somebody else holds does not change`() throws {
    let old: JSON = ["a": ["x"], "b": "t"]
    var new = old
    try new.apply(.append(["b"], "u"))
    try new.apply(.set(["a", 1], 2))
    #expect(old == ["a": ["x"], "b": "t"])
    #expect(new == ["a": ["x", 2], "b": "tu"])
  }

  @Test func `no operation traps and one that fails changes nothing`() throws {
    var random = SeededGenerator(for: "operations")
    var appliedCount = 0
    for _ in 0..<2_000 {
      var value = RandomJSON.value(depth: 4, using: &random)
      for _ in 0..<20 {
        let before = value
        let operation = randomOperation(on: value, using: &random)
        #expect(try Operation(json: JSON(parsing: operation.json.encoded)) == operation)
        if (try? value.apply(operation)) == nil {
          #expect(value.compactText == before.compactText)
        } else {
          appliedCount += 1
          #expect(try before.applying([operation]).compactText == value.compactText)
        }
      }
    }
    #expect(appliedCount > 2_000)
  }

  private func randomOperation(on value: JSON, using random: inout SeededGenerator) -> Operation {
    let (path, target) = randomPath(into: value, using: &random)
    let new = RandomJSON.value(depth: 2, using: &random)
    switch random.int(0...7) {
    case 0: return random.chance(20) ? .replace(new) : .set(path, new)
    case 1: return .set(path + [.key(random.pick(RandomJSON.keys))], new)
    case 2: return .delete(path)
    case 3: return .append(path, RandomJSON.string(using: &random))
    case 4: return .trim(path, random.int(0...4))
    case 5:
      return .splice(path, at: random.int(0...3), remove: random.int(0...2), insert: [new])
    default:
      let count = target.array?.count ?? random.int(0...3)
      var order = Array(0..<count).shuffled(using: &random)
      if random.chance(20) { order.append(random.int(0...3)) }
      return .reorder(path, order)
    }
  }

  private func randomPath(
    into value: JSON,
    using random: inout SeededGenerator
  ) -> (path: [PathSegment], target: JSON) {
    var (path, target): ([PathSegment], JSON) = ([], value)
    while random.chance(75) {
      switch target {
      case .object(let members):
        let key = random.pick(members.keys + RandomJSON.keys.prefix(2))
        path.append(.key(key))
        target = members[key] ?? .null
      case .array(let elements):
        let index = random.int(0...elements.count)
        path.append(.index(index))
        target = elements.indices.contains(index) ? elements[index] : .null
      default: return (path, target)
      }
    }
    return (path, target)
  }
}
