import Glibc
import PerdureValue
import Testing

/// `perdure plugin dev`: at each change a plugin is built, checked, reloaded and replayed.
@Suite struct PluginDevTests {
  private let folder = Folder()
  private var path: String { folder.file("hello") }

  init() {
    let result = Program.runTool(
      [
        "env", "-C", folder.path, Program.products + "/perdure", "plugin", "new", "hello", "--lang",
        "c",
      ],
      in: folder
    )
    precondition(result.status == 0, result.error)
  }

  private func once(_ more: String...) -> Program.Finished {
    Program.run(["plugin", "dev", path, "--once"] + more, in: folder)
  }

  private func change(_ file: String, _ old: String, _ new: String) {
    let text = folder.read("hello/" + file)
    precondition(text.contains(old))
    folder.write(text.replacing(old, with: new), to: "hello/" + file)
  }

  @Test func `one cycle builds, checks, loads and replays`() {
    let result = once()
    #expect(result.status == 0, "\(result.error)")
    let lines = result.output.split(separator: "\n").map(String.init)
    #expect(lines.first == "built")
    #expect(lines.dropFirst().first?.hasSuffix("tests, 0 failed") == true)
    #expect(
      Array(lines.dropFirst(2)) == [
        "loaded local.hello 0.1.0", "  + tool hello", "hello.faux.json: as expected",
      ]
    )
  }

  @Test func `a build that fails is exit 1 and shows what the compiler said`() {
    change("hello.c", "char name[256];", "char name[256]")
    let result = once()
    #expect(result.status == 1)
    #expect(result.output.hasPrefix("the build failed with 1\n"))
    #expect(result.output.contains("hello.c:"))
  }

  @Test func `a plugin that fails the check is exit 5`() {
    change("hello.json", #""runtime": "c""#, #""runtime": "rust""#)
    let result = once()
    #expect(result.status == 5)
    #expect(result.output.contains("c in its note and rust in its manifest"), "\(result.output)")
  }

  @Test func `another transcript is exit 1`() {
    change("hello.c", "Hello, %s!", "Good day, %s!")
    let result = once()
    #expect(result.status == 1)
    #expect(result.output.contains("hello.faux.json: not as in hello.expected.txt\n"))
    #expect(result.output.contains("  - Hello, Ada!\n  + Good day, Ada!\n"))
    #expect(result.output.hasSuffix("accept it: perdure plugin dev \(path) --once --update\n"))
    #expect(once("--update").status == 0)
    #expect(once().output.hasSuffix("hello.faux.json: as expected\n"))
  }

  @Test func `events for programs begin with a header and end with a result`() {
    let events = once("--json").events
    #expect(
      events.map { $0["type"] } == ["header", "build", "check", "loaded", "replay", "result"]
    )
    #expect(events.dropFirst(3).first?["added"] == ["tool hello"])
    #expect(events.dropFirst(4).first?["expected"] == true)
    #expect(events.last?["exit"] == 0)
  }

  @Test func `a folder without a build is named`() {
    let result = Program.run(["plugin", "dev", folder.path], in: folder)
    #expect(result.status == 3)
    #expect(result.error.contains("there is no program 'build' in \(folder.path)"))
  }

  @Test func `a build that makes nothing is named`() {
    folder.write("#!/bin/sh\n", to: "hello/build")
    let result = once()
    #expect(result.status == 1)
    #expect(result.output.contains("the build made no .so in the folder that it was given"))
  }

  @Test func `a build is over although something that it began goes on`() {
    change("build", "set -eu", "set -eu\nsleep 600 &\necho $! > \"$(dirname \"$0\")/.pid\"")
    let result = once()
    #expect(result.status == 0)
    let pid = folder.read("hello/.pid").split(separator: "\n").first.flatMap { pid_t(String($0)) }
    #expect(pid.map { kill($0, SIGKILL) } == 0)
  }

  // MARK: Changes

  /// Reads until the host watches again; the lines before that.
  private func cycle(_ output: Journal) -> [String] {
    var lines: [String] = []
    while let line = output.line() {
      if line.hasPrefix("watching ") { return lines }
      if !line.isEmpty { lines.append(line) }
    }
    Issue.record("the host ended after \(lines)")
    return lines
  }

  @Test func `each change is built, reloaded and told as a difference`() {
    let output = Journal(in: folder, named: "dev")
    let host = Program.start(["plugin", "dev", path], in: folder, output: output)
    #expect(cycle(output).last == "hello.faux.json: as expected")

    change("hello.c", "Hello, %s!", "Good day, %s!")
    var lines = cycle(output)
    #expect(lines.contains("reloaded local.hello 0.1.0; it registers what it did"))
    #expect(lines.contains("  - Hello, Ada!") && lines.contains("  + Good day, Ada!"))

    change(
      "hello.json",
      #""description": "Greets somebody.""#,
      #""description": "Greets anybody.""#
    )
    lines = cycle(output)
    #expect(lines.contains("  ~ tool hello: description"))
    #expect(lines.contains("hello.faux.json: not as in hello.expected.txt"))

    change("hello.c", "char name[256];", "char name[256]")
    lines = cycle(output)
    #expect(lines.first == "the build failed with 1; what runs stays as it is")

    change("hello.c", "char name[256]", "char name[256];")
    change("hello.c", "Good day, %s!", "Hello, %s!")
    lines = cycle(output)
    // Two changes may be two cycles.
    if !lines.contains("hello.faux.json: as expected") { lines = cycle(output) }
    #expect(lines.contains("hello.faux.json: as expected"))

    host.signal(SIGINT)
    #expect(host.wait().status == 130)
  }

  @Test func `a build that writes into its folder is not begun again and again`() {
    change("build", "set -eu", "set -eu\ndate +%N > \"$(dirname \"$0\")/stamp.txt\"")
    let output = Journal(in: folder, named: "dev")
    let host = Program.start(["plugin", "dev", path], in: folder, output: output)
    // The first build made a file that was not there, so there is another one.
    #expect(cycle(output).last == "hello.faux.json: as expected")
    change("hello.c", "Hello, %s!", "Good day, %s!")
    let lines = cycle(output)
    #expect(lines.contains("hello.faux.json: not as in hello.expected.txt"), "\(lines)")
    host.signal(SIGINT)
    #expect(host.wait().status == 130)
  }

  @Test func `others can give prompts to what runs`() {
    let output = Journal(in: folder, named: "dev")
    let store = folder.file("dev.sqlite")
    let host = Program.start(["plugin", "dev", path, "--store", store], in: folder, output: output)
    _ = cycle(output)
    let asked = Program.run(["run", "--store", store, "Greet."], in: folder)
    #expect(asked.output == "It says: Hello, Ada!\n", "\(asked.error)")
    host.signal(SIGINT)
    #expect(host.wait().status == 130)
  }

  @Test func `nothing is left behind`() {
    let temporary = Folder()
    let result = Program.run(
      ["plugin", "dev", path, "--once"],
      in: folder,
      environment: ["TMPDIR": temporary.path]
    )
    #expect(result.status == 0)
    let left = Program.runTool(["ls", "-A", temporary.path], in: folder)
    #expect(left.output == "")
    #expect(!folder.has("hello/hello.so"))
  }

  @Test(arguments: [(["--once"], SIGTERM, 143), ([], SIGINT, 130)])
  func `a signal during a build ends it with all that it started`(
    more: [String],
    signal: Int32,
    status: Int
  ) throws {
    let path = folder.file("building")
    try #require(unsafe mkfifo(path, 0o600) == 0)
    folder.write(
      "#!/bin/sh\nexec 3> '\(path)'\necho begun >&3\nsleep 1000; true\n",
      to: "hello/build"
    )
    let dev = Program.start(["plugin", "dev", self.path] + more, in: folder)
    // What the build started has the other end until it is gone.
    let alive = unsafe open(path, O_RDONLY)
    defer { close(alive) }
    var bytes = [UInt8](repeating: 0, count: 64)
    #expect(unsafe read(alive, &bytes, bytes.count) == 6)
    dev.signal(signal)
    #expect(Int(dev.wait().status) == status)
    #expect(unsafe read(alive, &bytes, bytes.count) == 0)
  }
}
