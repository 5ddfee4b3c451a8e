import Glibc
import PerdureValue
import Testing

/// Archiving, deletion and compaction as users see them.
@Suite struct RemovalTests {
  enum Kind: String, CaseIterable, CustomTestStringConvertible {
    case file = "s.sqlite"
    case folder = "s/"

    var testDescription: String { rawValue }
  }

  private let folder = Folder()

  private func store(_ kind: Kind) -> String { folder.file(kind.rawValue) }

  @discardableResult
  private func prompt(_ kind: Kind, _ text: String, _ more: String...) -> Program.Finished {
    let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
    return Program.run(
      ["run", "--store", store(kind), "--faux", script] + more + [text],
      in: folder
    )
  }

  private func call(_ kind: Kind, _ words: String...) -> Program.Finished {
    Program.run(words + ["--store", store(kind)], in: folder)
  }

  private func conversations(_ kind: Kind) -> [JSON] {
    call(kind, "conversation", "list", "--json").events.filter { $0["type"] == "conversation" }
  }

  /// A store with two conversations; returns the id of the second.
  private func makeTwo(_ kind: Kind) -> String {
    prompt(kind, "root words")
    prompt(kind, "secret words", "--conversation", "new")
    return "\(conversations(kind).last?["id"]?.int ?? 0)"
  }

  @Test(arguments: Kind.allCases)
  func `a list names the conversations with what is special about them`(_ kind: Kind) {
    let second = makeTwo(kind)
    _ = call(kind, "conversation", "archive", second)
    let list = call(kind, "conversation", "list")
    #expect(list.status == 0)
    #expect(list.output.contains(/1  \d{4}-\d\d-\d\d [^\n]*00:00\n/))
    #expect(list.output.contains("00:00  archived\n"))
    let listed = conversations(kind)
    #expect(listed.map { $0["archivedAt"] != nil } == [false, true])
    #expect(listed.allSatisfy { $0["newestAt"]?.int != nil })
  }

  @Test(arguments: Kind.allCases)
  func `an archived conversation takes no prompt until it is opened again`(_ kind: Kind) {
    let second = makeTwo(kind)
    let archived = call(kind, "conversation", "archive", second)
    #expect(archived.status == 0)
    #expect(archived.output == "archived conversation \(second)\n")
    let refused = prompt(kind, "more", "--conversation", second)
    #expect(refused.status == 3)
    #expect(refused.error.contains("conversation \(second) is archived"))
    #expect(refused.error.contains("run `perdure conversation unarchive \(second)"))
    #expect(call(kind, "log", second).output.contains("secret words"))
    let opened = call(kind, "conversation", "unarchive", second, "--json")
    #expect(opened.events.first?["status"] == "open")
    #expect(prompt(kind, "more", "--conversation", second).status == 0)
  }

  @Test(arguments: Kind.allCases)
  func `a deleted conversation is gone, and a compacted store holds no word of it`(_ kind: Kind) {
    let second = makeTwo(kind)
    let deleted = call(kind, "conversation", "delete", second)
    #expect(deleted.status == 0)
    #expect(deleted.output.hasPrefix("deleted conversation \(second): 2 entries, 1 tasks"))
    #expect(conversations(kind).map { $0["id"] } == [1])
    #expect(call(kind, "log", second).status == 3)
    #expect(prompt(kind, "more", "--conversation", second).status == 3)
    let compacted = call(kind, "store", "compact", "--json")
    #expect(compacted.status == 0)
    #expect(compacted.events == [["tasks": 0, "submissions": 0, "documents": 0]])
    let found = Program.runTool(["grep", "-rl", "secret words", store(kind)], in: folder)
    #expect(found.status == 1, "\(found.output)")
    #expect(prompt(kind, "root again").status == 0)
  }

  @Test(arguments: Kind.allCases)
  func `what is old is removed when a store is compacted`(_ kind: Kind) {
    prompt(kind, "words")
    let young = call(kind, "store", "compact", "--older-than", "1d")
    #expect(young.output == "removed 0 tasks and 0 submissions; compacted\n")
    let old = call(kind, "store", "compact", "--older-than=0s", "--json")
    // A submission of the command line has a request id or none; tasks always go.
    #expect(old.events.first?["tasks"] == 1)
    #expect(call(kind, "log").output.contains("words"))
    #expect(prompt(kind, "more").output == "Hello.\n")
  }

  @Test func `what cannot be deleted is named with the reason`() {
    _ = makeTwo(.file)
    let root = call(.file, "conversation", "delete", "1")
    #expect(root.status == 3)
    #expect(root.error.contains("the root conversation cannot be deleted"))
    let missing = call(.file, "conversation", "delete", "999", "--json")
    #expect(missing.status == 3)
    #expect(missing.error.contains(#""code":"not_found""#))
  }

  @Test func `a conversation with unfinished work is neither archived nor deleted`() {
    let journal = Journal(in: folder)
    let running = Program.start(
      [
        "run", "--store", store(.file), "--conversation", "new", "--plugin", Fixtures.safeGate,
        "--faux", Fixtures.gateScript(journal, in: folder), "Go.",
      ],
      in: folder
    )
    #expect(journal.line() == "started")
    let id = "\(conversations(.file).last?["id"]?.int ?? 0)"
    #expect(call(.file, "conversation", "delete", id).status == 75)
    running.signal(SIGKILL)
    _ = running.wait()
    for verb in ["delete", "archive"] {
      let refused = call(.file, "conversation", verb, id)
      #expect(refused.status == 75, "\(refused.error)")
      #expect(refused.error.contains("before its task"))
    }
    #expect(call(.file, "store", "compact", "--older-than", "0s").status == 0)
    folder.write("", to: "gate")
    let resumed = Program.run(["resume", "--store", store(.file)], in: folder)
    #expect(resumed.output == "It says: the gate is open\n")
  }

  @Test(arguments: [
    (["store", "compact", "--older-than", "soon"], 2, "--older-than cannot be 'soon'"),
    (["conversation", "delete"], 2, "conversation delete needs ID"),
    (["conversation", "archive", "first"], 2, "'first' is no conversation"),
    (["conversation"], 2, "write 'perdure conversation list'"),
  ])
  func `what cannot be understood is usage`(
    _ words: [String],
    _ status: Int32,
    _ sentence: String
  ) {
    let result = Program.run(words, in: folder)
    #expect(result.status == status)
    #expect(result.error.contains(sentence), "\(result.error)")
  }

  @Test(arguments: [["store", "compact"], ["conversation", "delete", "2"]])
  func `a store that does not exist is not made`(_ words: [String]) {
    let result = Program.run(words + ["--store", folder.file("none.sqlite")], in: folder)
    #expect(result.status == 3)
    #expect(result.error.contains("there is no store at"))
    #expect(folder.read("none.sqlite") == "")
  }
}
