import PerdureModel
import PerdureProviders
import PerdureValue
import Testing

@Suite struct FauxScriptTests {
  struct Row: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var script: String
    var line: Int64
    var message: String

    init(_ script: String, _ line: Int64, _ message: String) {
      testDescription = message
      self.script = script
      self.line = line
      self.message = message
    }
  }

  private static func steps(_ step: String) -> String {
    "{\n\"turns\": [\n{\"steps\": [\n\(step)\n]}\n]\n}"
  }

  static let mistakes = [
    Row("{\n\"turns\": [\n}", 3, "expected a value"),
    Row("", 1, "expected a value, found the end of the text"),
    Row("{\"turns\": [],\n\"turns\": []}", 2, "key \"turns\" occurs twice"),
    Row("[]", 1, "expected an object at the top, found an array"),
    Row("{}", 1, "expected an array 'turns' at the top, found none"),
    Row("{\"turns\": []}", 1, "the array at turns is empty"),
    Row("{\"turns\":\n {}}", 2, "expected an array at turns, found an object"),
    Row("{\"turns\": [\n{\"steps\": []}]}", 2, "the array at turns[0].steps is empty"),
    Row(
      "{\"turns\": [\n{\"attempts\": [\n{}]}]}",
      3,
      "expected an array 'steps' at turns[0].attempts[0], found none"
    ),
    Row(
      "{\"chunk\":\n0, \"turns\": []}",
      2,
      "expected a whole number from 1 to 1000000 at chunk, found 0"
    ),
    Row(
      steps("{\"txt\": \"a\"}"),
      4,
      "unknown member 'txt' at turns[0].steps[0], expected one of text, thinking"
    ),
    Row(
      steps("{}"),
      4,
      "expected exactly one of text, thinking, toolResult, toolCall, delayMs, error, stall, truncate at turns[0].steps[0], found 0"
    ),
    Row(steps("{\"text\": \"a\", \"thinking\": \"b\"}"), 4, "found 2"),
    Row(
      steps("{\"text\": \"a\"},\n{\"text\":\n7}"),
      6,
      "expected a string at turns[0].steps[1].text, found 7"
    ),
    Row(
      steps("{\"toolCall\": {}}"),
      4,
      "expected a string 'name' at turns[0].steps[0].toolCall, found none"
    ),
    Row(
      steps("{\"toolCall\": {\"name\": \"f\",\n\"arguments\": []}}"),
      5,
      "expected an object at turns[0].steps[0].toolCall.arguments, found an array"
    ),
    Row(
      steps("{\"toolCall\": {\"name\": \"f\", \"arguments\": {},\n\"argumentsText\": \"\"}}"),
      5,
      "exclude each other"
    ),
    Row(steps("{\"delayMs\": -1}"), 4, "expected a whole number from 0"),
    Row(steps("{\"stall\": 1}"), 4, "expected true at turns[0].steps[0].stall, found 1"),
    Row(
      steps("{\"stall\": true},\n{\"text\": \"a\"}"),
      5,
      "a step follows one that ends the answer"
    ),
    Row(steps("{\"error\": {}}"), 4, "expected 'status' or 'message'"),
    Row(steps("{\"error\": {\"status\": 200}}"), 4, "expected a whole number from 300 to 599"),
    Row(steps("{\"error\": {\"body\": \"x\"}}"), 4, "'body' needs a 'status'"),
    Row(
      "{\"turns\": [{\"steps\": [{\"text\": \"a\"}],\n\"stopReason\": \"done\"}]}",
      2,
      "expected 'stop', 'length' or 'toolUse'"
    ),
    Row(
      "{\"turns\": [{\"steps\": [{\"truncate\": true}],\n\"stopReason\": \"stop\"}]}",
      2,
      "cannot follow"
    ),
    Row(
      "{\"turns\": [{\"steps\": [{\"text\": \"a\"}],\n\"usage\": {\"input\": 1.5}}]}",
      2,
      "expected a whole number from 0"
    ),
    Row(
      "{\"turns\": [{\"attempts\": [{\"steps\": [{\"text\": \"}]\\\"\"}]}],\n\"steps\": []}]}",
      2,
      "unknown member 'steps' at turns[0]"
    ),
  ]

  @Test(arguments: mistakes)
  func `a mistake is told with its line`(row: Row) throws {
    let error = try #require(throws: PerdureError.self) {
      try FauxScript(parsing: Array(row.script.utf8), name: "s.json")
    }
    #expect(error.code == .invalidInput)
    #expect(error.message.hasPrefix("the faux script s.json, line \(row.line): "))
    #expect(error.message.contains(row.message), "\(error.message)")
    #expect(error.details?["line"]?.int == row.line)
  }

  @Test func `the example of the manual is a script that plays`() async throws {
    let path = #filePath.split(separator: "/").dropLast(3).joined(separator: "/")
    let manual = try #require(TextFile.read("/\(path)/docs/faux-script.md"))
    let start = try #require(manual.firstRange(of: "```json\n"))
    let end = try #require(manual[start.upperBound...].firstRange(of: "```"))
    let example = manual[start.upperBound..<end.lowerBound]
    let script = try FauxScript(parsing: Array(example.utf8), name: "example")
    let provider = FauxProvider(script: script, clock: TurnedClock())
    let request = ModelRequest([["role": "user", "content": "hi"]], provider: "faux")
    let failure = await Answer(reading: provider.stream(request)).failure
    #expect(failure == ProviderFailure(.retry, "HTTP 429: slow down", retryAfterMs: 50))
  }

  @Test func `bytes of any kind never trap`() {
    let seed = UInt64.random(in: 0 ... .max)
    print("seed of the damaged scripts: \(seed)")
    var random = SeededGenerator(seed: seed)
    let good = Array(
      Self.steps("{\"toolCall\": {\"name\": \"f\", \"arguments\": {\"a\": [1]}}}").utf8
    )
    for _ in 0..<2000 {
      var bytes = good
      for _ in 0..<Int.random(in: 1...4, using: &random) {
        let index = Int.random(in: 0..<bytes.count, using: &random)
        bytes[index] = [UInt8](#"{}[]":,0a\ "#.utf8).randomElement(using: &random) ?? 0
      }
      _ = try? FauxScript(parsing: bytes, name: "s.json")
    }
  }
}
