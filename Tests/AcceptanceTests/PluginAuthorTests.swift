import Glibc
import PerdureValue
import Testing

/// The way of an author with nothing but the program: `plugin new`, the build, `plugin check` and
/// `plugin test`.
@Suite struct PluginAuthorTests {
  private let folder = Folder()

  private func perdure(_ words: String...) -> Program.Finished { Program.run(words, in: folder) }

  /// Writes a plugin named `hello` and returns its folder.
  private func new(_ language: String = "c", kinds: String = "tool") -> String {
    let path = folder.file("hello")
    let result = Program.runTool(
      [
        "env", "-C", folder.path, Program.products + "/perdure", "plugin", "new", "hello", "--lang",
        language, "--kinds", kinds,
      ],
      in: folder
    )
    #expect(result.status == 0, "\(result.error)")
    return path
  }

  private func build(_ path: String) -> Program.Finished {
    Program.runTool([path + "/build"], in: folder)
  }

  struct Written: Sendable, CustomTestStringConvertible {
    var language: String
    var kinds: String
    var testDescription: String { "\(language), \(kinds)" }
  }

  static let written: [Written] =
    ["c", "cpp", "rust"].flatMap { language in
      ["tool", "all"].map { Written(language: language, kinds: $0) }
    } + ["section", "guard", "wrap", "task"].map { Written(language: "c", kinds: $0) }

  @Test(arguments: written)
  func `a new plugin builds, passes the check and answers its script as it is`(
    written: Written
  ) throws {
    let path = new(written.language, kinds: written.kinds)
    let built = build(path)
    #expect(built.status == 0, "\(built.error)")
    #expect(built.error == "")
    let checked = perdure("plugin", "check", path + "/hello.so", "--only-failed")
    #expect(checked.status == 0, "\(checked.output)")
    let tested = perdure("plugin", "test", path)
    #expect(tested.status == 0, "\(tested.output)\(tested.error)")
    #expect(tested.output == "ok      hello.faux.json\nlocal.hello 0.1.0: 1 script, 0 failed\n")
  }

  @Test func `a transcript has the results of a round in the order of its calls`() {
    let path = new()
    #expect(build(path).status == 0)
    let names = ["Ada", "Bob", "Cem", "Dai", "Eva", "Fay"]
    let calls = names.map {
      #"{"toolCall": {"id": "\#($0)", "name": "hello", "arguments": {"name": "\#($0)"}}}"#
    }
    folder.write(
      #"{"prompt": "Hello.", "turns": [{"steps": [\#(calls.joined(separator: ","))]},"#
        + #" {"steps": [{"text": "Done."}]}]}"#,
      to: "hello/hello.faux.json"
    )
    #expect(perdure("plugin", "test", path, "--update").status == 0)
    let results = folder.read("hello/hello.expected.txt").split(separator: "\n")
      .filter { $0.hasPrefix("Hello, ") }
    #expect(results == names.map { "Hello, \($0)!" })
  }

  @Test(arguments: [
    ("c", ["Sources/CPerdureABI/include/perdure.h", "Sources/CPerdureABI/include/perdure_easy.h"]),
    (
      "cpp",
      ["perdure.h", "perdure.hpp", "perdure.map"].map { "Sources/CPerdureABI/include/\($0)" }
    ),
    ("rust", ["sdk/rust/perdure.rs"]),
  ])
  func `the kit of a new plugin is that of the sources`(language: String, sources: [String]) {
    let path = new(language)
    for source in sources {
      let name = source.split(separator: "/").last.map(String.init) ?? ""
      let copied = Folder.bytes(at: "\(path)/perdure/\(name)")
      #expect(!copied.isEmpty)
      #expect(copied == Folder.bytes(at: "\(Fixtures.root)/\(source)"), "\(name)")
    }
  }

