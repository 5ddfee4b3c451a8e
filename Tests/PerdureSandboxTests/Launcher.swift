import Foundation

/// `perdure-sandbox`, built by its own script, because it is no product of the package.
enum Launcher {
  struct BuildFailure: Error {
    var status: Int32
  }

  /// The program's path, once for the test process.
  static let path = Result { try build() }

  private static func build() throws -> String {
    let root = URL(filePath: #filePath)
      .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
    let program = root.appending(path: ".build/sandbox/perdure-sandbox").path
    let process = Process()
    process.executableURL = root.appending(path: "Sources/PerdureSandboxLauncher/build")
    process.arguments = [program]
    try process.run()
    process.waitUntilExit()
    guard process.terminationStatus == 0 else {
      throw BuildFailure(status: process.terminationStatus)
    }
    return program
  }
}
