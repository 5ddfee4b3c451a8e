import Foundation
import PerdureTestKit
import PerdureValue
import TestPrograms
import Testing

/// Versions of a plugin that follow each other in a process of their own, which the benchmark is: it
/// counts what fails and what each closed copy leaves behind.
@Suite(.timeLimit(.minutes(60))) struct UpgradeTests {
  private static let benchmark = TestPaths.product("perdure-bench")

  /// Runs the benchmark and gives the objects that it prints, in order.
  private static func run(_ place: Place, upgrades: Int, callers: Int) throws -> [JSON] {
    let folder = try Fixtures.folder()
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let end = try Program.run(
      [
        benchmark, "upgrades", "--dir", folder, "--mode",
        place == .runner ? "runner" : "in-process", "--n", "\(upgrades)", "--width",
        "\(callers)", "--plugin", InstallBench.plugin("1.0.0"), "--next",
        InstallBench.plugin("1.0.1"),
      ],
      output: folder + "/output"
    )
    try #require(end.status == 0, "\(end.output)")
    return try end.output.split(separator: "\n").map { try JSON(parsing: Array($0.utf8)) }
  }

  @Test(arguments: Place.allCases) func `no call fails while versions follow each other`(
    place: Place
  ) throws {
    let upgrades = Effort.choose(60, long: place == .runner ? 10_000 : 1_000)
    let lines = try Self.run(place, upgrades: upgrades, callers: Effort.choose(16, long: 64))
    let load = try #require(lines.first { $0["callers"] != nil })
    #expect(load["failed"] == 0)
    #expect(load["upgrades"]?.int == Int64(upgrades))
    #expect((load["calls"]?.int ?? 0) > 0)
    // A process of its own takes its copy along.
    let copies = load["copies_mapped"]?.int ?? 0
    #expect(place == .runner ? copies == 0 : copies >= upgrades)
  }

  @Test(arguments: Place.allCases) func `a closed copy leaves little behind`(place: Place) throws {
    let lines = try Self.run(place, upgrades: 1, callers: 1)
    let kibibytes = try #require(lines.first?["kib_per_upgrade"]?.double)
    #expect(kibibytes <= (place == .runner ? 24 : 40))
  }

  @Test func `a host full of closed copies refuses the next one and goes on`() throws {
    let lines = try Self.run(.inProcess, upgrades: 1, callers: 1)
    let refusal = try #require(lines.last?["refusal"]?.text)
    #expect(refusal.contains("closed plugins are still mapped; version 1.0.1 goes on"))
    #expect(refusal.contains("restart the host"))
    #expect(lines.last?["failed"] == 0)
  }
}
