import Glibc
import PerdureValue
import Testing

/// Calls that wait for people, as users of the program see them.
@Suite struct ApprovalTests {
  private let folder = Folder()

  private var store: [String] { ["--store", folder.file("s.sqlite")] }

  private func run(_ more: [String]) -> Program.Finished {
    Program.run(
      ["run"] + store + [
        "--plugin", Fixtures.wordcount, "--faux", Fixtures.wordcountScript, "--require-approval",
        "wordcount",
      ] + more + ["How long is it?"],
      in: folder
    )
  }

  private func perdure(_ words: [String]) -> Program.Finished {
    Program.run(Array(words.prefix(1)) + store + words.dropFirst(), in: folder)
  }

  private func pending() -> [JSON] {
    perdure(["pending", "--json"]).events.filter { $0["type"] == "approval" }
  }

  @Test func `without a terminal a call is denied and the status is 7`() {
    let result = run([])
    #expect(result.status == 7)
    #expect(result.error.contains("nobody could be asked"))
    #expect(result.error.contains("--approvals wait"))
    #expect(pending().isEmpty)
  }

  @Test func `a run that waits ends with the status 7 and says how to go on`() throws {
    let result = run(["--approvals", "wait"])
    #expect(result.status == 7)
    #expect(result.output == "")
    let approval = try #require(pending().first)
    let id = try #require(approval["id"]?.int)
    #expect(approval["tool"] == "wordcount")
    #expect(result.error.contains("perdure approve --store"))
    #expect(result.error.contains("\(id)"))
    // Resuming without an answer leaves everything as it is.
    #expect(perdure(["resume"]).status == 7)
    #expect(pending().count == 1)
  }

  @Test func `an approved call is made by the next resume`() throws {
    _ = run(["--approvals", "wait"])
    let id = try #require(pending().first?["id"]?.int)
    let approved = perdure(["approve", "\(id)"])
    #expect(approved.status == 0)
    #expect(approved.output.hasPrefix("approved \(id): "))
    #expect(pending().isEmpty)
    let resumed = perdure(["resume"])
    #expect(resumed.status == 0)
    #expect(resumed.output == "It has 10 words, 2 lines.\n")
  }

  @Test func `a denied call is told to the model with its reason`() throws {
    _ = run(["--approvals", "wait"])
    let id = try #require(pending().first?["id"]?.int)
    #expect(perdure(["deny", "\(id)", "--reason", "not today"]).status == 0)
    #expect(perdure(["resume"]).status == 0)
    let log = perdure(["log", "--json"]).events.filter { $0["kind"] == "pi.tool-result" }
    #expect(log.first?.compactText.contains("not today") == true)
  }

  @Test(arguments: [
    ["approve", "x"], ["approve", "1"], ["deny"], ["approve", "7", "--reason", "r"],
  ])
  func `what is no approval is refused`(_ words: [String]) {
    _ = run(["--approvals", "wait"])
    let result = perdure(words)
    #expect([2, 3].contains(result.status))
    #expect(pending().count == 1)
  }

  @Test func `asking needs a terminal`() {
    let result = run(["--approvals", "ask"])
    #expect(result.status == 2)
    #expect(result.error.contains("needs a terminal"))
  }

  @Test func `an interrupt aborts the work where that is wanted`() {
    let journal = Journal(in: folder)
    let running = Program.start(
      ["run"] + store + [
        "--plugin", Fixtures.unsafeGate, "--faux", Fixtures.gateScript(journal, in: folder),
        "--abort-on-interrupt", "Go",
      ],
      in: folder
    )
    #expect(journal.line() != nil)
    running.signal(SIGINT)
    let result = running.wait()
    #expect(result.status == 130)
    #expect(result.error.contains("nothing to continue"))
    let resumed = perdure(["resume"])
    #expect(resumed.status == 0)
    #expect(resumed.output == "")
  }
}
