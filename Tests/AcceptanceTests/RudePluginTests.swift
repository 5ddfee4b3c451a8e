import Glibc
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

  @Test(arguments: ["exit(0)", "quick_exit(0)", "EARLY"])
  func `a plugin that exits the process is no success, is named, and is not run again`(
    exit: String
  ) {
    // Also a constructor is code of the plugin.
    let flag = exit == "EARLY" ? "-DEARLY=if (!getenv(\"KEEP\")) exit(0)" : "-DRUDE=\(exit)"
    let result = run([flag])
    #expect(result.status == 1)
    #expect(result.output == "")
    let place = exit == "EARLY" ? "load" : "tool:act"
    #expect(result.error.contains("plugin test.rude ended the process in \(place)"))
    #expect(result.error.split(separator: "\n").count == 1)
    guard exit != "EARLY" else { return }
    let resumed = Program.run(["resume", "--store", folder.file("s.sqlite")], in: folder)
    #expect(resumed.status == 0)
    #expect(resumed.output.contains("interrupted"))
    #expect(resumed.error.contains("safe mode: plugin test.rude is not run"))
    #expect(resumed.error.contains("in tool:act"))
  }

  @Test func `a thread of a plugin that exits the process is no success`() {
    let result = run(["-DRUDE=leave_elsewhere()"])
    #expect(result.status == 1)
    #expect(result.error.contains("a thread of a plugin ended the process"))
  }

  @Test func `with --json the result line tells of a plugin that exits`() {
    let result = run(["-DRUDE=exit(0)"], ["--json"])
    #expect(result.events.last?["type"] == "result")
    #expect(result.events.last?["exit"]?.int == 1)
    #expect(result.events.last?["error"]?["code"] == "plugin_fault")
  }

  @Test(arguments: ["abort()", "*(volatile int *)8 = 1", "__builtin_trap()"])
  func `a crash names the plugin and the tool`(crash: String) {
    let result = run(["-DRUDE=\(crash)"])
    #expect(result.status > 128)
    #expect(result.error.contains("perdure: plugin test.rude crashed the process in tool:act"))
    // No frames of this program behind it.
    #expect(result.error.hasSuffix("'perdure resume' goes on\n"))
    let resumed = Program.run(["resume", "--store", folder.file("s.sqlite")], in: folder)
    #expect(resumed.output.contains("interrupted"))
  }

  @Test func `after a crash the next start does not run the plugin and says so`() {
    _ = run(["-DRUDE=abort()"])
    let resumed = Program.run(["resume", "--store", folder.file("s.sqlite")], in: folder)
    #expect(resumed.error.contains("safe mode: plugin test.rude is not run"))
    #expect(resumed.error.contains("crashed an earlier process in tool:act"))
    #expect(resumed.output.contains("interrupted"))
  }

  @Test func `naming the plugin again ends safe mode`() {
    _ = run(["-DRUDE=abort()"])
    let again = Program.run(
      ["resume", "--store", folder.file("s.sqlite"), "--plugin", plugin([])],
      in: folder
    )
    #expect(again.status == 0)
    #expect(!again.error.contains("safe mode"))
  }

  @Test func `an overflow of the stack names the plugin`() {
    let result = run(["-DRUDE=volatile char *big = __builtin_alloca(64 << 20); *big = 1"])
    #expect(result.error.contains("perdure: plugin test.rude crashed the process in tool:act"))
  }

  // MARK: In a process of its own

  @Test(arguments: ["abort()", "*(volatile int *)8 = 1", "exit(0)", "_exit(0)"])
  func `in a process of its own an end costs the call only`(end: String) {
    let result = run(["-include", "unistd.h", "-DRUDE=\(end)"], ["--isolation", "runner"])
    #expect(result.status == 0)
    #expect(result.output.contains("It says: "))
    #expect(result.output.contains("interrupted"))
  }

  @Test func `in a process of its own a safe call is made again`() {
    let flag = folder.file("flag")
    let crash = #"if (access(FLAG, F_OK) != 0) { creat(FLAG, 0600); abort(); }"#
    let result = run(
      [
        "-include", "fcntl.h", "-include", "unistd.h", #"-DFLAG="\#(flag)""#, "-DRUDE=\(crash)",
        #"-DMORE="\"replay\": \"safe\", \"deadlineMs\": 60000,""#,
      ],
      ["--isolation", "runner"]
    )
    #expect(result.output == "It says: done\n")
    #expect(result.status == 0)
  }

  @Test func `the header says where a plugin runs`() {
    let result = run([], ["--isolation", "runner", "--json"])
    #expect(result.events.first?["plugins"]?.array?.first?["isolation"] == "runner")
    #expect(result.events.last?["type"] == "result")
  }

  @Test(.timeLimit(.minutes(5)))
  func `no process of a plugin outlives a host that is killed`() throws {
    let path = folder.file("alive")
    try #require(unsafe mkfifo(path, 0o600) == 0)
    let flags = [
      "-include", "fcntl.h", "-include", "unistd.h", #"-DFIFO="\#(path)""#,
      #"-DMORE="\"deadlineMs\": 60000,""#,
      #"-DRUDE=if (write(open(FIFO, O_WRONLY), "x", 1) == 1) pause()"#,
    ]
    let running = Program.start(
      [
        "run", "--store", folder.file("s.sqlite"), "--plugin", plugin(flags), "--faux",
        folder.write(Self.script, to: "script.json"), "--isolation", "runner", "Act",
      ],
      in: folder
    )
    // The plugin has the other end until it is gone.
    let alive = unsafe open(path, O_RDONLY)
    defer { close(alive) }
    var byte: UInt8 = 0
    #expect(unsafe read(alive, &byte, 1) == 1)
    running.signal(SIGKILL)
    #expect(running.wait().status == 128 + SIGKILL)
    #expect(unsafe read(alive, &byte, 1) == 0)
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