  @Test func `the kit of a new plugin in Swift has all sources of the kit`() {
    let path = new("swift")
    func digests(_ path: String) -> Program.Finished {
      let script = #"""
        cd "$1"
        find PerdureValue PerdurePluginKit -type f | LC_ALL=C sort | xargs sha256sum
        """#
      return Program.runTool(["sh", "-c", script, "sh", path], in: folder)
    }
    let copied = digests(path + "/perdure")
    let sources = digests(Fixtures.root + "/Sources")
    #expect(copied.status == 0)
    #expect(copied.output.split(separator: "\n").count > 40)
    #expect(copied.output == sources.output)
    for (file, source) in [
      ("build", "sdk/swift/build"), ("entry.c", "sdk/swift/entry.c"),
      ("perdure.h", "Sources/CPerdureABI/include/perdure.h"),
      ("perdure.map", "Sources/CPerdureABI/include/perdure.map"),
    ] {
      #expect(
        Folder.bytes(at: "\(path)/perdure/\(file)")
          == Folder.bytes(at: "\(Fixtures.root)/\(source)")
      )
    }
  }

  @Test(arguments: [
    (["Hello", "--lang", "c"], "a plugin cannot be named 'Hello'"),
    (["../hello", "--lang", "c"], "a plugin cannot be named '../hello'"),
    (["hello--x", "--lang", "c"], "a plugin cannot be named 'hello--x'"),
    (["hello"], "plugin new needs --lang; write --lang and one of c, cpp, rust, swift, zig"),
    (["hello", "--lang", "swft"], "plugin new writes no plugins in 'swft'"),
    (["hello", "--lang", "fortran"], "plugin new writes no plugins in 'fortran'"),
    (["hello", "--lang", "c", "--kinds", "hook"], "--kinds cannot have 'hook'"),
    (["hello", "--lang", "c", "--id", "pi.hello"], "--id cannot be 'pi.hello'"),
  ])
  func `what no plugin can be made of is refused`(words: [String], sentence: String) {
    let result = Program.run(["plugin", "new"] + words, in: folder)
    #expect(result.status == 2)
    #expect(result.error.hasPrefix("perdure: \(sentence)"), "\(result.error)")
    #expect(result.error.split(separator: "\n").count == 1)
  }

  @Test func `a folder that is there is left alone`() {
    let path = new()
    let before = folder.read("hello/hello.c")
    let result = Program.runTool(
      [
        "env", "-C", folder.path, Program.products + "/perdure", "plugin", "new", "hello", "--lang",
        "rust",
      ],
      in: folder
    )
    #expect(result.status == 3)
    #expect(result.error == "perdure: \(path) exists already; choose another name, or remove it\n")
    #expect(folder.read("hello/hello.c") == before)
    #expect(!folder.has("hello/hello.rs"))
  }

  @Test func `what was written is one JSON object`() {
    let result = Program.runTool(
      [
        "env", "-C", folder.path, Program.products + "/perdure", "plugin", "new", "hello", "--lang",
        "c", "--kinds", "task,guard", "--id", "acme.hello", "--json",
      ],
      in: folder
    )
    let object = result.events.first
    #expect(result.events.count == 1)
    #expect(object?["id"] == "acme.hello")
    #expect(object?["language"] == "c")
    #expect(object?["kinds"] == ["guard", "task"])
    for file in object?["files"]?.array ?? [] { #expect(folder.has("hello/\(file.text ?? "")")) }
    #expect(folder.read("hello/hello.json").contains(#""id": "acme.hello""#))
  }

  // MARK: Tests of plugins

  @Test func `another answer is shown as a difference and is exit 1 until it is accepted`() {
    let path = new()
    #expect(build(path).status == 0)
    let expected = folder.read("hello/hello.expected.txt")
    folder.write(
      expected.replacing("Hello, Ada!", with: "Good day!"),
      to: "hello/hello.expected.txt"
    )
    let failed = perdure("plugin", "test", path)
    #expect(failed.status == 1)
    #expect(
      failed.output.hasPrefix("FAILED  hello.faux.json: it differs from hello.expected.txt\n")
    )
    #expect(failed.output.contains("        - Good day!\n        + Hello, Ada!\n"))
    #expect(
      failed.output.contains("1 script, 1 failed\nif that is right, accept it with --update\n")
    )
    let accepted = perdure("plugin", "test", path, "--update")
    #expect(accepted.status == 0)
    #expect(accepted.output.hasPrefix("updated hello.expected.txt\n"))
    #expect(folder.read("hello/hello.expected.txt") == expected)
  }

  @Test func `results are told as JUnit XML and as JSON`() {
    let path = new()
    #expect(build(path).status == 0)
    folder.write("[user]\nA & B < C\n", to: "hello/hello.expected.txt")
    let report = folder.file("report.xml")
    let result = perdure("plugin", "test", path, "--json", "--junit", report)
    #expect(result.status == 1)
    let object = result.events.first
    #expect(result.events.count == 1)
    #expect(object?["id"] == "local.hello")
    #expect(object?["tests"] == 1)
    #expect(object?["failed"] == 1)
    let first = object?["results"]?.array?.first
    #expect(first?["script"] == "hello.faux.json")
    #expect(first?["outcome"] == "failed")
    #expect(first?["diff"]?.array?.contains("- A & B < C") == true)
    let xml = folder.read("report.xml")
    #expect(xml.contains(#"<testsuite name="local.hello" tests="1" failures="1" errors="0""#))
    #expect(xml.contains("- A &amp; B &lt; C"))
    let python = "import sys, xml.dom.minidom as m; m.parse(sys.argv[1])"
    #expect(Program.runTool(["python3", "-c", python, report], in: folder).status == 0)
  }

  @Test func `a script without a transcript fails until one is accepted`() {
    let path = new()
    #expect(build(path).status == 0)
    folder.write(folder.read("hello/hello.faux.json"), to: "hello/more.faux.json")
    let failed = perdure("plugin", "test", path)
    #expect(failed.status == 1)
    #expect(failed.output.contains("FAILED  more.faux.json: there is no more.expected.txt\n"))
    #expect(perdure("plugin", "test", path, "--update").status == 0)
    #expect(folder.read("hello/more.expected.txt") == folder.read("hello/hello.expected.txt"))
    // Of a file only the scripts that are named like it are played.
    #expect(perdure("plugin", "test", path + "/hello.so").output.contains(": 1 script, 0 failed"))
    #expect(perdure("plugin", "test", path).output.contains(": 2 scripts, 0 failed"))
  }

  @Test func `ids, times and places do not get into a transcript`() {
    let source = folder.write(
      """
      #include "perdure_easy.h"
      #include <time.h>
      PDR_PLUGIN_NOTE("c");
      PDR_MANIFEST("{\\"manifest\\": 1, \\"id\\": \\"local.now\\", \\"version\\": \\"1.0.0\\","
        "\\"runtime\\": \\"c\\", \\"tools\\": [{\\"name\\": \\"now\\", \\"description\\": \\"Now.\\","
        "\\"parameters\\": {\\"type\\": \\"object\\"}}]}");
      static int32_t now(pdr_easy_call *call) {
        long long ms = (long long)time(0) * 1000;
        return pdr_easy_answer_json(call,
          "{\\"output\\": [{\\"type\\": \\"text\\", \\"text\\": \\"at %lld, 2026-11-30T14:00:05.5Z, in \(folder.path)/x,"
          " 0d6a5b0e-52a4-4d6e-9a0b-7f4f6c1d2e3f, 1234567890123456, 12\\"}],"
          " \\"details\\": {\\"task\\": %lld, \\"began\\": %lld, \\"n\\": 7}}", ms, ms % 100, ms);
      }
      PDR_EASY_PLUGIN({"now", now})
      """,
      to: "now.c"
    )
    let plugin = Fixtures.compile(source, as: "now.so", in: folder)
    folder.write(
      #"{"turns": [{"steps": [{"toolCall": {"id": "1", "name": "now"}}]}, {"steps": [{"text": "."}]}]}"#,
      to: "now.faux.json"
    )
    #expect(perdure("plugin", "test", plugin, "--update").status == 0)
    let transcript = folder.read("now.expected.txt")
    #expect(
      transcript.contains(
        """
        [tool now]
        at <time>, <time>, in <folder>/x, <uuid>, 1234567890123456, 12
        details: {"task":"<id>","began":"<time>","n":7}

