import PerdureValue
import Testing

/// What is wrong, and how the program ends then: one sentence, one status.
struct BadInput: Sendable, CustomTestStringConvertible {
  var name: String
  var arguments: @Sendable (Folder) -> [String]
  var status: Int32
  var sentence: String

  var testDescription: String { name }

  init(
    _ name: String,
    _ status: Int32,
    _ sentence: String,
    _ arguments: @escaping @Sendable (Folder) -> [String]
  ) {
    self.name = name
    self.arguments = arguments
    self.status = status
    self.sentence = sentence
  }

  /// A run that is fine but for one thing.
  static func run(
    _ name: String,
    _ status: Int32,
    _ sentence: String,
    _ more: @escaping @Sendable (Folder) -> [String]
  ) -> BadInput {
    BadInput(name, status, sentence) { folder in
      let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
      return ["run", "--store", folder.file("s.sqlite"), "--faux", script, "Hi"] + more(folder)
    }
  }

  static func model(
    _ name: String,
    _ status: Int32,
    _ sentence: String,
    _ error: String
  ) -> BadInput {
    BadInput(name, status, sentence) { folder in
      [
        "run", "--store", folder.file("s.sqlite"), "--max-retries", "0", "--faux",
        Fixtures.script(error, in: folder), "Hi",
      ]
    }
  }

  static func plugin(
    _ name: String,
    _ number: Int,
    _ sentence: String,
    _ more: [String] = []
  ) -> BadInput {
    run(name, 5, sentence) { folder in
      [
        "--plugin",
        Fixtures.compile(
          "Tests/Fixtures/Acceptance/refused.c",
          as: "p.so",
          in: folder,
          ["-DCASE=\(number)"]
        ),
      ] + more
    }
  }

  static let usage: [BadInput] = [
    BadInput("an unknown verb", 2, "did you mean 'resume'?") { _ in ["resmue"] },
    BadInput("a host without a model", 3, "no model is chosen") { folder in
      ["serve", "--store", folder.file("none.sqlite")]
    },
    BadInput("a host of nothing", 2, "a store in memory cannot be served") { _ in
      ["serve", "--store", ":memory:"]
    },
    BadInput("a host that asks", 2, "--approvals cannot be 'ask'") { _ in
      ["serve", "--store", "s.sqlite", "--approvals", "ask"]
    },
    BadInput("half a verb", 2, "there is no verb 'plugin audit'") { _ in ["plugin", "audit", "x"] },
    BadInput("a group of verbs", 2, "write 'perdure plugin install'") { _ in ["plugin"] },
    BadInput("an option where a value belongs", 2, "--max-retries needs a value; write") { _ in
      ["run", "--max-retries", "--faux", "x.json", "hi"]
    },
    run("a key variable with a space", 2, "--api-key-env cannot be 'a b'") { _ in
      ["--api-key-env", "a b"]
    },
    run("an unknown option", 2, "did you mean --plugin?") { _ in ["--plugn", "x"] },
    run("an option without its value", 2, "--cwd needs a value") { _ in ["--cwd"] },
    run("a value that is no choice", 2, "did you mean 'in-process'?") { _ in
      ["--isolation", "inprocess"]
    },
    run("an option twice", 2, "--store is given twice") { ["--store", $0.file("t")] },
    run("a conversation that is no number", 2, "give the number of a conversation, or 'new'") { _ in
      ["--conversation", "second"]
    },
    run("two prompts", 2, "put the whole prompt in quotes") { _ in ["there"] },
    BadInput("an empty prompt", 2, "the prompt is empty") { folder in
      let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
      return ["run", "--store", folder.file("s"), "--faux", script, " "]
    },
    run("a model without provider", 2, "write PROVIDER/ID") { _ in ["--model", "gpt"] },
    run("faux and a server", 2, "exclude each other") { _ in ["--base-url", "http://x"] },
  ]

