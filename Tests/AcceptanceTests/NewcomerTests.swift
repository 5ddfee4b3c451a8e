import Glibc
import PerdureValue
import Testing

/// What somebody is told who does not know the program yet: what is wrong, and what to do.
@Suite struct NewcomerTests {
  private let folder = Folder()

  /// A command line, how it ends, and a part of what it says.
  struct Told: Sendable, CustomTestStringConvertible {
    var words: [String]
    var status: Int32
    var part: String

    init(_ words: String, _ status: Int32, _ part: String) {
      self.words = words.split(separator: " ").map(String.init)
      self.status = status
      self.part = part
    }

    var testDescription: String { words.joined(separator: " ") }
  }

  static let usage: [Told] = [
    Told("plugn", 2, "there is no verb 'plugn'; did you mean 'plugin'?"),
    Told("plugn list", 2, "did you mean 'plugin list'?"),
    Told("plugin lst", 2, "did you mean 'plugin list'?"),
    Told("x", 2, "there is no verb 'x'; the verbs are"),
    Told("plugin new hello --lang d", 2, "did you mean 'c'?"),
    Told("plugin new hello --lang go", 2, "in 'go'; use one of c, cpp, rust, swift, zig"),
    Told("run --modl x Hi", 2, "run has no option --modl; did you mean --model?"),
    Told("run --isolation far Hi", 2, "--isolation cannot be 'far'"),
    Told("run --max-turns many Hi", 2, "--max-turns cannot be 'many'"),
    Told("run --durability some Hi", 2, "--durability cannot be 'some'"),
    Told("close --store :memory:", 2, "a store in memory is gone already"),
  ]

  @Test(arguments: usage)
  func `what is written wrongly is told before what is missing`(told: Told) {
    let result = Program.run(told.words, in: folder)
    #expect(result.status == told.status)
    #expect(result.error.contains(told.part), "\(result.error)")
    #expect(result.error.split(separator: "\n").count == 1)
  }

  @Test(arguments: [["plugin", "--help"], ["help", "plugin"], ["plugin", "-h"]])
  func `the help of a group lists its verbs and no others`(words: [String]) {
    let result = Program.run(words, in: folder)
    #expect(result.status == 0)
    #expect(result.output.hasPrefix("Usage: perdure plugin VERB [options]\n\n  plugin install "))
    let verbs = result.output.split(separator: "\n").filter { $0.hasPrefix("  ") }
    #expect(verbs.count > 10)
    #expect(verbs.allSatisfy { $0.hasPrefix("  plugin ") })
  }

  // MARK: Stores

