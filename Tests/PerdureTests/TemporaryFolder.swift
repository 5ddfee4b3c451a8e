import Foundation

/// A folder that goes with its last holder.
final class TemporaryFolder: Sendable {
  let path: String

  init() throws {
    path = "/tmp/perdure-facade-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }
}
