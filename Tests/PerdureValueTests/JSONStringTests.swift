import PerdureTestKit
import PerdureValue
import Testing

@Suite struct JSONStringTests {
  private let high = JSONString(utf16: [0xD83D])
  private let low = JSONString(utf16: [0xDE00])

  @Test func `lone surrogates are distinct from each other and from their replacement`() {
    let strings: Set<JSONString> = [high, low, "\u{FFFD}", JSONString(utf16: [0xD83E])]
    #expect(strings.count == 4)
    #expect(high.string == "\u{FFFD}")
    #expect(high.unicode == nil)
    #expect(high.asciiLiteral == #""\ud83d""#)
  }

  @Test func `a pair of escapes is one character`() throws {
    #expect(try JSON(parsing: #""\ud83d\ude00""#) == "😀")
    #expect(JSONString(utf16: [0xD83D, 0xDE00]) == "😀")
  }

  @Test func `canonically equal spellings are two keys`() {
    let object: JSONObject = ["é": 1, "e\u{301}": 2]
    #expect(object.count == 2)
    #expect(JSONString("é") != JSONString("e\u{301}"))
  }

  @Test func `surrogates that meet become one character`() {
    #expect(high.appending(low) == "😀")
    #expect(JSONString("a").appending(high).appending(low).appending("b") == "a😀b")
    #expect(low.appending(high).utf16 == [0xDE00, 0xD83D])
    #expect(high.appending(high).appending(low) == JSONString(utf16: [0xD83D, 0xD83D, 0xDE00]))
  }

  @Test func `WTF-8 with a pair in two halves is refused`() {
    #expect(JSONString(wtf8: [0xED, 0xA0, 0xBD, 0xED, 0xB8, 0x80]) == nil)
    #expect(JSONString(wtf8: [0xED, 0xA0, 0xBD]) == high)
    #expect(JSONString(wtf8: [0xC0, 0x80]) == nil)
  }

  @Test func `lengths count bytes, units and code points`() {
    let text = JSONString("aé😀").appending(high)
    #expect(text.utf8Count == 10)
    #expect(text.utf16Count == 5)
    #expect(text.codePointCount == 4)
  }

  @Test func `appending and dropping agree with arithmetic on code units`() {
    var random = SeededGenerator(for: "string arithmetic")
    for _ in 0..<3_000 {
      let (left, right) = (
        RandomJSON.string(using: &random), RandomJSON.string(using: &random)
      )
      let joined = left.appending(right)
      #expect(joined == JSONString(utf16: left.utf16 + right.utf16))
      #expect(joined.utf16Count == left.utf16Count + right.utf16Count)
      let count = random.int(0...9)
      let expected =
        count <= joined.utf16Count ? JSONString(utf16: joined.utf16.dropFirst(count)) : nil
      #expect(joined.dropping(utf16Units: count) == expected)
      #expect(joined.suffix(after: left).map { left.appending($0) == joined } ?? true)
      #expect(joined.utf16Suffix(3) == Array(joined.utf16.suffix(3)))
    }
  }
}
