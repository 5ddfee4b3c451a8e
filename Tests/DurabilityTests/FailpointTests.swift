import Foundation
import PerdureTestKit
import PerdureValue
import TestPrograms
import Testing

@Suite struct FailpointTests {
  /// A scenario on a backend, cut off in calls of a layer.
  struct Trial: Sendable, CustomTestStringConvertible {
    let scenario: String
    let backend: String
    let layer: String
    /// How many calls a run of a few seconds tries; all of them if absent.
    let sample: Int?

    var testDescription: String { "\(scenario) over \(backend), calls of its \(layer)" }

    var isSafe: Bool { scenario.hasSuffix("-safe") }
    var aborts: Bool { scenario.hasPrefix("A9") }
    var summarizes: Bool { scenario.hasPrefix("A7") || scenario.hasPrefix("A8") }
    var faults: Bool { scenario.hasPrefix("A11") }
    /// Whether a tool body submits, so that a death before that leaves it to come after the run.
    var queuesInTool: Bool { scenario.hasPrefix("A4") || scenario.hasPrefix("A6") }
    /// Whether what a call did may be unknown after it completed.
    var leavesWork: Bool { scenario.hasPrefix("A10h") }
    var submissions: Int {
      if faults { return 0 }
      if scenario.hasPrefix("A6") { return 3 }
      let steers = scenario.hasPrefix("A4") || scenario.hasPrefix("A5")
      return aborts || summarizes || steers ? 2 : 1
    }
    /// How the submissions of a run that nothing disturbs end.
    var settlements: [String] {
      if faults { return ["faulted"] }
      if scenario.hasPrefix("A6") { return ["reset", "done", "done"] }
      return [aborts ? "aborted" : "done"] + Array(repeating: "done", count: submissions - 1)
    }
    var hasTools: Bool {
      !summarizes && !["A1-", "retry", "D1"].contains { scenario.hasPrefix($0) }
    }

    static func all(_ scenarios: [String], sample: Int) -> [Trial] {
      scenarios.flatMap { scenario in
        [("sqlite", "storage"), ("jsonl", "storage"), ("jsonl", "files"), ("memory", "storage")]
          .map { backend, layer in
            Trial(scenario: scenario, backend: backend, layer: layer, sample: sample)
          }
      }
    }
  }

  static let walks: [String] =
    ["A1-unsafe", "retry-unsafe", "D1-safe", "A7-unsafe", "A8-unsafe"]
    + ["A2", "A3", "A4", "A5", "A6", "A9", "A9s", "A10", "A10h", "A11", "N1", "B1", "F1", "P1"]
    .flatMap {
      ["\($0)-unsafe", "\($0)-safe"]
    }

  @Test(arguments: Trial.all(walks, sample: 12))
  func `a run cut off at any call ends as if it had lived`(_ trial: Trial) throws {
    let lines = try sweep(trial)
    let whole = try #require(lines.first)
    let expected = try #require(whole["result"]?["context"], "\(whole.compactText)")
    for line in lines { check(Death(line), trial, expected) }
  }

  static let seeds: [UInt64] = {
    var random = SeededGenerator(for: "kernel scenarios")
    if Effort.seed != nil { return [random.next() % 1_000_000] }
    return (0..<Effort.choose(2, long: 12)).map { _ in random.next() % 1_000_000 }
  }()

  @Test(arguments: Trial.all(seeds.map { "kernel-\($0)" }, sample: 16))
  func `a store cut off at any call holds whole commits and goes on to the same end`(
    _ trial: Trial
  ) throws {
    for line in try sweep(trial) { checkStore(Death(line)) }
  }

  /// Plays a scenario with a death or a fault at each call; the first line is the whole run.
  private func sweep(_ trial: Trial) throws -> [JSON] {
    let folder = try TestPaths.folder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let seed = Effort.seed ?? UInt64.random(in: 0...999_999)
    let sample = Effort.choose(trial.sample, long: nil)
    let end = try Program.run(
      [
        TestPaths.product("CrashProcess"), "sweep", folder.path, trial.backend, trial.layer,
        trial.scenario, "\(seed)", sample.map { "\($0)" } ?? "all",
      ],
      output: folder.appending(path: "sweep.out").path
    )
    #expect(end.status == 0, "\(end.output.suffix(2_000))")
    let lines = try end.output.split(separator: "\n").filter { $0.hasPrefix("{") }
      .map { try JSON(parsing: String($0)) }
    let deaths = lines.compactMap { $0["deaths"]?.int }.reduce(0, +)
    print("FailpointTests: \(trial.testDescription): \(deaths) deaths, seed \(seed)")
    #expect(deaths >= min(sample ?? 30, 30) / 2, "only \(deaths) calls were reached")
    return lines
  }

