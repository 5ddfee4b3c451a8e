import Foundation
import Perdure
import PerdureModel
import PerdureTestKit
import PerdureValue
import TestPrograms
import Testing

/// The plugin with the coding tools does what the extension of the same name does.
@Suite(.timeLimit(.minutes(10))) struct CodingToolsPluginTests {
  private static let plugin = Fixtures.root.appending(path: "Plugins/coding-tools")

  /// The plugin, built once.
  private static let library = Result {
    let folder = try Fixtures.folder()
    try Command.run([plugin.appending(path: "build").path, folder])
    return folder + "/coding-tools.so"
  }

  private static func edit(_ path: JSON, _ edits: (String, String)...) -> (String, JSON) {
    let list = edits.map { ["oldText": .string($0.0), "newText": .string($0.1)] as JSON }
    return ("edit", ["path": path, "edits": .array(list)])
  }

  private static let png: [UInt8] =
    [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52]
    + [0, 0, 0, 2, 0, 0, 0, 3, 8, 2, 0, 0, 0, 0, 0, 0, 0]

  private static let files: [(String, [UInt8])] = [
    ("one.txt", Array("\u{FEFF}one\r\ntwo “quoted” \r\nthree\u{A0}four\r\n".utf8)),
    ("lines", Array((1...5_000).map { "line \($0)" }.joined(separator: "\n").utf8)),
    ("long", Array(String(repeating: "é", count: 60_000).utf8)),
    (
      "wide",
      [0xFF, 0xFE]
        + Array("häl\u{1F600}lo\nnext".utf16).flatMap { [UInt8($0 & 255), UInt8($0 >> 8)] }
    ),
    ("latin", [0x61, 0xE9, 0x0A]), ("binary", [0x7F, 0x45, 0x4C, 0x46, 0, 1, 2]),
    ("noise", (0..<300).map { UInt8($0 % 128) | 0x80 }), ("picture.txt", png),
    ("large.gif", Array("GIF89a".utf8) + [0xD1, 7, 1, 0, 0, 0, 0]), ("empty", []),
    (".gitignore", Array("out/\n*.log\n!keep.log\n".utf8)), (".git/config", Array("needle".utf8)),
    ("out/needle.c", Array("needle".utf8)), ("a.log", Array("needle".utf8)),
    ("keep.log", Array("needle".utf8)), ("it\u{2019}s", Array("curly".utf8)),
    ("src/main.c", Array("one\ntwo Needle\nthree needle\r\nfour\nfive\nsix needle".utf8)),
    ("src/deep/util.h", Array("nothing\u{FFFD}".utf8)), ("src/bad.c", [0x6E, 0xFF, 0x6E, 0x0A]),
    ("odd\nname", Array("needle".utf8)), ("[", Array("bracket".utf8)),
  ]

  private static let calls: [(String, JSON)] =
    [
      ("read", ["path": "one.txt"]), ("read", ["path": "lines"]),
      ("read", ["path": "lines", "offset": 2_500, "limit": 3]),
      ("read", ["path": "lines", "offset": 4_999]), ("read", ["path": "lines", "offset": 6_000]),
      ("read", ["path": "long"]), ("read", ["path": "wide"]), ("read", ["path": "latin"]),
      ("read", ["path": "binary"]), ("read", ["path": "noise"]), ("read", ["path": "picture.txt"]),
      ("read", ["path": "large.gif"]), ("read", ["path": "empty"]), ("read", ["path": "it's"]),
      ("read", ["path": "src"]), ("read", ["path": "src/mian.c"]), ("read", ["path": "@one.txt"]),
      ("read", ["path": "~/no such file"]), ("read", ["path": "file:///nowhere"]),
      ("read", ["path": "a\u{0}b"]), ("read", ["path": "src/../one.txt", "limit": 1]),
      ("read", ["path": ""]), ("read", [:]), ("read", ["path": "link"]), ("read", ["path": "loop"]),
      ("write", ["path": "new/deep/file", "content": "é"]),
      ("write", ["path": "new/deep/file", "content": ""]), ("read", ["path": "new/deep/file"]),
      ("write", ["path": "src", "content": "x"]), ("write", ["path": "one.txt/x", "content": "x"]),
      edit("one.txt", ("two \"quoted\"", "2"), ("three four", "3\n4")),
      ("read", ["path": "one.txt"]),
      edit("one.txt", ("nothing like it", "x")), edit("src/main.c", ("needle", "x")),
      edit("src/main.c", ("one\ntwo", "1"), ("two Needle", "x")),
      edit("src/main.c", ("one", "one")),
      edit("src/main.c", ("", "x")), edit("latin", ("a", "b")), edit("wide", ("a", "b")),
      edit("binary", ("ELF", "x")), edit("src", ("a", "b")), edit("missing", ("a", "b")),
      ("edit", ["path": "src/main.c", "edits": "[{\"oldText\":\"four\",\"newText\":\"4\"}]"]),
      ("edit", ["path": "src/main.c", "oldText": "five", "newText": "5"]),
      ("edit", ["path": "src/main.c", "edits": []]), ("edit", ["path": "src/main.c", "edits": 5]),
      ("ls", [:]), ("ls", ["path": "src", "limit": 1]), ("ls", ["path": "missing"]),
      ("ls", ["path": "one.txt"]), ("ls", ["limit": 0]),
      ("glob", ["pattern": "*.c"]), ("glob", ["pattern": "**/*.{c,h}"]), ("glob", ["pattern": "["]),
      ("glob", ["pattern": "src/**", "limit": 2]), ("glob", ["pattern": "odd*"]),
      ("glob", ["pattern": "*.log"]), ("glob", ["pattern": "*", "path": "one.txt"]),
      ("grep", ["pattern": "needle"]), ("grep", ["pattern": "n[e]+dle", "ignoreCase": true]),
      ("grep", ["pattern": "six", "context": 1, "path": "src/main.c"]),
      ("grep", ["pattern": "("]), ("grep", ["pattern": "(", "literal": true]),
      ("grep", ["pattern": "n.n", "path": "src"]), ("grep", ["pattern": "needle", "glob": "*.c"]),
      ("grep", ["pattern": "line", "limit": 2]), ("grep", ["pattern": "x", "path": "missing"]),
      ("grep", ["pattern": "\u{E9}{20}", "path": "long"]),
      ("bash", ["command": "echo out; echo err >&2; exit 3"]), ("bash", ["command": "printf ''"]),
      ("bash", ["command": "seq 1 3000"]), ("bash", ["command": "kill -9 $$"]),
      ("bash", ["command": "sleep 60", "timeout": .double(0.3)]),
      ("bash", ["command": "x", "timeout": -1]),
      ("bash", ["command": "printf '\\303'; printf '\\251'"]),
      ("bash", ["command": "true", "sandbox": "none"]), ("ls", ["path": ".", "follow": true]),
      ("bash", ["command": ""]), ("bash", ["command": "printf 'a\\0b'"]), ("bash", [:]),
    ]

  /// What is left of a result once what is made up anew each time has the same name.
  private static func steady(_ json: JSON) -> JSON {
    if let text = json.text {
      return .string(text.replacing(/pi-output-[^.]+\.log/, with: "pi-output.log"))
    }
    if let items = json.array { return .array(items.map(steady)) }
    guard let object = json.object else { return json }
    var result = JSONObject()
    for (key, value) in object { result[key] = steady(value) }
    return .object(result)
  }

  private func fill(_ folder: String) throws {
    let manager = FileManager.default
    // The folder itself stays, because the environment has it open.
    for name in try manager.contentsOfDirectory(atPath: folder) {
      try manager.removeItem(atPath: "\(folder)/\(name)")
    }
    for (path, bytes) in Self.files {
      let file = URL(filePath: folder).appending(path: path)
      try manager.createDirectory(
        at: file.deletingLastPathComponent(),
        withIntermediateDirectories: true
      )
      try Data(bytes).write(to: file)
    }
    try manager.createSymbolicLink(atPath: folder + "/link", withDestinationPath: "src/main.c")
    try manager.createSymbolicLink(atPath: folder + "/loop", withDestinationPath: "loop")
  }

  /// Makes all calls in one conversation and returns the results.
  private func results(_ tools: Extension, _ environment: EnvironmentChoice) async throws -> [JSON]
  {
    let calls = Self.calls.map { (tool: $0.0, arguments: $0.1) }
    return try await ToolResults(of: calls, by: [tools], in: environment).messages
      .map { Self.steady($0) }
  }

  @Test(arguments: [false, true], [Isolation.inProcess, .runner])
  func `the plugin answers every call as the extension does`(
    shell: Bool,
    isolation: Isolation
  ) async throws {
    let folder = try TestPaths.folder().resolvingSymlinksInPath().path
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let environment: EnvironmentChoice = shell ? .local(cwd: folder) : .directory(at: folder)
    let plugin = try await Plugin.load(path: try Self.library.get(), isolation: isolation)
    try fill(folder)
    let expected = try await results(.codingTools(shell: true), environment)
    try fill(folder)
    let found = try await results(plugin.contribution, environment)
    await plugin.close()
    #expect(expected.count == Self.calls.count)
    for (index, pair) in zip(expected, found).enumerated() where pair.0 != pair.1 {
      let call = Self.calls[index]
      Issue.record(
        "\(call.0) \(call.1.compactText): \(pair.1.compactText.prefix(2_000)) is not \(pair.0.compactText.prefix(2_000))"
      )
    }
  }

  @Test func `commands beside each other do not mix their output`() async throws {
    let folder = try TestPaths.folder().resolvingSymlinksInPath().path
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let plugin = try await Plugin.load(path: try Self.library.get())
    let model = ScriptedModel { request in
      guard ScriptedModel.turn(of: request) == 0 else { return ScriptedModel.text("done") }
      return ScriptedModel.calls(
        (0..<64).map {
          (
            "c\($0)", "bash",
            ["command": "for i in 1 2 3; do echo out \($0); echo err \($0) >&2; done"]
          )
        }
      )
    }
    let harness = try await Harness.open(
      .memory,
      models: model,
      extensions: [plugin.contribution],
      environment: .local(cwd: folder)
    )
    let root = try await harness.root()
    try await root.configure(.init(model: ScriptedModel.reference))
    _ = try await root.submit("go").answer()
    var seen = 0
    for entry in try await root.view().entries where entry.kind == "pi.tool-result" {
      let message = entry.model?.first
      let number = try #require(message?["toolCallId"]?.text?.dropFirst())
      let lines = (message?["content"]?.array?.first?["text"]?.text ?? "").split(separator: "\n")
      #expect(
        lines.sorted() == ["err", "err", "err", "out", "out", "out"].map { "\($0) \(number)" }
      )
      seen += 1
    }
    #expect(seen == 64)
    try await harness.close()
    await plugin.close()
  }

  @Test(arguments: [Isolation.inProcess, .runner])
  func `a call that is aborted ends its command`(isolation: Isolation) async throws {
    let folder = try TestPaths.folder().resolvingSymlinksInPath().path
    defer { try? FileManager.default.removeItem(atPath: folder) }
    #expect(unsafe mkfifo(folder + "/pipe", 0o600) == 0)
    let plugin = try await Plugin.load(path: try Self.library.get(), isolation: isolation)
    let model = ScriptedModel { request in
      guard ScriptedModel.turn(of: request) == 0 else { return ScriptedModel.text("done") }
      let command: JSON = "exec 3> pipe; echo x >&3; sleep 1000 & wait"
      return ScriptedModel.calls(("c", "bash", ["command": command]))
    }
    let harness = try await Harness.open(
      .memory,
      models: model,
      extensions: [plugin.contribution],
      environment: .local(cwd: folder)
    )
    let root = try await harness.root()
    try await root.configure(.init(model: ScriptedModel.reference))
    let submission = try await root.submit("go")
    // The pipe has an end once nothing of the command is left.
    let (events, source) = AsyncStream<String>.makeStream()
    Thread.detachNewThread {
      let pipe = FileHandle(forReadingAtPath: folder + "/pipe")
      source.yield(String(decoding: (try? pipe?.read(upToCount: 2)) ?? Data(), as: UTF8.self))
      _ = try? pipe?.readToEnd()
      source.yield("end")
      source.finish()
    }
    var seen: [String] = []
    for await event in events {
      seen.append(event)
      if event == "x\n" { try await root.abort() }
    }
    #expect(seen == ["x\n", "end"])
    _ = try? await submission.answer()
    try await harness.close()
    await plugin.close()
  }

  @Test func `the manifest says of each tool what the extension does`() throws {
    let path = Self.plugin.appending(path: "coding-tools.json")
    let manifest = try JSON(parsing: Array(Data(contentsOf: path)))
    let said = (manifest["tools"]?.array ?? []).map { tool -> JSON in
      var members = tool.object ?? [:]
      members["overrides"] = nil
      return .object(members)
    }
    let meant = Extension.codingTools(shell: true).tools.map { tool -> JSON in
      var members: JSONObject = [
        "name": .string(tool.name), "description": .string(tool.description),
        "parameters": tool.parameters, "replay": .string(tool.replay.rawValue),
      ]
      if tool.prepareArguments != nil { members["prepare"] = true }
      if tool.outputLimits.retain == .tail { members["outputLimits"] = ["retain": "tail"] }
      members["structuredOutputSchema"] = tool.structuredOutputSchema
      if tool.deadline != .seconds(600) {
        members["deadlineMs"] = .int(tool.deadline.components.seconds * 1_000)
      }
      return .object(members)
    }
    for (said, meant) in zip(said, meant) {
      #expect(Set(said.object?.keys ?? []) == Set(meant.object?.keys ?? []))
      for (key, value) in meant.object ?? [:] {
        #expect(said[key] == value, "\(said["name"] ?? .null)")
      }
    }
    #expect(said.count == meant.count)
  }
}
