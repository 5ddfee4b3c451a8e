import Foundation
import Glibc
import PerdureTestKit
import PerdureValue
import TestPrograms
import Testing

/// The real program with a real plugin, killed after a delay and then resumed.
private struct KilledRun {
  let folder: URL
  let plugin: String
  let kind: KillTests.Kind
  let number: Int

  var store: String { folder.appending(path: "\(number).\(kind.rawValue)").path }

  var effects: String { folder.appending(path: "\(number).effects").path }

  private func words(_ verb: String, _ rest: [String]) -> [String] {
    // A slash at the end asks for JSON lines.
    [TestPaths.product("perdure"), verb, "--store", store + (kind == .jsonl ? "/" : "")] + rest
  }

  private func output(_ name: String) -> String {
    folder.appending(path: "\(number).\(name)").path
  }

  /// Writes the script that makes the model call the tool once.
  func writeScript(_ replay: String) throws -> String {
    let call: JSON = [
      "id": "c1", "name": .string("note_\(replay)"),
      "arguments": ["path": .string(effects), "ms": 20],
    ]
    let script: JSON = [
      "turns": [["steps": [["toolCall": call]]], ["steps": [["text": "all noted"]]]]
    ]
    let path = folder.appending(path: "\(number).json")
    try Data(script.encoded).write(to: path)
    return path.path
  }

  func start(_ script: String) throws -> Program {
    try Program(
      words("run", ["--plugin", plugin, "--faux", script, "note it"]),
      output: output("run")
    )
  }

  func resume() throws -> Program.End {
    try Program.run(words("resume", []), output: output("resume"))
  }

  /// The transcript without ids and times, aborted partials left out.
  func transcript() throws -> [JSON] {
    let end = try Program.run(words("log", ["--json"]), output: output("log"))
    return try end.output.split(separator: "\n").compactMap { line in
      let entry = try JSON(parsing: String(line))
      guard entry["type"] == "entry", var message = entry["model"]?.array?.first?.object else {
        return nil
      }
      if message["stopReason"] == "aborted" { return nil }
      message["timestamp"] = nil
      message["durationMs"] = nil
      return .object(message)
    }
  }

  /// What is wrong with the store before anybody opens it again.
  func problems() throws -> String {
    try Program.run([TestPaths.product("CrashProcess"), "look", store], output: output("look"))
      .output
  }

  func effectCount() -> Int { Program.read(effects).split(separator: "\n").count }

  func remove() {
    for suffix in [
      "sqlite", "sqlite-wal", "sqlite-shm", "sqlite.lock", "jsonl", "effects", "json", "run",
      "resume", "log", "look",
    ] {
      try? FileManager.default.removeItem(at: folder.appending(path: "\(number).\(suffix)"))
    }
  }
}

@Suite(.serialized) struct KillTests {
  enum Kind: String, CaseIterable { case sqlite, jsonl }

  @Test(arguments: Kind.allCases)
  func `a killed run resumes to the same transcript and repeats no unsafe effect`(
    _ kind: Kind
  ) throws {
    let seed = Effort.seed ?? UInt64.random(in: 1...1_000_000)
    print("KillTests: \(kind.rawValue), seed \(seed)")
    var random = SeededGenerator(seed: seed)
    let folder = try TestPaths.folder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let plugin = try TestPaths.plugin("Tests/Fixtures/Plugins/notes.c", in: folder)
    let start = ContinuousClock.now
    let whole = [
      "safe": try reference("safe", folder, plugin, kind, 9_000),
      "unsafe": try reference("unsafe", folder, plugin, kind, 9_001),
    ]
    // About as long as a run takes on this machine now, so that most deaths fall into one.
    let longest = UInt32((ContinuousClock.now - start) / .microseconds(3))
    var killedInside = 0
    // Numbers of one length make paths, and so the usage that the model reports, of one length.
    for number in 1_000..<1_000 + Effort.choose(80, long: 500) {
      let replay = number % 2 == 0 ? "safe" : "unsafe"
      let run = KilledRun(folder: folder, plugin: plugin, kind: kind, number: number)
      defer { run.remove() }
      let program = try run.start(try run.writeScript(replay))
      usleep(UInt32.random(in: 0...longest, using: &random))
      program.signal(SIGKILL)
      let wasKilled = program.end().signal == SIGKILL
      let what = "seed \(seed), run \(number) (\(replay))"
      let problems = try run.problems()
      #expect(problems == "", "\(what)")
      let end = try run.resume()
      let transcript = try run.transcript()
      // Nothing was submitted yet: there is no store, or nothing in it to go on with.
      #expect(end.status == 0 || transcript.isEmpty && end.status == 3, "\(what): \(end.output)")
      if transcript.isEmpty { continue }
      if wasKilled { killedInside += 1 }
      try check(transcript, try #require(whole[replay]), replay, run.effectCount(), what)
    }
    print("KillTests: \(kind.rawValue), \(killedInside) runs were killed in the middle")
    #expect(killedInside > 4, "only \(killedInside) runs were killed in the middle")
  }

  private func reference(
    _ replay: String,
    _ folder: URL,
    _ plugin: String,
    _ kind: Kind,
    _ number: Int
  ) throws -> [JSON] {
    let run = KilledRun(folder: folder, plugin: plugin, kind: kind, number: number)
    let end = try run.start(try run.writeScript(replay)).end()
    #expect(end.status == 0, "\(end.output)")
    return try run.transcript().map { withoutPath($0) }
  }

  /// Each run has its own file, which its arguments name.
  private func withoutPath(_ message: JSON) -> JSON {
    guard var object = message.object, let content = object["content"]?.array else {
      return message
    }
    object["content"] = .array(
      content.map { item in
        guard var members = item.object, members["arguments"] != nil else { return item }
        members["arguments"] = ["ms": 20]
        return .object(members)
      }
    )
    return .object(object)
  }

  private func check(
    _ transcript: [JSON],
    _ whole: [JSON],
    _ replay: String,
    _ effects: Int,
    _ what: String
  ) throws {
    let messages = transcript.map { withoutPath($0) }
    let isInterrupted = messages.contains { message in
      message["role"] == "toolResult"
        && message["content"]?.array?.last?["text"]?.text?.contains("interrupted") == true
    }
    if replay == "safe" {
      #expect(effects >= 1, "\(what): no effect")
      #expect(messages == whole, "\(what): \(JSON.array(messages).compactText)")
    } else {
      #expect(effects <= 1, "\(what): \(effects) effects")
      if !isInterrupted {
        #expect(effects == 1, "\(what): a result without its effect")
        #expect(messages == whole, "\(what): \(JSON.array(messages).compactText)")
      }
      #expect(messages.count == whole.count, "\(what): \(JSON.array(messages).compactText)")
    }
  }
}
