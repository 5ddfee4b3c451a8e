import Foundation
import PerdureValue
import Testing

/// What `--cwd` gives to the model without commands.
@Suite struct WorkingFolderTests {
  private let folder = Folder()

  /// Runs a prompt that the model answers with calls, and then with the results.
  private func run(_ calls: String, _ options: String...) -> Program.Finished {
    let script = folder.file("script.json")
    let text = #"{"turns": [{"steps": [\#(calls)]}, {"steps": [{"text": "done"}]}]}"#
    try? text.write(toFile: script, atomically: true, encoding: .utf8)
    let work = folder.file("work")
    try? FileManager.default.createDirectory(atPath: work, withIntermediateDirectories: true)
    try? "secret".write(toFile: folder.file("secret"), atomically: true, encoding: .utf8)
    return Program.run(
      [
        "run", "--json", "--store", folder.file("s.sqlite"), "--no-plugins", "--faux", script,
        "--cwd", work, "--sandbox", "files",
      ] + options + ["Go"],
      in: folder
    )
  }

  private static func call(_ tool: String, _ arguments: String) -> String {
    #"{"toolCall": {"id": "c1", "name": "\#(tool)", "arguments": \#(arguments)}}"#
  }

  private func result(_ run: Program.Finished) -> String {
    let entry = run.events.last { $0["kind"] == "pi.tool-result" }
    return entry?["model"]?.compactText ?? ""
  }

  @Test func `the header says what tools may reach`() {
    let header = run(#"{"text": "Hello."}"#).events.first
    let environment = header?["environment"]
    #expect(environment?["tier"] == "directory")
    #expect(environment?["sandbox"] == "files")
    #expect(environment?["folder"]?.text == folder.file("work"))
    #expect(environment?["files"] == "tools reach the files of one folder and nothing outside it")
    #expect(environment?["commands"] == "none are run")
  }

  @Test func `a model works on the files of the folder`() throws {
    let call = Self.call("write", #"{"path": "src/a.txt", "content": "hello\n"}"#)
    let finished = run(call)
    #expect(finished.status == 0, "\(finished.output)")
    #expect(result(finished).contains("Wrote 6 bytes to /src/a.txt"))
    let written = try String(contentsOfFile: folder.file("work/src/a.txt"), encoding: .utf8)
    #expect(written == "hello\n")
  }

  @Test(arguments: ["../secret", "/secret", "link"])
  func `a model reaches nothing outside`(path: String) throws {
    try FileManager.default.createDirectory(
      atPath: folder.file("work"),
      withIntermediateDirectories: true
    )
    try FileManager.default.createSymbolicLink(
      atPath: folder.file("work/link"),
      withDestinationPath: "../secret"
    )
    let finished = run(Self.call("read", #"{"path": "\#(path)"}"#))
    #expect(!result(finished).isEmpty)
    #expect(!finished.events.contains { $0.compactText.contains("\"secret\"") })
    #expect(result(finished).contains("tool_error") || result(finished).contains("[error]"))
  }

  @Test func `no commands are offered`() {
    let finished = run(Self.call("bash", #"{"command": "id"}"#))
    #expect(result(finished).contains("bash"))
    #expect(!result(finished).contains("uid="))
  }

  @Test func `a call that needs an approval waits for it`() {
    let call = Self.call("write", #"{"path": "a", "content": ""}"#)
    let finished = run(call, "--require-approval", "write", "--approvals", "deny")
    #expect(finished.status == 7)
    #expect(!folder.has("work/a"))
  }

  @Test func `another folder is confined as if nothing had been recorded`() throws {
    let (work, other) = (folder.file("work"), folder.file("other"))
    for path in [work, other] {
      try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }
    let call = Self.call("write", #"{"path": "a", "content": ""}"#)
    folder.write(#"{"turns": [{"steps": [\#(call)]}]}"#, to: "script.json")
    let waits = Program.run(
      [
        "run", "--store", folder.file("s.sqlite"), "--no-plugins", "--faux",
        folder.file("script.json"), "--cwd", work, "--sandbox", "none", "--require-approval",
        "write", "--approvals", "wait", "Go",
      ],
      in: folder
    )
    #expect(waits.status == 7, "\(waits.error)")
    func header(_ options: [String]) -> JSON? {
      Program.run(
        ["resume", "--json", "--approvals", "wait", "--store", folder.file("s.sqlite")] + options,
        in: folder
      )
      .events.first?["environment"]
    }
    #expect(header([])?["sandbox"] == "none")
    #expect(header(["--cwd", work])?["sandbox"] == "none")
    #expect(header(["--cwd", other])?["sandbox"] != "none")
  }

  @Test func `commands that nothing confines get no variable that holds a secret`() throws {
    let script = folder.file("script.json")
    let call = Self.call("bash", #"{"command": "echo [$MINE] [$HUSH]"}"#)
    folder.write(
      #"{"turns": [{"steps": [\#(call)]}, {"steps": [{"text": "."}]}]}"#,
      to: "script.json"
    )
    let work = folder.file("work")
    try FileManager.default.createDirectory(atPath: work, withIntermediateDirectories: true)
    let finished = Program.run(
      [
        "run", "--json", "--store", ":memory:", "--no-plugins", "--faux", script, "--cwd", work,
        "--sandbox", "none", "--secret", "a.b:TOKEN=HUSH", "Go",
      ],
      in: folder,
      environment: ["MINE": "shown", "HUSH": "quiet"]
    )
    #expect(result(finished).contains("[shown] []"), "\(finished.output)\(finished.error)")
  }

  @Test func `a host that may not have its store there leaves none`() throws {
    let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
    let work = folder.file("work")
    try FileManager.default.createDirectory(atPath: work, withIntermediateDirectories: true)
    let refused = Program.run(
      [
        "serve", "--store", folder.file("work/s.sqlite"), "--faux", script, "--cwd", work,
        "--sandbox", "files",
      ],
      in: folder
    )
    #expect(refused.status == 3)
    #expect(refused.error.contains("lies where the model may write"))
    #expect(!folder.has("work/s.sqlite"))
  }
}
