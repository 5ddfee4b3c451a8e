import PerdureValue
import Testing

struct JSONWriterTests {
  @Test func `members that are written are those of the tree, in order`() throws {
    var writer = JSONWriter()
    writer.begin(JSONKey("ctx"))
    writer.member(JSONKey("now"), Int64(1_700_000_000_000))
    writer.end()
    writer.begin(JSONKey("empty"))
    writer.end()
    writer.member(JSONKey("text"), JSONString("a \"quoted\" line\n\u{1F600}"))
    writer.member(JSONKey("value"), ["list": [1, true, .null]])
    writer.members(of: ["a\\b": .double(1.5), "z": [:]])
    let tree: JSON = [
      "ctx": ["now": 1_700_000_000_000], "empty": [:],
      "text": "a \"quoted\" line\n\u{1F600}", "value": ["list": [1, true, .null]],
      "a\\b": .double(1.5), "z": [:],
    ]
    #expect(String(decoding: writer.finished(), as: UTF8.self) == tree.compactText)
  }

  @Test func `nothing written is an empty object`() {
    #expect(JSONWriter().finished() == Array("{}".utf8))
  }

  @Test func `a lone surrogate is written as an escape`() throws {
    var writer = JSONWriter()
    writer.member(JSONKey("half"), JSONString(utf16: [0xD83D]))
    #expect(String(decoding: writer.finished(), as: UTF8.self) == #"{"half":"\ud83d"}"#)
  }

  @Test(arguments: [0, 7, -7, 10, 1_234_567_890, Int64.max, Int64.min])
  func `an integer is printed with all its digits`(number: Int64) {
    #expect(JSON.int(number).compactText == String(number))
  }
}
