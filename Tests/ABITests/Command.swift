import Foundation
import TestPrograms

/// Runs the compilers and other programs of the tests.
enum Command {
  /// Runs a program of the path; returns what it prints, throws if it fails.
  @discardableResult static func run(_ words: [String]) throws -> String {
    let end = try ended(words)
    guard end.status == 0 else {
      throw Program.Failure(description: "\(words.joined(separator: " ")): \(end.output)")
    }
    return end.output
  }

  /// Gives the id of a process that is gone.
  static func deadProcess() throws -> Int32 { try ended(["true"]).process }

  private static func ended(_ words: [String]) throws -> Program.End {
    let folder = try TestPaths.folder()
    defer { try? FileManager.default.removeItem(at: folder) }
    return try Program.run(words, output: folder.appending(path: "output").path)
  }
}
