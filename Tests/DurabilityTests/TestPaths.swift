import Foundation

/// Where the build puts what the tests run.
enum TestPaths {
  /// The folder of the built products: that of the test bundle.
  static let products: URL = {
    // Swift Testing is started with the bundle among its arguments.
    let bundle = CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? CommandLine.arguments[0]
    return URL(fileURLWithPath: bundle).deletingLastPathComponent()
  }()

  /// A built executable.
  static func product(_ name: String) -> URL { products.appending(path: name) }

  /// A new folder, which the caller removes.
  static func folder() throws -> URL {
    let folder = FileManager.default.temporaryDirectory
      .appending(path: "perdure-durability-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    return folder
  }
}

/// Runs a program to its end and returns its exit status and what it printed.
func runProgram(_ program: URL, _ arguments: [String]) throws -> (status: Int32, output: String) {
  let process = Process()
  process.executableURL = program
  process.arguments = arguments
  let pipe = Pipe()
  process.standardOutput = pipe
  process.standardError = pipe
  try process.run()
  let data = pipe.fileHandleForReading.readDataToEndOfFile()
  process.waitUntilExit()
  return (process.terminationStatus, String(decoding: data, as: UTF8.self))
}