        """
      ),
      "\(transcript)"
    )
    #expect(perdure("plugin", "test", plugin).status == 0)
  }

  @Test func `a plugin that crashes costs its call and the script goes on`() {
    let path = new()
    let source = folder.read("hello/hello.c")
    folder.write(
      source.replacing("char name[256];", with: "char name[256]; *(volatile int *)0 = 0;"),
      to: "hello/hello.c"
    )
    #expect(build(path).status == 0)
    let result = perdure("plugin", "test", path)
    #expect(result.status == 1)
    #expect(result.output.contains("- Hello, Ada!"))
    #expect(result.output.contains("local.hello 0.1.0: 1 script, 1 failed"))
  }

  @Test(arguments: ["", "/libraries.ffi.json"])
  func `a description of functions is tested like a plugin`(file: String) {
    let result = perdure("plugin", "test", Fixtures.root + "/examples/plugin-ffi" + file)
    #expect(result.status == 0, "\(result.output)")
    #expect(
      result.output == "ok      libraries.faux.json\nexample.libraries 1.0.0: 1 script, 0 failed\n"
    )
  }

  @Test(arguments: [("unwind", "the plugin panicked: no luck"), ("abort", "crashed (SIGABRT)")])
  func `a panic of a plugin in Rust costs its call only`(strategy: String, sentence: String) throws
  {
    let path = new("rust")
    let source = folder.read("hello/hello.rs")
    let changed = source.replacing(
      "    if name.is_empty()",
      with: "    if name == \"Ada\" {\n        panic!(\"no luck\");\n    }\n    if name.is_empty()"
    )
    #expect(changed != source)
    folder.write(changed, to: "hello/hello.rs")
    // A call that may be made again would be, until it is parked.
    let manifest = folder.read("hello/hello.json")
    folder.write(manifest.replacing(#""safe""#, with: #""unsafe""#), to: "hello/hello.json")
    let built = Program.runTool(["RUSTC=rustc -C panic=\(strategy)", path + "/build"], in: folder)
    #expect(built.status == 0, "\(built.error)")
    let result = Program.run(
      [
        "run", "--store", folder.file("s.sqlite"), "--plugin", path + "/hello.so", "--isolation",
        "runner", "--faux", path + "/hello.faux.json", "Greet Ada.",
      ],
      in: folder
    )
    #expect(result.status == 0)
    #expect(result.error.contains(sentence), "\(result.error)")
    // The call behind it is answered as if nothing had been.
    let log = Program.run(["log", "--store", folder.file("s.sqlite")], in: folder)
    #expect(log.output.contains("the name must have from 1 to 255 bytes"))
  }

  @Test func `a script that does not end is given up`() {
    let path = new()
    #expect(build(path).status == 0)
    folder.write(#"{"turns": [{"steps": [{"stall": true}]}]}"#, to: "hello/hello.faux.json")
    let result = perdure("plugin", "test", path, "--timeout", "1")
    #expect(result.status == 1)
    #expect(result.output.contains("+ there was no answer within 1 s"), "\(result.output)")
  }

  @Test func `what cannot be tested is named`() {
    let path = new()
    let unbuilt = perdure("plugin", "test", path)
    #expect(unbuilt.status == 3)
    #expect(
      unbuilt.error == "perdure: there is no plugin in \(path); build it with \(path)/build\n"
    )
    #expect(build(path).status == 0)
    let nowhere = perdure("plugin", "test", path, "--scripts", folder.path)
    #expect(nowhere.error.contains("there is no faux script in \(folder.path)"))
    folder.write("{", to: "hello/hello.faux.json")
    let broken = perdure("plugin", "test", path)
    #expect(broken.status == 3)
    #expect(broken.error.contains("hello.faux.json, line 1"))
    #expect(perdure("plugin", "test", "/nowhere.so").status == 5)
  }
}