  static let configuration: [BadInput] = [
    BadInput("no model", 3, "no model is chosen") { ["run", "--store", $0.file("s"), "Hi"] },
    BadInput("an unknown provider", 3, "name an OpenAI-compatible one with --base-url") {
      ["run", "--store", $0.file("s"), "--model", "acme/m", "Hi"]
    },
    BadInput("no base URL", 3, "nonsense") {
      ["run", "--store", $0.file("s"), "--model", "a/m", "--base-url", "nonsense", "Hi"]
    },
    run("a missing working folder", 3, "does not exist") { ["--cwd", $0.file("nowhere")] },
    run("a file as working folder", 3, "/dev/null is no folder") { _ in
      ["--cwd", "/dev/null"]
    },
    BadInput("a log of a folder that is none", 3, "there is no store at") {
      ["log", "--store", $0.file("none/")]
    },
    BadInput("a folder of other files as store", 3, "holds other files and no store") { folder in
      let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
      return ["run", "--store", folder.path, "--faux", script, "Hi"]
    },
    BadInput("a file named as a folder", 3, "is a file, not the folder of a JSONL store") {
      folder in
      let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
      return ["run", "--store", script + "/", "--faux", script, "Hi"]
    },
    BadInput("a store in a missing folder", 3, "the folder of the store") { folder in
      let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
      return ["run", "--store", folder.file("no/s.sqlite"), "--faux", script, "Hi"]
    },
    BadInput("a store that is no database", 3, "is not a store") { folder in
      let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
      let store = folder.write(String(repeating: "junk ", count: 1_000), to: "junk")
      return ["run", "--store", store, "--faux", script, "Hi"]
    },
    BadInput("a log without a store", 3, "there is no store at") {
      ["log", "--store", $0.file("none.sqlite")]
    },
    BadInput("a log without the user's own store", 3, "run something first, or give --store") { _ in
      ["log"]
    },
    BadInput("a missing script", 3, "No such file or directory") {
      ["run", "--store", $0.file("s"), "--faux", $0.file("none.json"), "Hi"]
    },
    BadInput("a script with an error", 3, "bad.json, line 2: expected a string") { folder in
      let script = folder.write("{\"turns\": [\n{\"steps\": [{\"text\": 7}]}]}", to: "bad.json")
      return ["run", "--store", folder.file("s"), "--faux", script, "Hi"]
    },
  ]

  static let plugins: [BadInput] = [
    run("a plugin that is missing", 5, "none.so") { ["--plugin", $0.file("none.so")] },
    run("a plugin that is no ELF file", 5, "is not an ELF file") { folder in
      ["--plugin", folder.write("hello", to: "p.so")]
    },
    run("a plugin for another machine", 5, "machine") { folder in
      // The machine stands in two bytes at 18; 183 is AArch64, 62 is x86-64.
      let original = Fixtures.compile("examples/plugin-c/wordcount.c", as: "o.so", in: folder)
      _ = original
      var bytes = folder.bytes(of: "o.so")
      bytes[18] = bytes[18] == 183 ? 62 : 183
      return ["--plugin", folder.write(bytes, to: "p.so")]
    },
    plugin("a plugin without entry", 1, "does not export perdure_plugin_1"),
    plugin("a plugin without note", 2, "has no note"),
    plugin("a plugin without manifest", 3, "has no manifest"),
    plugin("a manifest that is not JSON", 4, "is not JSON"),
    plugin("a manifest that breaks its schema", 5, "not a string at /id"),
    plugin("a plugin for ABI major 2", 6, "asks for ABI major 2"),
    plugin("a plugin that requires what is lacking", 7, "perdure.magic/1"),
    plugin("a plugin with two tools of one name", 8, "two tools named a"),
    plugin(
      "a plugin that must have a process of its own",
      9,
      "must run in a process of its own",
      ["--isolation", "in-process"]
    ),
    plugin("a schema with a keyword of another draft", 10, "'nullable'"),
    plugin("a schema with a word that is no type", 11, "has a tool a whose parameters"),
  ]