  @Test(arguments: [
    "resume", "close", "pending", "approve 1", "deny 1", "compact", "log", "task list",
    "task show 1",
    "task retry 1", "store check", "store backup copy", "store export", "store compact",
    "conversation list", "conversation archive 1", "conversation unarchive 1",
    "conversation delete 1",
  ])
  func `a store that is not there is named and not made`(verb: String) {
    let words = verb.split(separator: " ").map(String.init)
    let result = Program.run(words + ["--store", folder.file("x.sqlite")], in: folder)
    #expect(result.status == 3)
    #expect(
      result.error
        == "perdure: there is no store at \(folder.file("x.sqlite"));"
        + " check the path given with --store\n"
    )
    #expect(!folder.has("x.sqlite") && !folder.has("x.sqlite.lock"))
  }

  @Test(arguments: ["run Hi", "serve"])
  func `without a model no store is made`(verb: String) {
    let words = verb.split(separator: " ").map(String.init)
    let result = Program.run(words + ["--store", folder.file("x.sqlite")], in: folder)
    #expect(result.status == 3)
    #expect(result.error.contains("no model is chosen"))
    #expect(!folder.has("x.sqlite") && !folder.has("x.sqlite.lock"))
  }

  private func script(_ step: String = #"{"text": "Hello."}"#) -> String {
    Fixtures.script(step, in: folder)
  }

  @Test func `a file at the place of the control socket is named with what to do`() {
    folder.write("mine", to: "s.sqlite.control")
    let result = Program.run(
      ["run", "--store", folder.file("s.sqlite"), "--faux", script(), "Hi"],
      in: folder
    )
    #expect(result.status == 0)
    #expect(result.error.contains("something else is there: remove it, or move the store"))
    #expect(folder.read("s.sqlite.control") == "mine")
  }

  @Test func `a store that is served says how to ask its host and how to end it`() throws {
    let output = Journal(in: folder, named: "served")
    let store = folder.file("s.sqlite")
    let stall = script(#"{"stall": true}"#)
    let host = Program.start(
      ["serve", "--store", store, "--faux", stall],
      in: folder,
      output: output
    )
    #expect(try #require(output.line()).hasPrefix("serving"))
    let second = Program.run(["serve", "--store", store, "--faux", stall], in: folder)
    #expect(second.status == 8)
    #expect(
      second.error.contains(
        "process \(host.pid) works on \(store) already; `perdure run --store \(store) PROMPT` lets it"
          + " answer a prompt, and `perdure close --store \(store)` ends it"
      ),
      "\(second.error)"
    )
    let other = Program.run(["run", "--store", store, "--max-turns", "7", "Hi"], in: folder)
    #expect(other.error.contains("end that process with `perdure close --store \(store)` first"))

    let events = Journal(in: folder, named: "events")
    let waiting = Program.start(
      ["run", "--json", "--store", store, "Hi"],
      in: folder,
      output: events
    )
    while let line = events.line(), !line.contains(#""type":"submitted""#) {}
    let busy = Program.run(["run", "--store", store, "Hi"], in: folder)
    #expect(busy.status == 75)
    #expect(
      busy.error.contains("has unfinished work; let the prompt wait with --when-busy follow-up")
    )
    #expect(Program.run(["close", "--abort", "--store", store], in: folder).status == 0)
    #expect(host.wait().status == 0)
    _ = waiting.wait()
  }

  // MARK: Plugins

  private func notes() -> String {
    Fixtures.compile(
      "examples/plugin-c/notes.c",
      as: "notes.so",
      in: folder,
      ["-Wa,-I\(Fixtures.root)/examples/plugin-c"]
    )
  }

  @Test(arguments: [
    ("deny", "run it with --store PATH and --approvals wait"),
    ("wait", "the store in memory is gone; give --store PATH"),
  ])
  func `a store in memory is no place to wait for an approval`(mode: String, part: String) {
    let result = Program.run(
      [
        "run", "--store", ":memory:", "--plugin", notes(), "--approvals", mode, "--faux",
        Fixtures.root + "/examples/plugin-c/notes.faux.json", "Note what matters.",
      ],
      in: folder
    )
    #expect(result.status == 7)
    #expect(result.error.contains(part), "\(result.error)")
  }

  @Test func `what a plugin registers is shown whole`() {
    let inspected = Program.run(["plugin", "inspect", notes()], in: folder).output
    let lines = [
      "  may       approvals", "tool note(text)", "section notes",
      "hook beforeTool of note, guard", "wrap of the tool note",
      "task example.notes-c.keep, version 1",
      "document example.notes-c.list of a conversation, version 1",
    ]
    for line in lines { #expect(inspected.contains(line + "\n"), "\(inspected)") }
    let folders = ["--plugins", folder.file("plugins")]
    let installed = Program.run(
      ["plugin", "install", notes(), "--allow-unsigned"] + folders,
      in: folder
    )
    #expect(installed.status == 0, "\(installed.error)")
    let info = Program.run(["plugin", "info", "example.notes-c"] + folders, in: folder).output
    for line in lines { #expect(info.contains(line + "\n"), "\(info)") }
  }

  @Test(arguments: ["in-process", "runner"])
  func `a plugin that lacks a function is named by its own path`(isolation: String) {
    let source = folder.write(
      """
      #include "perdure_easy.h"
      PDR_PLUGIN_NOTE("c");
      PDR_MANIFEST("{\\"manifest\\": 1, \\"id\\": \\"test.lacking\\", \\"version\\": \\"1.0.0\\","
        "\\"runtime\\": \\"c\\", \\"tools\\": [{\\"name\\": \\"a\\", \\"description\\": \\"A.\\","
        "\\"parameters\\": {\\"type\\": \\"object\\"}}]}");
      int nowhere(void);
      static int32_t a(pdr_easy_call *call) { return pdr_easy_answer(call, nowhere() ? "a" : "b"); }
      PDR_EASY_PLUGIN({"a", a})
      """,
      to: "lacking.c"
    )
    let plugin = Fixtures.compile(source, as: "lacking.so", in: folder)
    let result = Program.run(
      [
        "run", "--store", ":memory:", "--plugin", plugin, "--isolation", isolation, "--faux",
        script(), "Hi",
      ],
      in: folder
    )
    #expect(result.status == 5)
    #expect(
      result.error.contains("plugin file \(plugin) cannot be loaded (undefined symbol: nowhere)"),
      "\(result.error)"
    )
  }

  @Test func `a tool that answers too late is told what to do`() {
    let plugin = Fixtures.compile(
      "Tests/Fixtures/Acceptance/rude.c",
      as: "late.so",
      in: folder,
      ["-include", "unistd.h", "-DRUDE=usleep(5000000)"]
    )
    let call = #"{"toolCall": {"id": "c", "name": "act"}}"#
    // The second call waits until the first one, which was given up, has returned.
    let turns = folder.write(
      #"{"turns": [{"steps": [\#(call)]}, {"steps": [\#(call)]}, {"steps": [{"text": "."}]}]}"#,
      to: "turns.json"
    )
    let result = Program.run(
      [
        "run", "--store", ":memory:", "--plugin", plugin, "--faux", turns, "--isolation",
        "in-process", "Hi",
      ],
      in: folder
    )
    #expect(result.status == 0)
    #expect(
      result.error.contains(
        "the tool 'act' answered after its call had been given up; let it end when it is cancelled"
      ),
      "\(result.error)"
    )
  }

  @Test func `one thing is not called many`() {
    let checked = Program.run(
      ["plugin", "check", Fixtures.wordcount, "--group", "calls/valid"],
      in: folder
    )
    #expect(checked.output.contains(" 1 test, 0 failed, "), "\(checked.output)")
  }
}
