import Foundation
import Perdure
import TestPrograms
import Testing

/// Processes that die while they change the installed plugins.
struct InstallCrashTests {
  /// Runs a change of its own process that dies before a step; returns the steps if it lived.
  private func change(
    _ bench: InstallBench,
    _ verb: String,
    _ subject: String,
    dyingAt step: Int
  ) throws -> [Substring]? {
    let end = try Program.run(
      [
        TestPaths.product("CrashProcess"), "install", bench.folder + "/plugins", subject, verb,
        "\(step)",
      ],
      output: bench.folder + "/output"
    )
    if end.signal == SIGKILL { return nil }
    try #require(end.status == 0, "\(end.output)")
    return end.output.split(separator: "\n")
  }

  @Test(arguments: ["install", "upgrade", "rollback", "uninstall"])
  func `whoever dies at a step leaves what was or what is to be`(verb: String) async throws {
    let (old, new) = (try InstallBench.plugin("1.0.0"), try InstallBench.plugin("1.1.0"))
    var step = 0
    while true {
      step += 1
      let bench = try InstallBench()
      if verb != "install" {
        try await bench.installation.install(old, InstallBench.unsigned)
      }
      if verb == "rollback" {
        try await bench.installation.upgrade(new, InstallBench.unsigned)
      }
      let before = try bench.installation.list().map(\.version)
      let subject = verb == "install" || verb == "upgrade" ? new : "test.versions"
      let steps = try change(bench, verb, subject, dyingAt: step)
      let left = try bench.installation.list().map(\.version)
      let wanted: [String] =
        switch verb {
        case "rollback": ["1.0.0"]
        case "uninstall": []
        default: ["1.1.0"]
        }
      #expect(left == before || left == wanted, "\(verb) died at step \(step): \(left)")
      #expect(try bench.installation.verify() == [], "\(verb) died at step \(step)")
      // The next change goes on from there, and clears what was left.
      let next = try InstallBench.plugin("1.2.0")
      if left.isEmpty {
        try await bench.installation.install(next, InstallBench.unsigned)
      } else {
        try await bench.installation.upgrade(next, InstallBench.unsigned)
      }
      #expect(try bench.installation.verify() == [])
      #expect(try bench.files().count == left.count + 1, "\(verb) died at step \(step)")
      try FileManager.default.removeItem(atPath: bench.folder)
      guard let steps else { continue }
      #expect(steps.count == step - 1)
      #expect(steps.count >= (verb == "install" || verb == "upgrade" ? 8 : 3))
      return
    }
  }
}
