package import Foundation

/// Where the build puts what the tests run, and where they may write.
package enum TestPaths {
  /// The folder of the built products: that of the test bundle.
  package static let products: URL = {
    // Swift Testing is started with the bundle among its arguments.
    let bundle = CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? CommandLine.arguments[0]
    return URL(fileURLWithPath: bundle).deletingLastPathComponent()
  }()

  /// The root of the package.
  package static let package = URL(fileURLWithPath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

  /// The path of a built executable.
  package static func product(_ name: String) -> String { products.appending(path: name).path }

  /// Makes a new folder, which the caller removes.
  package static func folder() throws -> URL {
    let folder = FileManager.default.temporaryDirectory
      .appending(path: "perdure-test-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    return folder
  }

  /// Builds a C plugin with the plain compiler and returns its path.
  package static func plugin(_ source: String, in folder: URL) throws -> String {
    let file = package.appending(path: source)
    let name = file.deletingPathExtension().lastPathComponent
    let library = folder.appending(path: "\(name).so").path
    let include = package.appending(path: "Sources/CPerdureABI/include").path
    let end = try Program.run(
      [
        "cc", "-shared", "-fPIC", "-O1", "-fvisibility=hidden", "-I", include, "-o", library,
        file.path,
      ],
      output: folder.appending(path: "\(name).log").path
    )
    guard end.status == 0 else { throw Program.Failure(description: end.output) }
    return library
  }
}
