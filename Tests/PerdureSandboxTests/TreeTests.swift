import Foundation
import PerdureModel
import PerdureSandbox
import Synchronization
import Testing

@Suite struct TreeTests {
  @Test func `two folders have ids of their own, and one folder has one`() async throws {
    let (first, second) = (try Folder(), try Folder())
    defer {
      first.remove()
      second.remove()
    }
    let env = try TreeEnvironment.directory(at: first.path)
    #expect(try TreeEnvironment.directory(at: first.path).id == env.id)
    #expect(try TreeEnvironment.directory(at: second.path).id != env.id)
  }

  @Test func `a file that is replaced all the time keeps its path`() async throws {
    let folder = try Folder()
    defer { folder.remove() }
    let env = try TreeEnvironment.directory(at: folder.path)
    try await env.writeFile("f", "x")
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { for _ in 0..<2_000 { try await env.writeFile("f", "x") } }
      for _ in 0..<2_000 { #expect(try await env.canonicalPath("f") == "/f") }
      try await group.waitForAll()
    }
  }

  @Test func `only so many rules about what is ignored count, and only short ones`() async throws {
    let folder = try Folder()
    defer { folder.remove() }
    let env = try TreeEnvironment.directory(at: folder.path)
    for name in ["first", "last", "longer", "dir/x.o", "a.c", "dir/b.c", ".git/HEAD"] {
      try await env.writeFile(name, "x")
    }
    let many = (0..<20_000).map { "rule\($0)" }
    let rules = ["first", "[l]onger" + String(repeating: "*", count: 1_000), "/*.c", "*.o"]
    try folder.write(".gitignore", (rules + many + ["last"]).joined(separator: "\n"))
    let listing = try await env.listFiles("/", ListingBounds(maxEntries: 100))
    #expect(
      listing.entries.map(\.path) == [".gitignore", "dir", "dir/b.c", "last", "longer"]
    )
  }

  @Test func `a folder that is missing is told of`() throws {
    let error = #expect(throws: PerdureError.self) {
      try TreeEnvironment.directory(at: "/no/such/folder")
    }
    #expect(error?.code == .file)
    #expect(error?.message == "the folder '/no/such/folder' cannot be opened")
  }

  @Test func `the machine takes home folders and URLs`() throws {
    let env = try TreeEnvironment.local(cwd: "/usr")
    #expect(try env.absolutePath("~") == NSHomeDirectory())
    #expect(try env.absolutePath("~/x") == "\(NSHomeDirectory())/x".replacing("//", with: "/"))
    #expect(try env.absolutePath("file:///a%20b/c") == "/a b/c")
    #expect(try env.absolutePath("bin") == "/usr/bin")
    #expect(throws: FileError.self) { try env.absolutePath("file://elsewhere/a") }
  }

  @Test func `what looks like a key is not given to commands`() async throws {
    unsafe setenv("PERDURE_TEST_API_KEY", "hidden", 1)
    unsafe setenv("PERDURE_TEST_PLAIN", "shown", 1)
    let env = try TreeEnvironment.local(cwd: "/")
    let lines = LineLog()
    _ = try await env.execute(.arguments(["env"]), ExecutionOptions()) { lines.add($0.text) }
    #expect(lines.text.contains("PERDURE_TEST_PLAIN=shown"))
    #expect(!lines.text.contains("hidden"))
  }

  @Test func `a shell that is missing is told of`() async throws {
    let env = try TreeEnvironment.local(cwd: "/", shell: "/no/such/shell")
    let error = await #expect(throws: ExecutionError.self) {
      try await env.execute(.shell("true"), ExecutionOptions(), nil)
    }
    #expect(error?.code == .shellUnavailable)
  }

  @Test func `cleaning up kills what runs`() async throws {
    let env = try TreeEnvironment.local(cwd: "/")
    let error = await #expect(throws: ExecutionError.self) {
      try await env.execute(.shell("echo begun; sleep 600"), ExecutionOptions()) { _ in
        await env.cleanup()
      }
    }
    #expect(error?.code == .aborted)
  }

  @Test func `sixty-four commands beside each other get their own output`() async throws {
    let env = try TreeEnvironment.local(cwd: "/")
    let texts = try await withThrowingTaskGroup(of: (Int, String).self) { group in
      for number in 0..<64 {
        group.addTask {
          let lines = LineLog()
          _ = try await env.execute(
            .shell("for i in 1 2 3 4 5; do echo \(number); done"),
            ExecutionOptions()
          ) { lines.add($0.text) }
          return (number, lines.text)
        }
      }
      return try await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
    }
    for number in 0..<64 {
      #expect(texts[number] == String(repeating: "\(number)\n", count: 5))
    }
  }

  @Test func `a file of output is full at its limit`() async throws {
    let env = try TreeEnvironment.local(cwd: "/")
    let spill = ExecutionOptions.Spill(afterBytes: 10, afterLines: 10, maxBytes: 1_000)
    let result = try await env.execute(
      .shell("seq 1 10000"),
      ExecutionOptions(spill: spill),
      nil
    )
    let path = try #require(result.spillPath)
    #expect(result.spillTruncated)
    #expect(try await env.fileInfo(path).size == 1_000)
    try await env.remove(path)
  }
}

/// Collects output.
final class LineLog: Sendable {
  private let collected = Mutex("")

  func add(_ text: String) { collected.withLock { $0 += text } }

  var text: String { collected.withLock { $0 } }
}
