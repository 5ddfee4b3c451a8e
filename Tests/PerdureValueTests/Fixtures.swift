import Foundation
import PerdureValue

/// The data files of the tests, found beside this source.
enum Fixtures {
  static let folder = URL(filePath: #filePath)
    .deletingLastPathComponent().deletingLastPathComponent().appending(path: "Fixtures")

  static func bytes(_ path: String) throws -> [UInt8] {
    Array(try Data(contentsOf: folder.appending(path: path)))
  }

  /// The paths of the files in a folder that end with `suffix`, in order.
  static func paths(in path: String, suffix: String = ".json") throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: folder.appending(path: path).path)
      .filter { $0.hasSuffix(suffix) }.sorted().map { "\(path)/\($0)" }
  }
}
