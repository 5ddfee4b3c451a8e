import Foundation
import PerdureModel
import PerdureSandbox
import PerdureTestKit
import Testing

@Suite struct ConformanceTests {
  @Test(
    arguments: EnvironmentConformance.cases(
      of: Set(Groups.all).subtracting([.execution, .sessions, .terminals])
    )
  )
  func `a folder is an environment`(test: EnvironmentConformance.Case) async throws {
    let folder = try Folder()
    defer { folder.remove() }
    let env = try TreeEnvironment.directory(at: folder.path)
    try await test.run(
      EnvironmentHarness(env) { path, target in try folder.link(path, to: target) }
    )
  }

  @Test(arguments: EnvironmentConformance.cases)
  func `the machine is an environment`(test: EnvironmentConformance.Case) async throws {
    let folder = try Folder()
    defer { folder.remove() }
    let env = try TreeEnvironment.local(cwd: folder.path, launcher: Launcher.path.get())
    let harness = EnvironmentHarness(env) { path, target in
      try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: target)
    }
    try await test.run(harness)
    await env.cleanup()
  }

  @Test func `a folder runs no commands`() async throws {
    let folder = try Folder()
    defer { folder.remove() }
    let env = try TreeEnvironment.directory(at: folder.path)
    #expect(!env.runsCommands)
    let error = await #expect(throws: ExecutionError.self) {
      try await env.execute(.shell("true"), ExecutionOptions(), nil)
    }
    #expect(error?.code == .shellUnavailable)
  }

  private enum Groups {
    static let all = EnvironmentConformance.Group.allCases
  }
}

/// A folder of a test's own.
struct Folder: Sendable {
  let path: String

  init() throws {
    let url = FileManager.default.temporaryDirectory.appending(path: "env-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    path = url.resolvingSymlinksInPath().path
  }

  func remove() { try? FileManager.default.removeItem(atPath: path) }

  /// The path of something in it on the machine.
  func at(_ path: String) -> String { "\(self.path)/\(path)" }

  func link(_ path: String, to target: String) throws {
    try FileManager.default.createSymbolicLink(
      atPath: at(path),
      withDestinationPath: target
    )
  }

  func write(_ path: String, _ text: String) throws {
    try text.write(toFile: at(path), atomically: false, encoding: .utf8)
  }

  func text(_ path: String) throws -> String {
    try String(contentsOfFile: at(path), encoding: .utf8)
  }
}
