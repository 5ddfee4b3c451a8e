import PerdureTestKit
import PerdureValue
import Testing

@Suite struct CodingTests {
  struct Inner: Codable, Equatable {
    var flag: Bool
    var numbers: [Double]
  }

  enum Choice: String, Codable { case left, right }

  enum Shape: Codable, Equatable {
    case circle(radius: Double)
    case none
  }

  struct Outer: Codable, Equatable {
    var small: Int8
    var large: UInt64
    var least: Int64
    var text: String
    var raw: JSONString
    var json: JSON
    var choice: Choice
    var shapes: [Shape]
    var inner: Inner?
    var absent: Inner?
    var nested: [[String?]]
    var byKey: [String: Inner]
    var byNumber: [Int: Bool]
    var id: Identifier<Int>?
  }

  class Base: Codable {
    var name: String = "base"
  }

  final class Derived: Base {
    var more = 1
    private enum Key: CodingKey { case more }
    override init() { super.init() }
    required init(from decoder: any Decoder) throws {
      let container = try decoder.container(keyedBy: Key.self)
      more = try container.decode(Int.self, forKey: .more)
      try super.init(from: container.superDecoder())
    }
    override func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: Key.self)
      try container.encode(more, forKey: .more)
      try super.encode(to: container.superEncoder())
    }
  }

  @Test func `a value comes back from its JSON form`() throws {
    let value = Outer(
      small: -128,
      large: .max,
      least: .min,
      text: "é😀\0",
      raw: JSONString(utf16: [0xD800]),
      json: ["z": .bigInteger("99999999999999999999"), "a": [.null, .double(1.5)]],
      choice: .right,
      shapes: [.circle(radius: 2.5), .none],
      inner: Inner(flag: true, numbers: [0, -0.5]),
      absent: nil,
      nested: [[], ["x", nil]],
      byKey: ["k": Inner(flag: false, numbers: [])],
      byNumber: [7: true],
      id: Identifier(9)
    )
    let json = try JSON(encoding: value)
    #expect(json["large"] == .bigInteger("18446744073709551615"))
    #expect(json["least"] == .int(Int64.min))
    #expect(json["absent"] == nil)
    #expect(json["json"]?.compactText == value.json.compactText)
    #expect(json["byNumber"] == ["7": true])
    #expect(try json.decoded(as: Outer.self) == value)
    let again = try JSON(parsing: Array(json.compactText.utf8)).decoded(as: Outer.self)
    #expect(again == value)
  }

  @Test func `members keep the order in which they are declared`() throws {
    let json = try JSON(encoding: Inner(flag: true, numbers: [1]))
    #expect(json.object?.keys == ["flag", "numbers"])
  }

  @Test func `a class with a superclass comes back`() throws {
    let value = Derived()
    value.name = "n"
    value.more = 5
    let json = try JSON(encoding: value)
    #expect(json == ["more": 5, "super": ["name": "n"]])
    let again = try json.decoded(as: Derived.self)
    #expect(again.more == 5 && again.name == "n")
  }

  @Test(arguments: [
    (JSON.int(300), 0), (.int(-1), 1), (.double(1.5), 0), (.bigInteger("18446744073709551616"), 1),
    (.string("1"), 0), (.null, 0), (.double(1e300), 2), (.string(""), 2), (.int(1), 3),
    (.string("x"), 4), (.array([]), 5), (.object([:]), 5), (.object([:]), 6), (.int(0), 7),
    (.bigInteger(String(repeating: "9", count: 400)), 8),
  ])
  func `what does not fit is an error and no other value`(_ json: JSON, _ type: Int) {
    #expect(throws: DecodingError.self) {
      switch type {
      case 0: _ = try json.decoded(as: Int8.self)
      case 1: _ = try json.decoded(as: UInt64.self)
      case 2: _ = try json.decoded(as: Float.self)
      case 3: _ = try json.decoded(as: Bool.self)
      case 4: _ = try json.decoded(as: Choice.self)
      case 5: _ = try json.decoded(as: Inner.self)
      case 6: _ = try json.decoded(as: [Int].self)
      case 7: _ = try json.decoded(as: Identifier<Int>.self)
      default: _ = try json.decoded(as: Double.self)
      }
    }
  }

  @Test func `an exact double is an integer and an integer is a double`() throws {
    #expect(try JSON.double(3).decoded(as: Int.self) == 3)
    #expect(try JSON.int(3).decoded(as: Double.self) == 3)
  }

  @Test func `a lone surrogate is no text but stays what it is otherwise`() throws {
    let json = JSON.string(JSONString(utf16: [0xDC00]))
    #expect(throws: DecodingError.self) { try json.decoded(as: String.self) }
    #expect(try json.decoded(as: JSONString.self) == JSONString(utf16: [0xDC00]))
    #expect(try json.decoded(as: JSON.self) == json)
  }

  @Test func `a number that is not finite is not encoded`() {
    for number in [Double.nan, .infinity, -.infinity] {
      #expect(throws: EncodingError.self) { try JSON(encoding: [number]) }
      #expect(throws: EncodingError.self) { try JSON(encoding: Float(number)) }
    }
  }

  @Test func `scalars and nothing at all have a form`() throws {
    #expect(try JSON(encoding: Int?.none) == .null)
    #expect(try JSON(encoding: "x") == "x")
    #expect(try JSON(encoding: [Int]()) == [])
    struct Empty: Codable {}
    #expect(try JSON(encoding: Empty()) == [:])
    #expect(try JSON(encoding: [Empty()]) == [[:]])
  }

  @Test func `any JSON comes back through the coders unchanged`() throws {
    var random = SeededGenerator(for: "coded JSON")
    for _ in 0..<300 {
      let json = RandomJSON.value(depth: 3, using: &random)
      #expect(try JSON(encoding: json).compactText == json.compactText)
      #expect(try JSON(encoding: ["a": json]).decoded(as: [String: JSON].self)["a"] == json)
    }
  }
}
