import Foundation
import Glibc
import PerdureTestKit
import PerdureValue
import TestPrograms
import Testing

@Suite(.serialized) struct RaceTests {
  /// Whether the tests may take their time.
  private var isLong: Bool { ProcessInfo.processInfo.environment["PERDURE_TESTS"] == "long" }

  @Test(arguments: ["sqlite", "jsonl"])
  func `processes that race for a store, and are killed in it, never own it together`(
    kind: String
  ) throws {
    let seed = UInt64.random(in: 1...1_000_000)
    print("RaceTests: \(kind), seed \(seed)")
    var random = SeededGenerator(seed: seed)
    let folder = try TestPaths.folder()
    defer { try? FileManager.default.removeItem(at: folder) }
    let end = Date.now.addingTimeInterval(60)
    var (rounds, deaths) = (0, 0)
    while isLong ? Date.now < end : rounds < 8 {
      rounds += 1
      deaths += try race(kind, folder, &random, "seed \(seed), round \(rounds)")
    }
    let check = try Program.run(
      [TestPaths.product("CrashProcess"), "raced", kind, folder.path],
      output: folder.appending(path: "check.out").path
    )
    #expect(check.status == 0, "seed \(seed): \(check.output)")
    #expect(!check.output.contains("violation"), "seed \(seed): \(check.output)")
    print("RaceTests: \(kind), \(rounds) rounds, \(deaths) killed, \(check.output)")
    let words = check.output.split(whereSeparator: \.isWhitespace)
    #expect(words.count == 4 && Int(words[1]) ?? 0 > rounds && Int(words[3]) ?? 0 > 3)
    #expect(deaths > 0)
  }

  /// Lets two processes race; returns how many of them died.
  private func race(
    _ kind: String,
    _ folder: URL,
    _ random: inout SeededGenerator,
    _ what: String
  ) throws -> Int {
    let racers = try (1...2).map { number in
      try Program(
        [
          TestPaths.product("CrashProcess"), "race", kind, folder.path,
          "\(random.next() >> 1)", "10",
        ],
        output: folder.appending(path: "racer-\(number).out").path
      )
    }
    let ends = racers.map { $0.end() }
    for end in ends {
      #expect(end.status == 0 || end.signal == SIGKILL, "\(what): \(end.output)")
      #expect(!end.output.contains("violation"), "\(what): \(end.output)")
    }
    return ends.count { $0.signal == SIGKILL }
  }
}
