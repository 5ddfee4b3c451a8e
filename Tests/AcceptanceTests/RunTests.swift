import PerdureValue
import Testing

/// `perdure run` as users see it.
@Suite struct RunTests {
  private let folder = Folder()

  private func run(
    _ prompt: [String],
    input: String = "",
    _ more: [String] = []
  ) -> Program.Finished {
    Program.run(
      ["run", "--store", folder.file("s.sqlite"), "--faux", script] + more + prompt,
      in: folder,
      input: input
    )
  }

  private var script: String { Fixtures.script(#"{"text": "Hello."}"#, in: folder) }

  @Test func `the answer alone is on standard output`() {
    let result = Program.run(
      [
        "run", "--store", folder.file("s.sqlite"), "--plugin", Fixtures.wordcount, "--faux",
        Fixtures.wordcountScript, "How long is it?",
      ],
      in: folder
    )
    #expect(result.status == 0)
    #expect(result.output == "It has 10 words, 2 lines.\n")
    #expect(result.error == "")
  }

  @Test func `the log shows prompt, tool, call, result and answer in order`() {
    _ = Program.run(
      [
        "run", "--store", folder.file("s.sqlite"), "--plugin", Fixtures.wordcount, "--faux",
        Fixtures.wordcountScript, "How long is it?",
      ],
      in: folder
    )
    let log = Program.run(["log", "--store", folder.file("s.sqlite"), "--json"], in: folder)
    let entries = log.events.filter { $0["type"] == "entry" }
    #expect(
      entries.map { $0["kind"]?.text } == [
        "pi.user", "pi.system", "pi.assistant", "pi.tool-result", "pi.assistant",
      ]
    )
    #expect(
      entries.dropFirst().first?.compactText.contains(#""toolsAdded":[{"name":"wordcount""#) == true
    )
  }

  @Test(arguments: [["-"], []])
  func `a prompt comes from standard input`(_ arguments: [String]) {
    let result = run(arguments, input: "What is up?\n")
    #expect(result.status == 0)
    let log = Program.run(["log", "--store", folder.file("s.sqlite")], in: folder)
    #expect(log.output.contains("What is up?\n"))
  }

  @Test(arguments: [("UTC", "+00:00"), ("<ZZZ>-5:45", "+05:45"), ("<ZZZ>3:30", "-03:30")])
  func `the times of the log name their zone`(_ zone: String, _ offset: String) {
    _ = run(["Hi"])
    let log = Program.run(
      ["log", "--store", folder.file("s.sqlite")],
      in: folder,
      environment: ["TZ": zone]
    )
    #expect(log.output.contains(/user  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d ([-+]\d\d:\d\d)\n/))
    #expect(log.output.contains(" \(offset)\n"))
  }

  @Test func `standard input is not read beside a prompt`() {
    _ = run(["Hi"], input: "something else")
    let log = Program.run(["log", "--store", folder.file("s.sqlite")], in: folder)
    #expect(!log.output.contains("something else"))
  }

  @Test func `options stand before and behind the prompt`() {
    let result = Program.run(
      ["run", "Hi", "--faux=\(script)", "--store=\(folder.file("s.sqlite"))"],
      in: folder
    )
    #expect(result.output == "Hello.\n")
  }

  @Test func `behind two dashes nothing is an option`() {
    #expect(run(["--", "--json"]).output == "Hello.\n")
  }

  @Test func `the second run continues the conversation`() {
    _ = run(["One"])
    _ = run(["Two"])
    let log = Program.run(["log", "--store", folder.file("s.sqlite"), "--json"], in: folder)
    #expect(log.events.filter { $0["kind"] == "pi.user" }.count == 2)
  }

  @Test func `without --store the user's own store is used`() {
    let result = Program.run(["run", "--faux", script, "Hi"], in: folder)
    #expect(result.status == 0)
    #expect(folder.has(".local/share/perdure/perdure.sqlite"))
  }

  @Test func `XDG_DATA_HOME moves the user's own store`() {
    _ = Program.run(
      ["run", "--faux", script, "Hi"],
      in: folder,
      environment: ["XDG_DATA_HOME": folder.file("data")]
    )
    #expect(folder.has("data/perdure/perdure.sqlite"))
  }

  @Test func `a store in memory leaves nothing behind`() {
    let result = Program.run(["run", "--store", ":memory:", "--faux", script, "Hi"], in: folder)
    #expect(result.output == "Hello.\n")
  }

  @Test func `how it ran is recorded without the key`() {
    let result = Program.run(
      [
        "run", "--store", folder.file("s.sqlite"), "--model", "local/m", "--base-url",
        "http://127.0.0.1:1/v1", "--api-key-env", "MY_KEY", "--max-retries", "0", "Hi",
      ],
      in: folder,
      environment: ["MY_KEY": "sk-secret"]
    )
    #expect(result.status == 75)
    let stored = folder.bytes(of: "s.sqlite") + folder.bytes(of: "s.sqlite-wal")
    let text = String(decoding: stored, as: UTF8.self)
    #expect(text.contains(#""apiKeyEnv":"MY_KEY""#))
    #expect(!text.contains("sk-secret"))
  }

  @Test func `a new conversation is one more, and knows nothing of the first`() {
    _ = run(["One"])
    let second = run(["Two"], ["--conversation", "new", "--json"])
    #expect(second.status == 0)
    let id = second.events.first?["conversation"]?.int ?? 0
    #expect(id > 1)
    #expect(second.events.last?["conversation"]?.int == id)
    let log = Program.run(["log", "--store", folder.file("s.sqlite"), "\(id)"], in: folder)
    #expect(log.output.contains("Two"))
    #expect(!log.output.contains("One"))
  }

  @Test func `a new conversation can be continued by its number`() {
    let first = run(["One"], ["--conversation", "new", "--json"])
    let id = first.events.first?["conversation"]?.int ?? 0
    #expect(run(["Two"], ["--conversation", "\(id)"]).output == "Hello.\n")
    let log = Program.run(
      ["log", "--store", folder.file("s.sqlite"), "--json", "\(id)"],
      in: folder
    )
    #expect(log.events.filter { $0["kind"] == "pi.user" }.count == 2)
  }

  @Test func `an unknown conversation is named`() {
    _ = run(["One"])
    let result = run(["Two"], ["--conversation", "99"])
    #expect(result.status == 3)
    #expect(result.error.contains("has no conversation 99"))
  }
}