  struct Death {
    var point: String
    var problems: [String]
    var status: Int64?
    var output: String
    var result: JSON
    var effects: [String]

    init(_ line: JSON) {
      point = "cut off \(line["moment"]?.text ?? "never") call \(line["call"]?.int ?? 0)"
      problems = (line["problems"]?.array ?? []).compactMap(\.text)
      status = line["status"]?.int
      output = line["output"]?.text ?? ""
      result = line["result"] ?? [:]
      effects = (line["effects"]?.array ?? []).compactMap(\.text)
    }

    var context: JSON { result["context"] ?? .null }
    var settled: [String] { (result["settled"]?.array ?? []).compactMap(\.text) }

    func count(_ effect: String) -> Int { effects.filter { $0 == effect }.count }
  }

  /// Holds of every store, as the death left it and at the end.
  private func checkStore(_ death: Death) {
    #expect(death.problems == [], "\(death.point)")
    #expect(death.status == 0, "\(death.point): \(death.output)")
    #expect(death.result["violations"] == [], "\(death.point)")
  }

  private func check(_ death: Death, _ trial: Trial, _ expected: JSON) {
    checkStore(death)
    #expect(death.result["live"] == 0, "\(death.point)")
    #expect(death.result["submissions"] == .int(trial.submissions), "\(death.point)")
    checkSettlements(death, trial)
    if trial.isSafe || !trial.hasTools, !trial.aborts {
      #expect(death.context == expected, "\(death.point): \(death.context.compactText)")
    } else if !trial.aborts {
      checkUnsafe(death, trial, expected)
    }
    guard trial.hasTools else { return }
    for effect in ["one", "two"] {
      let count = death.count(effect)
      // An abort may come before the second call has started.
      let isAllowed = trial.isSafe ? count >= 1 || trial.aborts || trial.faults : count <= 1
      #expect(isAllowed, "\(death.point): the effect happened \(count) times")
    }
  }

  private func checkSettlements(_ death: Death, _ trial: Trial) {
    var allowed = [trial.settlements]
    // An unsafe call that a death cut off is not made again: nothing is left to abort, and what
    // its body had not submitted comes after the run.
    if !trial.isSafe, !trial.faults { allowed.append(trial.settlements.map { _ in "done" }) }
    #expect(allowed.contains(death.settled), "\(death.point): \(death.settled)")
  }

  /// An unsafe call either ran to its result, or is answered as interrupted.
  private func checkUnsafe(_ death: Death, _ trial: Trial, _ expected: JSON) {
    let messages = death.context.array ?? []
    let wanted = expected.array ?? []
    if trial.queuesInTool, death.settled != trial.settlements || messages.count > wanted.count {
      // The steer has an answer of its own; behind a late reset there is nothing to show.
      let isWhole = trial.submissions == 3 || messages.count == wanted.count + 1
      #expect(isWhole, "\(death.point): \(death.context.compactText)")
      return
    }
    #expect(messages.count == wanted.count, "\(death.point): \(death.context.compactText)")
    for (message, whole) in zip(messages, wanted) where message != whole {
      let text = message["content"]?.array?.last?["text"]?.text ?? ""
      #expect(message["toolCallId"] == whole["toolCallId"], "\(death.point)")
      #expect(text.contains("interrupted"), "\(death.point): \(message.compactText)")
    }
    if trial.leavesWork { return }
    // A result that says it worked must have had its effect.
    for (id, effect) in [("c1", "one"), ("c2", "two")] {
      let result = messages.first { $0["toolCallId"]?.text == id }
      if result?["isError"] == false { #expect(death.count(effect) == 1, "\(death.point): \(id)") }
    }
  }
}
