import PerdureValue
import Testing

/// Models that never stop calling tools, from the command line.
@Suite struct LimitTests {
  private let folder = Folder()

  /// A script that calls a tool so many times, with 100 tokens for each answer, before it says
  /// something.
  private func script(calls: Int) -> String {
    let call = """
      {"steps": [{"toolCall": {"id": "c", "name": "ghost", "arguments": {}}}],
       "usage": {"input": 60, "output": 40}}
      """
    let turns = Array(repeating: call, count: calls) + [#"{"steps": [{"text": "At last."}]}"#]
    return folder.write(#"{"turns": [\#(turns.joined(separator: ", "))]}"#, to: "calls.json")
  }

  private func run(calls: Int, _ options: [String]) -> Program.Finished {
    Program.run(
      [
        "run", "--store", folder.file("s.sqlite"), "--durability", "normal", "--faux",
        script(calls: calls),
      ] + options + ["Hi"],
      in: folder
    )
  }

  struct Limit: Sendable, CustomTestStringConvertible {
    var options: [String]
    var calls: Int
    /// What the error says; absent: there is an answer.
    var sentence: String?
    var remedy = ""

    var testDescription: String { options.joined(separator: " ") + " with \(calls) calls" }
  }

  static let limits: [Limit] = [
    Limit(
      options: [],
      calls: 200,
      sentence: "the run has had 200 answers of 200",
      remedy: "raise --max-turns"
    ),
    Limit(options: [], calls: 199),
    Limit(options: ["--max-turns", "0"], calls: 201),
    Limit(
      options: ["--max-turns", "3"],
      calls: 3,
      sentence: "the run has had 3 answers of 3",
      remedy: "raise --max-turns"
    ),
    Limit(
      options: ["--max-tokens", "250"],
      calls: 5,
      sentence: "the run has used 300 of 250 tokens",
      remedy: "raise --max-tokens"
    ),
    Limit(options: ["--max-tokens", "0"], calls: 5),
  ]

  @Test(arguments: limits)
  func `a run that reaches a limit ends with its own status and the remedy`(_ limit: Limit) {
    let result = run(calls: limit.calls, limit.options)
    if let sentence = limit.sentence {
      #expect(result.status == 6)
      #expect(result.error.contains(sentence), "\(result.error)")
      #expect(result.error.contains(limit.remedy))
    } else {
      #expect(result.status == 0)
      #expect(result.output == "At last.\n")
    }
  }

  @Test func `the prompt after a limit begins to count anew`() {
    #expect(run(calls: 3, ["--max-turns", "3"]).status == 6)
    #expect(run(calls: 2, ["--max-turns", "3"]).status == 0)
  }

  @Test func `the limits are recorded for those who resume`() {
    _ = run(calls: 0, ["--max-turns", "3", "--max-tokens", "4000"])
    let stored = folder.bytes(of: "s.sqlite") + folder.bytes(of: "s.sqlite-wal")
    let text = String(decoding: stored, as: UTF8.self)
    #expect(text.contains(#""maxTurns":3,"maxTokens":4000"#))
  }

  @Test(arguments: [["--max-turns", "many"], ["--max-turns", "-1"], ["--max-tokens", "1.5"]])
  func `a limit that is no number is refused`(_ options: [String]) {
    let result = run(calls: 0, options)
    #expect(result.status == 2)
    #expect(result.error.contains("give a whole number"))
  }
}
