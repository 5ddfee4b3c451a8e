import Foundation
import PerdureValue
import TestPrograms
import Testing

@Suite struct FailpointTests {
  static let cases: [(String, String)] = [
    ("A1", "unsafe"), ("A2", "unsafe"), ("A2", "safe"), ("A3", "unsafe"), ("A3", "safe"),
    ("D1", "safe"), ("D2", "safe"),
  ]

  @Test(arguments: cases)
  func `a run killed at any storage call ends as if it had lived`(
    _ walk: String,
    _ replay: String
  ) throws {
    let folder = try TestPaths.folder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let end = try Program.run(
      [TestPaths.product("CrashProcess"), "sweep", folder.path, walk, replay],
      output: folder.appending(path: "sweep.out").path
    )
    let output = end.output
    #expect(end.status == 0)
    let lines = try output.split(separator: "\n").map { try JSON(parsing: String($0)) }
    let expected = try #require(lines.first?["context"], "\(output.prefix(2_000))")
    #expect(lines.count > 10, "only \(lines.count) storage calls were reached")
    for line in lines {
      check(Death(line), walk, replay, expected)
    }
  }

  struct Death {
    var point: String
    var status: Int64?
    var output: String
    var context: JSON
    var effects: [String]

    init(_ line: JSON) {
      point = "killed \(line["moment"]?.text ?? "never") call \(line["call"]?.int ?? 0)"
      status = line["status"]?.int
      output = line["output"]?.text ?? ""
      context = line["context"] ?? .null
      effects = (line["effects"]?.array ?? []).compactMap(\.text)
    }

    func count(_ effect: String) -> Int { effects.filter { $0 == effect }.count }
  }

  private func check(_ death: Death, _ walk: String, _ replay: String, _ expected: JSON) {
    #expect(death.status == 0, "\(death.point): \(death.output)")
    #expect(!death.output.contains("violation"), "\(death.point): \(death.output)")
    if walk == "A1" || replay == "safe" {
      #expect(death.context == expected, "\(death.point): \(death.context.compactText)")
    } else {
      checkUnsafe(death, expected)
    }
    guard walk.hasPrefix("A"), walk != "A1" else { return }
    for effect in ["one", "two"] {
      let count = death.count(effect)
      let isAllowed = replay == "safe" ? count >= 1 : count <= 1
      #expect(isAllowed, "\(death.point): the effect happened \(count) times")
    }
  }

  /// An unsafe call either ran to its result, or is answered as interrupted.
  private func checkUnsafe(_ death: Death, _ expected: JSON) {
    let messages = death.context.array ?? []
    let wanted = expected.array ?? []
    #expect(messages.count == wanted.count, "\(death.point): \(death.context.compactText)")
    for (message, whole) in zip(messages, wanted) where message != whole {
      let text = message["content"]?.array?.last?["text"]?.text ?? ""
      #expect(message["toolCallId"] == whole["toolCallId"], "\(death.point)")
      #expect(text.contains("interrupted"), "\(death.point): \(message.compactText)")
    }
    // A result that says it worked must have had its effect.
    for (id, effect) in [("c1", "one"), ("c2", "two")] {
      let result = messages.first { $0["toolCallId"]?.text == id }
      if result?["isError"] == false { #expect(death.count(effect) == 1, "\(death.point): \(id)") }
    }
  }
}
