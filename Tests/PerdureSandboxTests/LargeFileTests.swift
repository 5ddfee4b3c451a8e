import Foundation
import PerdureValue
import TestPrograms
import Testing

/// What reading and editing large files costs, in processes of their own.
@Suite struct LargeFileTests {
  private func run(_ tool: String, _ folder: Folder, _ arguments: JSON) async throws -> JSON {
    let words = [TestPaths.product("SandboxProcess"), tool, folder.path, arguments.compactText]
    // On a thread of its own: a test that waits would keep others from running.
    let end = try await withCheckedThrowingContinuation { continuation in
      Thread.detachNewThread {
        continuation.resume(
          with: Result { try Program.run(words, output: folder.path + ".log") }
        )
      }
    }
    defer { try? FileManager.default.removeItem(atPath: folder.path + ".log") }
    guard end.status == 0 else { throw Program.Failure(description: end.output) }
    return try JSON(parsing: end.output)
  }

  @Test func `fifty lines from the middle of five gigabytes cost little memory`() async throws {
    let folder = try Folder()
    defer { folder.remove() }
    let half: UInt64 = 2_500_000_000
    try Data("begin\n".utf8).write(to: URL(filePath: folder.at("huge")))
    let file = try FileHandle(forUpdating: URL(filePath: folder.at("huge")))
    try file.seek(toOffset: half)
    let lines = (1...200).map { "line \($0)\n" }.joined()
    try file.write(contentsOf: Data(("\n" + lines).utf8))
    try file.truncate(atOffset: 2 * half)
    try file.close()
    // Zeros in its first bytes would make it a binary file.
    let start = String(repeating: "text\n", count: 2_000)
    let again = try FileHandle(forUpdating: URL(filePath: folder.at("huge")))
    try again.write(contentsOf: Data(start.utf8))
    try again.close()
    let first = 2_000 + 1 + 1 + 50
    let answer = try await run(
      "read",
      folder,
      ["path": "huge", "offset": .int(Int64(first)), "limit": 50]
    )
    let expected = (51...100).map { "line \($0)" }.joined(separator: "\n")
    #expect(answer["text"]?.text == expected)
    let peak = try #require(answer["peak"]?.int)
    #expect(peak < 40 * 1_024, "\(peak) KiB")
  }

  @Test func `the beginning of five gigabytes costs little memory`() async throws {
    let folder = try Folder()
    defer { folder.remove() }
    let lines = (1...3_000).map { "line \($0)\n" }.joined()
    try Data(lines.utf8).write(to: URL(filePath: folder.at("huge")))
    let file = try FileHandle(forUpdating: URL(filePath: folder.at("huge")))
    try file.truncate(atOffset: 5_000_000_000)
    try file.close()
    let answer = try await run("read", folder, ["path": "huge"])
    #expect(answer["text"]?.text?.hasSuffix("\nline 2000") == true)
    #expect(answer["details"]?["truncation"]?["totalLines"] == .null)
    let peak = try #require(answer["peak"]?.int)
    #expect(peak < 40 * 1_024, "\(peak) KiB")
  }

  @Test func `a listing of a large folder costs memory for what is shown`() async throws {
    let folder = try Folder()
    defer { folder.remove() }
    for number in 0..<3_000 { try folder.write("f\(number)", "") }
    let answer = try await run("ls", folder, ["limit": 2])
    #expect(answer["text"]?.text == "f0\nf1")
  }

  @Test func `an edit in ten megabytes changes its place alone`() async throws {
    let folder = try Folder()
    defer { folder.remove() }
    let line = "0123456789012345678901234567890123456789 é\r\n"
    let half = String(repeating: line, count: 115_000)
    try folder.write("big", half + "the place\r\n" + half)
    let answer = try await run(
      "edit",
      folder,
      ["path": "big", "edits": [["oldText": "the place\n", "newText": "another\nplace\n"]]]
    )
    #expect(answer["error"] == nil)
    #expect(answer["details"]?["firstChangedLine"] == 115_001)
    #expect(try folder.text("big") == half + "another\r\nplace\r\n" + half)
  }
}
