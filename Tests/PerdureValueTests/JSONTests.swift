import PerdureTestKit
import PerdureValue
import Testing

@Suite struct JSONTests {
  @Test(arguments: [
    "null", "true", "0", "-1", "9223372036854775807", "-9223372036854775808",
    "9223372036854775808", "-123456789012345678901234567890", "123456789012345678",
    "1234567890123456789", "0.5", "1e+300", "-0.0", #""a\n\"\\é😀""#, #""\ud800""#,
    #""\udc00x\ud800""#, #"{"b":1,"a":[{},[]],"":null}"#, #"["\u0000\u001f"]"#,
  ])
  func `compact text survives parsing and printing`(text: String) throws {
    #expect(try JSON(parsing: text).compactText == text)
  }

  @Test func `integers are exact and apart from doubles`() throws {
    #expect(try JSON(parsing: "9007199254740993") == .int(9_007_199_254_740_993))
    #expect(try JSON(parsing: "9223372036854775808") == .bigInteger("9223372036854775808"))
    #expect(try JSON(parsing: "1.0") == .double(1))
    #expect(JSON.int(1) != .double(1))
  }

  @Test func `a zero with a sign keeps it`() throws {
    let zero = try JSON(parsing: "-0")
    #expect(zero.double?.sign == .minus)
    #expect(zero.compactText == "-0.0")
  }

  @Test(arguments: ["1e400", "-1e400", "01", "+1", ".5", "5.", "1e", "0x1", "NaN", "Infinity"])
  func `a number that is none is refused`(text: String) {
    #expect(throws: JSONError.self) { try JSON(parsing: text) }
  }

  @Test func `a repeated key keeps its first place and its last value`() throws {
    let text = #"{"a":1,"b":2,"a":3}"#
    #expect(try JSON(parsing: text).compactText == #"{"a":3,"b":2}"#)
    #expect(throws: JSONError.self) { try JSON(parsing: text, options: .border) }
  }

  @Test func `a removed key comes back at the end`() {
    var object: JSONObject = ["a": 1, "b": 2]
    object["a"] = nil
    object["a"] = 3
    #expect(JSON.object(object).compactText == #"{"b":2,"a":3}"#)
  }

  @Test func `equality does not regard the order of keys`() throws {
    #expect(try JSON(parsing: #"{"a":1,"b":2}"#) == JSON(parsing: #"{"b":2,"a":1}"#))
    #expect(try JSON(parsing: #"{"a":1}"#) != JSON(parsing: #"{"a":1,"b":2}"#))
  }

  @Test func `an object with many members keeps order and finds each`() {
    var object = JSONObject()
    var expected: [JSONString] = []
    for number in 0..<500 {
      let key = JSONString("k\(number)")
      object[key] = .int(number)
      expected.append(key)
    }
    for number in stride(from: 0, to: 500, by: 3) {
      object[JSONString("k\(number)")] = nil
      expected.removeAll { $0 == JSONString("k\(number)") }
    }
    #expect(object.keys == expected)
    #expect(expected.allSatisfy { object[$0] != nil })
    #expect(object.map(\.key) == expected)
  }

  @Test(arguments: [(512, 512, true), (513, 512, false), (128, 128, true), (129, 128, false)])
  func `nesting has a limit`(depth: Int, limit: Int, isAllowed: Bool) throws {
    let text = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
    let options = JSON.ParseOptions(maxDepth: limit)
    let value = try? JSON(parsing: text, options: options)
    #expect((value != nil) == isAllowed)
  }

  @Test func `the deepest value fits the stack of a pool thread`() async throws {
    let text = String(repeating: #"[{"a":"#, count: 256) + "1" + String(repeating: "}]", count: 256)
    let same = try await Task.detached {
      let value = try JSON(parsing: text)
      let other = try JSON(parsing: value.compactText)
      return value == other
    }.value
    #expect(same)
  }

  @Test func `an error names the byte`() {
    #expect(throws: JSONError(message: "expected a value", offset: 4)) {
      try JSON(parsing: "[1, }")
    }
  }

  @Test func `invalid UTF-8 is refused also beside escapes`() {
    for bytes: [UInt8] in [
      [0x22, 0xC3, 0x22], [0x22, 0xFF, 0x22], [0x22, 0x5C, 0x6E, 0xED, 0xA0, 0x80, 0x22],
      [0x22, 0xC3, 0x5C, 0x6E, 0xA9, 0x22], [0x22, 0xC3, 0x5C, 0x6E, 0x22],
      [0x22, 0x5C, 0x6E, 0xC3, 0x22],
    ] {
      #expect(throws: JSONError.self) { try JSON(parsing: bytes) }
    }
  }

  @Test func `any value survives printing and parsing`() throws {
    var random = SeededGenerator(for: "JSON values")
    for _ in 0..<3_000 {
      let value = RandomJSON.value(depth: 4, using: &random)
      let parsed = try JSON(parsing: value.encoded)
      #expect(parsed == value)
      #expect(parsed.encoded == value.encoded)
    }
  }

  @Test func `any damage to a text is refused or read without a trap`() throws {
    var random = SeededGenerator(for: "damaged JSON")
    for _ in 0..<5_000 {
      var bytes = RandomJSON.value(depth: 3, using: &random).encoded
      for _ in 0..<random.int(1...4) where !bytes.isEmpty {
        let place = random.int(0...(bytes.count - 1))
        switch random.int(0...2) {
        case 0: bytes[place] = UInt8(random.int(0...255))
        case 1: bytes.remove(at: place)
        default: bytes.insert(random.pick(Array(#"[]{}",:\0e-u"#.utf8)), at: place)
        }
      }
      if let value = try? JSON(parsing: bytes) {
        #expect(try JSON(parsing: value.encoded) == value, "\(value.compactText)")
      }
    }
  }

  @Test func `values print as JSON`() {
    let value: JSON = ["text": "a\"b", "list": [1, .double(2.5), true]]
    #expect("\(value)" == #"{"text":"a\"b","list":[1,2.5,true]}"#)
    #expect("\(value.object ?? [:])" == "\(value)")
    #expect("\(JSON.null) \(JSON.string("x"))" == #"null "x""#)
  }
}
