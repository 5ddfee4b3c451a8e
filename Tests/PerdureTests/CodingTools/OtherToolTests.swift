import Foundation
import Perdure
import Testing

@Suite struct OtherToolTests {
  @Test func `a file is written with its folders`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    let answer = try await bench.call("write", ["path": "a/b", "content": "é\n"])
    #expect(answer.text == "Wrote 3 bytes to /a/b")
    #expect(try await bench.text("a/b") == "é\n")
  }

  @Test func `a folder is listed by names`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    #expect(try await bench.call("ls", [:]).text == "The folder is empty.")
    for path in ["b/x", "a", "C", ".h"] { try await bench.write(path, "x") }
    try FileManager.default.createSymbolicLink(
      atPath: "\(bench.folder)/link",
      withDestinationPath: "a"
    )
    #expect(try await bench.call("ls", [:]).text == ".h\nC\na\nb/\nlink -> a")
    let part = try await bench.call("ls", ["path": ".", "limit": 2])
    #expect(part.text == ".h\nC")
    #expect(part.remarks == ["Showing 2 of 5 entries. Use limit to see more."])
  }

  @Test func `no tool takes arguments that it does not know`() {
    for tool in Extension.codingTools(shell: true).tools {
      #expect(tool.parameters["additionalProperties"] == false, "\(tool.name)")
    }
  }

  @Test func `one byte is one`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    #expect(
      try await bench.call("write", ["path": "a", "content": "x"]).text == "Wrote 1 byte to /a"
    )
  }

  @Test func `the limit that nobody gave is named`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    for number in 0..<1_001 { try await bench.write("f\(number)", "x") }
    #expect(
      try await bench.call("ls", [:]).remarks == [
        "Showing 500 of 1001 entries (the default limit). Use limit to see more."
      ]
    )
    #expect(
      try await bench.call("glob", ["pattern": "*"]).remarks == [
        "Showing 1000 of 1001 (the default limit). Use limit or a narrower pattern."
      ]
    )
    #expect(
      try await bench.call("grep", ["pattern": "x"]).remarks == [
        "The first 100 lines are shown (the default limit). Use limit or a narrower pattern."
      ]
    )
  }

  @Test func `a name that is no line of its own is shown in quotes`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    let names = ["a\nb", "\"q\"", "esc\u{1B}[31m", "plain ü"]
    for name in names { try await bench.write(name, "needle") }
    let shown = [#""\"q\"""#, #""a\nb""#, #""esc\u001b[31m""#, "plain ü"]
    #expect(try await bench.call("ls", [:]).text == shown.joined(separator: "\n"))
    #expect(try await bench.call("glob", ["pattern": "*"]).text == shown.joined(separator: "\n"))
    let found = shown.map { "\($0):1:needle" }.joined(separator: "\n")
    #expect(try await bench.call("grep", ["pattern": "needle"]).text == found)
  }

  @Test func `a bracket that nothing closes stands for itself`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    for name in ["[", "a[b", "ab"] { try await bench.write(name, "x") }
    let answer = try await bench.call("glob", ["pattern": "*["])
    #expect(answer.text == "[")
    #expect(answer.remarks == ["A [ without its ] stands for itself in the pattern."])
    #expect(try await bench.call("glob", ["pattern": "a[[]b"]).remarks == [])
    #expect(
      await bench.failure("glob", ["pattern": .string(String(repeating: "*", count: 1_001))])
        .contains("has 1001 bytes; give at most 1000")
    )
  }

  private func project() async throws -> ToolBench {
    let bench = try ToolBench()
    try await bench.write(".gitignore", "build/\n")
    try await bench.write(".git/config", "needle")
    try await bench.write("build/out.c", "needle")
    try await bench.write("src/main.c", "one\ntwo Needle\nthree needle\r\nfour\nfive\nsix needle")
    try await bench.write("src/deep/util.h", "nothing")
    try await bench.env.writeFile("src/data.bin", [0] + Array("needle".utf8))
    return bench
  }

  @Test(arguments: [
    ("*.c", "src/main.c"), ("src/**", "src/data.bin\nsrc/deep/\nsrc/deep/util.h\nsrc/main.c"),
    ("**/*.{c,h}", "src/deep/util.h\nsrc/main.c"), ("src/*.?", "src/main.c"),
    ("*.rs", "Nothing fits."),
  ])
  func `files are found by patterns`(pattern: String, found: String) async throws {
    let bench = try await project()
    defer { bench.remove() }
    #expect(try await bench.call("glob", ["pattern": .string(pattern)]).text == found)
  }

  @Test(
    arguments: [
      (["pattern": "needle"], "src/main.c:3:three needle\nsrc/main.c:6:six needle"),
      (
        ["pattern": "n[e]+dle", "ignoreCase": true],
        "src/main.c:2:two Needle\nsrc/main.c:3:three needle\nsrc/main.c:6:six needle"
      ), (["pattern": "^th.*e\\r?$", "path": "src/main.c"], "src/main.c:3:three needle"),
      (["pattern": ".", "literal": true], "Nothing fits."),
      (["pattern": "needle", "glob": "*.h"], "Nothing fits."),
      (
        ["pattern": "six", "context": 1, "path": "src"],
        "main.c-5-five\nmain.c:6:six needle"
      ),
      (
        ["pattern": "one|six", "context": 1, "path": "src"],
        "main.c:1:one\nmain.c-2-two Needle\n--\nmain.c-5-five\nmain.c:6:six needle"
      ),
    ] as [(JSON, String)]
  )
  func `lines are found in text files`(arguments: JSON, found: String) async throws {
    let bench = try await project()
    defer { bench.remove() }
    #expect(try await bench.call("grep", arguments).text == found)
  }

  @Test func `a search that finds too much says so`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    try await bench.write(
      "a",
      String(repeating: "x\n", count: 50) + String(repeating: "x", count: 9_000)
    )
    let few = try await bench.call("grep", ["pattern": "x", "limit": 3])
    #expect(few.text.split(separator: "\n").count == 3)
    #expect(few.remarks == ["The first 3 lines are shown. Use limit or a narrower pattern."])
    let long = try await bench.call("grep", ["pattern": "xxx"])
    #expect(long.text.utf8.count == "a:51:".utf8.count + 500 + "…".utf8.count)
    #expect(long.remarks == ["1 long line is cut after 500 bytes."])
    #expect(await bench.failure("grep", ["pattern": "("]).contains("is no regular expression"))
  }

  @Test func `a command shows its output and its exit code`() async throws {
    let bench = try ToolBench(shell: true)
    defer { bench.remove() }
    let good = try await bench.call("bash", ["command": "echo out; echo err >&2; pwd"])
    #expect(!good.result.isError)
    #expect(good.result.structuredOutput?["exitCode"] == 0)
    #expect(good.result.structuredOutput?["output"]?.text?.contains("\(bench.folder)\n") == true)
    let bad = try await bench.call("bash", ["command": "exit 3"])
    #expect(bad.result.isError)
    #expect(bad.codes == ["exit_code"])
    #expect(bad.remarks == ["The command exited with code 3"])
  }

  @Test func `a command that takes too long is told of`() async throws {
    let bench = try ToolBench(shell: true)
    defer { bench.remove() }
    let message = await bench.failure("bash", ["command": "sleep 60", "timeout": .double(0.2)])
    #expect(message.contains("the command took longer than 0.2 seconds"))
  }

  @Test func `a large output is kept in a file that can be read`() async throws {
    var options = CodingToolOptions()
    options.commandPrefix = "set -e"
    options.prepareCommand = { execution, _ in
      var execution = execution
      execution.variables["COUNT"] = "3000"
      return execution
    }
    options.staysInWorkingFolder = true
    let bench = try ToolBench(shell: true, options)
    defer { bench.remove() }
    let answer = try await bench.call("bash", ["command": "seq 1 $COUNT"])
    let path = try #require(answer.result.structuredOutput?["fullOutputPath"]?.text)
    #expect(answer.codes == ["full_output"])
    let part = try await bench.call("read", ["path": .string(path), "offset": 2_500, "limit": 1])
    #expect(part.text == "2500")
    try await bench.env.remove(path)
  }

  @Test func `processes that a command leaves running are told of`() async throws {
    let bench = try ToolBench(shell: true)
    defer { bench.remove() }
    let left = try await bench.call("bash", ["command": "sleep 600 > /dev/null 2>&1 & echo $!"])
    #expect(left.codes == ["left_running"])
    let none = try await bench.call(
      "bash",
      ["command": .string("kill \(left.result.structuredOutput?["output"]?.text ?? "")")]
    )
    #expect(none.codes == [])
  }

  @Test func `an environment without commands says so`() async throws {
    let bench = try ToolBench()
    defer { bench.remove() }
    #expect(await bench.failure("bash", ["command": "true"]).contains("runs no commands"))
  }
}