  static let models: [BadInput] = [
    model("401", 4, "valid key", #"{"error": {"status": 401, "message": "who are you"}}"#),
    model(
      "429",
      75,
      "gave no answer and the prompt is over",
      #"{"error": {"status": 429, "message": "slow down"}}"#
    ),
    model(
      "429 with a long wait",
      75,
      "the prompt is over (HTTP 429: slow down); give it again in 600 s",
      #"{"error": {"status": 429, "message": "slow down", "retryAfterMs": 600000}}"#
    ),
    model(
      "a spent quota",
      6,
      "quota",
      #"{"error": {"status": 429, "message": "pay", "code": "insufficient_quota"}}"#
    ),
    model("500", 75, "gave no answer", #"{"error": {"status": 500, "message": "oops"}}"#),
    model(
      "500 with a page",
      75,
      "gave no answer",
      #"{"error": {"status": 502, "body": "<html><title>Bad gateway</title></html>"}}"#
    ),
    model("a broken stream", 75, "the stream ended early", #"{"text": "Hel"}, {"truncate": true}"#),
    model("400", 1, "no such model", #"{"error": {"status": 400, "message": "no such model"}}"#),
    model(
      "a context that is too long",
      1,
      "too long",
      #"{"error": {"status": 400, "message": "maximum context length is 10 tokens"}}"#
    ),
  ]
}

/// The table of exit statuses, row by row.
@Suite struct ExitStatusTests {
  @Test(arguments: BadInput.usage + BadInput.configuration)
  func `a mistake has its status and its sentence`(_ row: BadInput) {
    check(row)
  }

  @Test(arguments: BadInput.plugins)
  func `a refused plugin has its status and its sentence`(_ row: BadInput) {
    check(row)
  }

  @Test(arguments: BadInput.models)
  func `a failed request has its status and its sentence`(_ row: BadInput) {
    check(row)
  }

  // Number 9 is refused only in the process of the host.
  @Test(arguments: (1...11).filter { $0 != 9 })
  func `what run refuses is refused by inspection too`(_ number: Int) {
    let folder = Folder()
    let plugin = Fixtures.compile(
      "Tests/Fixtures/Acceptance/refused.c",
      as: "p.so",
      in: folder,
      ["-DCASE=\(number)"]
    )
    let result = Program.run(["plugin", "inspect", plugin], in: folder)
    #expect(result.status == 5)
    #expect(result.output == "")
  }

  private func check(_ row: BadInput) {
    let folder = Folder()
    let result = Program.run(row.arguments(folder), in: folder)
    #expect(result.status == row.status)
    #expect(result.error.contains(row.sentence))
    #expect(result.error.hasPrefix("perdure: "))
    #expect(result.error.split(separator: "\n").count == 1)
    #expect(result.output == "")
  }

  @Test(arguments: BadInput.plugins.prefix(2) + BadInput.models.prefix(2))
  func `with --json the result line holds the error`(_ row: BadInput) {
    let folder = Folder()
    let result = Program.run(row.arguments(folder) + ["--json"], in: folder)
    #expect(result.status == row.status)
    #expect(result.events.first?["type"] == "header")
    #expect(result.events.last?["type"] == "result")
    #expect(result.events.last?["exit"]?.int == Int64(row.status))
    #expect(result.events.last?["error"]?["message"]?.text?.isEmpty == false)
    #expect((try? JSON(parsing: result.error))?["code"] == result.events.last?["error"]?["code"])
  }

  @Test func `programs can tell a provider that failed from a busy conversation`() {
    let folder = Folder()
    let row = BadInput.models.first { $0.name == "500" }
    let result = Program.run((row?.arguments(folder) ?? []) + ["--json"], in: folder)
    #expect(result.status == 75)
    #expect(result.events.last?["error"]?["code"] == "provider_unavailable")
  }

  @Test(arguments: [
    ["--help"], ["help"], ["run", "--help"], ["plugin", "inspect", "-h"], ["help", "log"],
    ["version"], ["--version"], ["plugin", "--help"],
  ])
  func `help and version succeed`(_ arguments: [String]) {
    let result = Program.run(arguments, in: Folder())
    #expect(result.status == 0)
    #expect(!result.output.isEmpty)
    #expect(result.error == "")
  }

  @Test func `the help of resume has none of the defaults of run`() {
    let help = Program.run(["resume", "--help"], in: Folder()).output
    for word in [":memory:", "default: auto", "default: full", "default: 3", "OPENAI_API_KEY"] {
      #expect(!help.contains(word))
    }
  }

  @Test(arguments: ["run", "resume", "log"])
  func `the help names the folder of the user's own store`(_ verb: String) {
    #expect(Program.run([verb, "--help"], in: Folder()).output.contains("~/.local/share"))
  }

  @Test func `with standard output closed no file of the store gets the answer`() {
    let folder = Folder()
    let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
    let result = Program.runTool(
      [
        "sh", "-c", #""$0" run --store "$1" --faux "$2" Hi >&-"#,
        Program.products + "/perdure", folder.file("s.sqlite"), script,
      ],
      in: folder
    )
    #expect(result.status == 0)
    #expect(!folder.read("s.sqlite.lock").contains("Hello."))
  }

  @Test func `a store that cannot grow is refused and can be opened again`() {
    let folder = Folder()
    let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
    let run = ["run", "--store", folder.file("s.sqlite"), "--faux", script, "Hi"]
    let result = Program.runTool(
      ["sh", "-c", #"ulimit -f 8; exec "$0" "$@""#, Program.products + "/perdure"] + run,
      in: folder
    )
    #expect(result.status == 3)
    #expect(result.error.contains("cannot grow"))
    #expect(Program.run(run, in: folder).output == "Hello.\n")
  }

  @Test func `a full disk behind standard output is no success`() {
    let folder = Folder()
    let result = Program.runTool(
      ["sh", "-c", #""$0" version > /dev/full"#, Program.products + "/perdure"],
      in: folder
    )
    #expect(result.status == 1)
    #expect(result.error.contains("No space left on device"))
  }
}
