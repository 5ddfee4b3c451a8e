import PerdureValue
import Testing

/// What `--json` and the verbs that read say.
@Suite struct EventTests {
  private let folder = Folder()

  private func run(_ steps: String) -> Program.Finished {
    Program.run(
      [
        "run", "--json", "--store", folder.file("s.sqlite"), "--plugin", Fixtures.wordcount,
        "--faux", Fixtures.script(steps, in: folder), "Hi",
      ],
      in: folder
    )
  }

  @Test func `the first line says what runs`() {
    let header = run(#"{"text": "Hello."}"#).events.first
    #expect(header?["type"] == "header")
    #expect(header?["schema"] == 1)
    #expect(header?["model"]?["modelId"] == "faux-1")
    let plugin = header?["plugins"]?.array?.first
    #expect(plugin?["id"] == "example.wordcount")
    #expect(plugin?["isolation"] == "in-process")
    #expect(plugin?["digest"]?.text?.count == 64)
  }

  @Test func `the last line says how it ended`() {
    let result = run(#"{"text": "Hello."}"#).events.last
    #expect(result?["type"] == "result")
    #expect(result?["exit"] == 0)
    #expect(result?["answers"]?.array?.first?["text"] == "Hello.")
  }

  @Test func `every line is one physical line`() {
    let result = run(#"{"text": "a\u2028b\u2029c\nd"}"#)
    #expect(!result.output.unicodeScalars.contains { [0x2028, 0x2029].contains($0.value) })
    #expect(!result.events.contains(.null))
    #expect(result.events.last?["answers"]?.array?.first?["text"] == "a\u{2028}b\u{2029}c\nd")
  }

  @Test func `every entry has a line and every commit too`() {
    let types = run(#"{"text": "Hello."}"#).events.map { $0["type"]?.text }
    #expect(types.count { $0 == "entry" } == 3)
    #expect(types.contains("commit"))
  }

  @Test func `inspecting shows the manifest and runs nothing`() {
    let result = Program.run(["plugin", "inspect", Fixtures.wordcount, "--json"], in: folder)
    #expect(result.status == 0)
    #expect(result.events.count == 1)
    #expect(result.events.first?["manifest"]?["id"] == "example.wordcount")
    #expect(!folder.has(".cache"))
  }

  @Test func `inspecting for people names tools and their arguments`() {
    let result = Program.run(["plugin", "inspect", Fixtures.wordcount], in: folder)
    #expect(result.output.contains("tool wordcount(text)"))
  }

  @Test func `the version names the ABI`() {
    let version = Program.run(["version", "--json"], in: folder).events.first
    #expect(version?["abi"] == "1.0")
    #expect(version?["messageLevel"] == 1)
    #expect(version?["sqlite"]?.text?.hasPrefix("3.") == true)
  }
}
