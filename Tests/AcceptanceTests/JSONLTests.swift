import Glibc
import PerdureValue
import Testing

/// Stores in folders, as users see them.
@Suite struct JSONLTests {
  private let folder = Folder()

  private func run(_ store: String, _ prompt: String) -> Program.Finished {
    let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
    return Program.run(["run", "--store", store, "--faux", script, prompt], in: folder)
  }

  private func texts(_ store: String) -> [String] {
    let log = Program.run(["log", "--store", store, "--json"], in: folder)
    return log.events.compactMap { $0["kind"]?.text }
  }

  @Test func `a path with a slash at its end makes a store of JSON lines`() {
    let result = run(folder.file("store/"), "Hi")
    #expect(result.status == 0)
    #expect(result.output == "Hello.\n")
    #expect(folder.read("store/main.jsonl").hasPrefix(#"{"format":1,"type":"commit","seq":1,"#))
  }

  @Test func `a folder that is a store goes on with or without the slash`() {
    #expect(run(folder.file("store/"), "One.").status == 0)
    #expect(run(folder.file("store"), "Two.").status == 0)
    #expect(
      texts(folder.file("store"))
        == ["pi.user", "pi.assistant", "pi.user", "pi.assistant"]
    )
  }

  @Test func `the log tells when entries were written`() {
    #expect(run(folder.file("store/"), "Hi").status == 0)
    let log = Program.run(["log", "--store", folder.file("store"), "--json"], in: folder)
    let entries = log.events.filter { $0["type"] == "entry" }
    #expect(entries.count == 2 && entries.allSatisfy { $0["at"]?.int != nil })
  }

  @Test func `a killed run in a folder is resumed as it was recorded`() {
    let journal = Journal(in: folder)
    let store = folder.file("store/")
    let running = Program.start(
      [
        "run", "--store", store, "--plugin", Fixtures.safeGate, "--faux",
        Fixtures.gateScript(journal, in: folder), "Go.",
      ],
      in: folder
    )
    #expect(journal.line() == "started")
    let other = Program.run(["conversation", "archive", "1", "--store", store], in: folder)
    #expect(other.status == 75)
    #expect(texts(store).contains("pi.assistant"))
    running.signal(SIGKILL)
    #expect(running.wait().status == 137)
    folder.write("", to: "gate")
    let result = Program.run(["resume", "--store", store], in: folder)
    #expect(result.status == 0)
    #expect(result.output == "It says: the gate is open\n")
  }
}
