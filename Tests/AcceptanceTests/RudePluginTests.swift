import PerdureValue
import Testing

/// Plugins that are rude to the process that they run in.
@Suite struct RudePluginTests {
  private static let script =
    #"{"turns": [{"steps": [{"toolCall": {"id": "c", "name": "act"}}]},"#
    + #" {"steps": [{"text": "It says: "}, {"toolResult": "c"}]}]}"#

  private let folder = Folder()

  private func plugin(_ flags: [String], as name: String = "rude.so") -> String {
    Fixtures.compile("Tests/Fixtures/Acceptance/rude.c", as: name, in: folder, flags)
  }

  private func run(_ flags: [String], _ more: [String] = []) -> Program.Finished {
    let arguments = [
      "run", "--store", folder.file("s.sqlite"), "--plugin", plugin(flags), "--faux",
      folder.write(Self.script, to: "script.json"), "Act",
    ]
    return Program.run(arguments + more, in: folder)
  }

  @Test(arguments: ["RUDE", "EARLY"])
  func `what a plugin prints is no answer`(when: String) {
    let result = run([#"-D\#(when)=puts("noise"); fflush(stdout)"#])
    #expect(result.status == 0)
    #expect(result.output == "It says: done\n")
    #expect(result.error.contains("noise"))
  }

  @Test func `what a plugin prints is no event`() {
    let result = run([#"-DRUDE=puts("noise"); fflush(stdout)"#], ["--json"])
    #expect(result.events.first?["type"] == "header")
    #expect(result.events.last?["type"] == "result")
    #expect(!result.output.contains("noise"))
  }

  @Test func `a plugin that exits the process is no success`() {
    let result = run(["-DRUDE=exit(0)"])
    #expect(result.status == 1)
    #expect(result.output == "")
    #expect(result.error.contains("a plugin ended the process"))
    #expect(result.error.split(separator: "\n").count == 1)
    let resumed = Program.run(["resume", "--store", folder.file("s.sqlite")], in: folder)
    #expect(resumed.status == 0)
    #expect(resumed.output.contains("interrupted"))
  }

  @Test func `with --json the result line tells of a plugin that exits`() {
    let result = run(["-DRUDE=exit(0)"], ["--json"])
    #expect(result.events.last?["type"] == "result")
    #expect(result.events.last?["exit"]?.int == 1)
    #expect(result.events.last?["error"]?["code"] == "plugin_fault")
  }

  @Test(arguments: ["abort()", "*(volatile int *)8 = 1"])
  func `a crash names the plugin and the tool`(crash: String) {
    let result = run(["-DRUDE=\(crash)"])
    #expect(result.status > 128)
    #expect(result.error.contains("perdure: plugin test.rude crashed the process in tool:act"))
    let resumed = Program.run(["resume", "--store", folder.file("s.sqlite")], in: folder)
    #expect(resumed.output.contains("interrupted"))
  }

  @Test func `a tool that ignores its deadline is given up in time`() {
    let result = run(["-DRUDE=for (volatile int on = 1; on;) {}"])
    #expect(result.status == 0)
    #expect(result.output.contains("did not end in time"))
    let log = Program.run(["log", "--json", "--store", folder.file("s.sqlite")], in: folder)
    #expect(log.output.contains(#""interrupted""#))
  }

  @Test func `two plugins with one tool name are refused`() {
    let files = [plugin([#"-DID="test.a""#], as: "a.so"), plugin([#"-DID="test.b""#], as: "b.so")]
    let result = runBoth(files)
    #expect(result.status == 5)
    #expect(result.error.contains("test.a and test.b both have a tool named act"))
    #expect(!folder.has("s.sqlite"))
  }

  @Test func `a tool that says so replaces another plugin's`() {
    let files = [
      plugin([#"-DID="test.a""#], as: "a.so"),
      plugin([#"-DID="test.b""#, #"-DMORE="\"overrides\": true,""#], as: "b.so"),
    ]
    #expect(runBoth(files).status == 0)
  }

  private func runBoth(_ files: [String]) -> Program.Finished {
    Program.run(
      [
        "run", "--store", folder.file("s.sqlite"), "--plugin", files[0], "--plugin", files[1],
        "--faux", Fixtures.script(#"{"text": "Hello."}"#, in: folder), "Hi",
      ],
      in: folder
    )
  }
}
