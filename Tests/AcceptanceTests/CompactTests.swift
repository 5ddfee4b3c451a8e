import PerdureValue
import Testing

/// The verb `compact`.
@Suite struct CompactTests {
  private let folder = Folder()

  private var store: String { folder.file("s.sqlite") }

  /// A script with a small model; its answers and prompts are about 100 tokens each.
  private func script(
    _ summary: String = #", "summary": {"steps": [{"text": "In short."}]}"#
  ) -> String {
    let words = String(repeating: "word ", count: 70)
    folder.write(
      #"{"turns": [{"steps": [{"text": "\#(words)"}]}], "contextWindow": 1200\#(summary)}"#,
      to: "small.json"
    )
    return folder.file("small.json")
  }

  private func talk(_ rounds: Int, _ script: String) {
    for _ in 0..<rounds {
      let prompt = String(repeating: "tell ", count: 70)
      let run = Program.run(["run", "--store", store, "--faux", script, prompt], in: folder)
      #expect(run.status == 0, "\(run.error)")
    }
  }

  private func compact(_ more: [String] = []) -> Program.Finished {
    Program.run(["compact", "--store", store] + more, in: folder)
  }

  @Test func `the summary goes to standard output and the next prompt begins with it`() {
    let script = script()
    talk(3, script)
    let result = compact(["--instructions", "words"])
    #expect(result.status == 0, "\(result.error)")
    #expect(result.output.contains("<summary>\nIn short.\n</summary>"))
    talk(1, script)
    let log = Program.run(["log", "--store", store], in: folder).output
    #expect(log.contains("tell tell") && log.contains("In short."))
  }

  @Test func `a short conversation has no summary`() {
    talk(1, script())
    let result = compact()
    #expect(result.status == 0 && result.output.isEmpty)
  }

  @Test func `a summary that fails is one sentence and a status`() {
    talk(3, script(""))
    let result = compact()
    #expect(result.status == 1)
    #expect(result.error.contains("the faux script has no summary"))
  }

  @Test func `a store and a conversation must be there`() {
    #expect(compact().status == 3)
    talk(1, script())
    #expect(compact(["7"]).status == 3)
    #expect(compact(["x"]).status == 2)
  }
}
