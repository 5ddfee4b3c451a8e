import Foundation
import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureValue
import TestPrograms
import Testing

/// What plugins may do with the files and commands of their conversation.
@Suite(.timeLimit(.minutes(5))) struct EnvironmentOperationTests {
  /// A plugin in a harness whose environment is a folder, or the machine in that folder.
  private func withDesk(
    _ permission: JSON? = "exec",
    shell: Bool = false,
    _ body: (Desk, String) async throws -> Void
  ) async throws {
    let folder = try TestPaths.folder().resolvingSymlinksInPath().path
    defer { try? FileManager.default.removeItem(atPath: folder) }
    var form = Desk.Form()
    form.permissions = permission.map { ["environment": $0] } ?? [:]
    form.environment = shell ? .local(cwd: folder) : .directory(at: folder)
    try await Desk.with(form) { try await body($0, folder) }
  }

  @Test func `files are written, read and removed`() async throws {
    try await withDesk { desk, folder in
      let answers = try await desk.run([
        Desk.op("env.write", ["path": "a/f", "mode": "replace", "text": "one\ntwo"]),
        Desk.op("env.write", ["path": "a/f", "mode": "append", "text": "\nthree"]),
        Desk.op("env.stat", ["path": "a/f"]),
        Desk.op("env.lines", ["path": "a/f", "startLine": 1, "endLine": 2]),
        Desk.op("env.open", ["path": "a/f"]),
        Desk.op("env.rename", ["from": "a/f", "to": "g"]),
        Desk.op("env.read", ["path": "perdure-file:1", "offset": 4, "length": 3]),
        Desk.op("env.lines", ["path": "perdure-file:1", "startLine": 0]),
        Desk.op("env.close", ["file": "perdure-file:1"]),
        Desk.op("env.read", ["path": "perdure-file:1"]), Desk.op("env.read", ["path": "g"]),
        Desk.op("env.write", ["path": "g", "mode": "truncate", "size": 2]),
        Desk.op("env.write", ["path": "g", "mode": "flush"]), Desk.op("env.stat", ["path": "x"]),
        Desk.op("env.mkdir", ["path": "d/e"]), Desk.op("env.remove", ["path": "d"]),
        Desk.op("env.remove", ["path": "d", "recursive": true]),
        Desk.op("env.temp", ["kind": "file", "suffix": ".txt"]),
      ])
      for (index, answer) in answers.enumerated() where ![9, 15].contains(index) {
        #expect(answer["status"] == 0, "\(index): \(answer)")
      }
      #expect(answers[2]["answer"]?["info"]?["size"] == 13)
      #expect(answers[2]["answer"]?["info"]?["kind"] == "file")
      #expect(answers[3]["answer"]?["newlines"] == 2)
      #expect(answers[3]["answer"]?["start"] == 4)
      #expect(answers[3]["answer"]?["end"] == 7)
      #expect(answers[6]["answer"]?["bytes"] == 3)
      #expect(answers[7]["answer"]?["selectedBytes"] == 13)
      #expect(answers[9]["answer"]?["file"]?["code"] == "not_found")
      #expect(answers[10]["answer"]?["bytes"] == 13)
      #expect(answers[13]["answer"]?["info"] == nil)
      #expect(answers[15]["answer"]?["reason"] == "file")
      #expect(answers[15]["answer"]?["file"]?["path"] == "/d")
      #expect(answers[17]["answer"]?["path"]?.text?.hasSuffix(".txt") == true)
      #expect(try String(contentsOfFile: "\(folder)/g", encoding: .utf8) == "on")
    }
  }

  @Test func `bytes are written as a part of the message`() async throws {
    try await withDesk { desk, folder in
      let input: JSON = ["path": "b", "mode": "replace", "bytes": ["part": 1]]
      let missing: JSON = ["path": "c", "mode": "replace", "bytes": ["part": 2]]
      let answers = try await desk.run([
        ["op": "env.write", "input": input, "part": 1],
        ["op": "env.write", "input": missing, "part": 1], Desk.op("env.write", input),
      ])
      #expect(answers[0]["status"] == 0, "\(answers[0])")
      #expect(try Data(contentsOf: URL(filePath: "\(folder)/b")) == Data([0xFF, 0, 0x41]))
      #expect(answers[1]["status"] != 0)
      #expect(answers[2]["answer"]?["at"] == "/bytes")
    }
  }

  @Test func `a file is written only if it is as it was`() async throws {
    try await withDesk { desk, folder in
      let written = try await desk.run([
        Desk.op("env.write", ["path": "f", "mode": "replace", "text": "one"]),
        Desk.op("env.open", ["path": "f"]), Desk.op("env.stat", ["path": "perdure-file:1"]),
      ])
      let version = try #require(written[2]["answer"]?["info"]?["version"])
      #expect(written[1]["answer"]?["info"]?["version"] == version)
      let input: JSON = ["path": "f", "mode": "replace", "text": "two", "expecting": version]
      let answers = try await desk.run([Desk.op("env.write", input), Desk.op("env.write", input)])
      #expect(answers[0]["status"] == 0)
      #expect(answers[1]["answer"]?["file"]?["reason"] == "conflict")
      #expect(try String(contentsOfFile: "\(folder)/f", encoding: .utf8) == "two")
    }
  }

  @Test func `paths and lists are given, and nothing outside`() async throws {
    try await withDesk("read") { desk, folder in
      for name in ["b", "a"] {
        try "x".write(toFile: "\(folder)/\(name)", atomically: false, encoding: .utf8)
      }
      try FileManager.default.createSymbolicLink(
        atPath: "\(folder)/out",
        withDestinationPath: "/etc/passwd"
      )
      let answers = try await desk.run([
        Desk.op("env.info"), Desk.op("env.path", ["path": "x/../y", "join": ["z"]]),
        Desk.op("env.files", ["path": ".", "maxEntries": 10]), Desk.op("env.list", ["path": "/"]),
        Desk.op("stream.next", ["stream": "s1"]), Desk.op("env.read", ["path": "out"]),
        Desk.op("env.read", ["path": "../../etc/passwd"]),
      ])
      #expect(answers[0]["answer"]?["cwd"] == "/")
      #expect(answers[0]["answer"]?["exec"] == false)
      #expect(answers[0]["answer"]?["watch"] == true)
      #expect(answers[1]["answer"]?["path"] == "/y/z")
      #expect(
        answers[2]["answer"]?["entries"]?.array?.compactMap { $0["path"]?.text } == [
          "a", "b", "out",
        ]
      )
      let listed = answers[4]["answer"]?["items"]?.array?.compactMap { $0["name"]?.text } ?? []
      #expect(listed.sorted() == ["a", "b", "out"])
      #expect(answers[5]["answer"]?["file"]?["code"] == "permission_denied")
      #expect(answers[6]["answer"]?["file"]?["code"] == "not_found")
    }
  }

  @Test(
    arguments: [
      (nil, "env.read", ["path": "f"]), ("read", "env.write", ["path": "f", "mode": "flush"]),
      ("read", "env.remove", ["path": "f"]), ("write", "env.exec", ["command": "true"]),
    ] as [(String?, String, JSON)]
  )
  func `what the manifest does not ask for is denied`(
    permission: String?,
    op: String,
    input: JSON
  ) async throws {
    try await withDesk(permission.map { .string($0) }) { desk, _ in
      let answer = try await desk.ask(op, input)
      #expect(answer["status"] == -9)
      #expect(answer["answer"]?["reason"] == "permission")
    }
  }

  @Test func `a command streams its output and ends with its code`() async throws {
    try await withDesk(shell: true) { desk, _ in
      let answers = try await desk.run([
        Desk.op("env.exec", ["command": "echo out; exit 3"]),
        Desk.op("stream.next", ["stream": "s1"]), Desk.op("stream.next", ["stream": "s1"]),
        Desk.op("env.exec", ["command": ["printf", "%s", "$HOME"], "pipe": true]),
        Desk.op("stream.next", ["stream": "s2"]),
        Desk.op("env.exec", ["command": "sleep 60", "timeoutMs": 100]),
        Desk.op("stream.next", ["stream": "s3"]),
        Desk.op("env.exec", ["command": []]),
      ])
      let first = answers[1]["answer"]?["items"]?.array?.first
      #expect(first == ["stream": "stdout", "text": "out\n"])
      let end = answers[1]["answer"]?["end"] ?? answers[2]["answer"]?["end"]
      #expect(end?["exitCode"] == 3)
      #expect(answers[4]["answer"]?["items"] == [])
      #expect(answers[4]["answer"]?["end"]?["exitCode"] == 0)
      let failure = answers[6]["answer"]?["end"]?["error"]
      #expect(failure?["detail"]?["execution"]?["code"] == "timeout")
      #expect(answers[7]["status"] == -7)
    }
  }

  @Test func `a folder runs no commands`() async throws {
    try await withDesk { desk, _ in
      let answers = try await desk.run([
        Desk.op("env.exec", ["command": "true"]), Desk.op("stream.next", ["stream": "s1"]),
      ])
      let error = answers[1]["answer"]?["end"]?["error"]
      #expect(error?["detail"]?["execution"]?["code"] == "shell_unavailable")
    }
  }

  @Test func `a watch tells of changes`() async throws {
    try await withDesk { desk, _ in
      let answers = try await desk.run([
        Desk.op("env.watch", ["targets": [["path": "f"]]]),
        Desk.op("env.write", ["path": "f", "mode": "replace", "text": "x"]),
        Desk.op("stream.next", ["stream": "s1"]), Desk.op("stream.close", ["stream": "s1"]),
      ])
      #expect(answers[2]["answer"]?["items"] == [["paths": ["/f"]]])
    }
  }

  @Test func `a conversation without an environment says so`() async throws {
    var form = Desk.Form()
    form.permissions = ["environment": "exec"]
    try await Desk.with(form) { desk in
      let answer = try await desk.ask("env.info")
      #expect(answer["answer"]?["reason"] == "not_found")
    }
  }
}
