import PerdureValue
import Testing

/// Stores that are not there, are damaged or have no room, as users meet them.
@Suite struct StoreRefusalTests {
  private let folder = Folder()

  private func perdure(_ words: String...) -> Program.Finished { Program.run(words, in: folder) }

  private func names() -> String {
    Program.runTool(["ls", "-A", folder.file("d")], in: folder).output
  }

  private func fill(_ name: String) -> String {
    let store = folder.file(name)
    let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
    let result = perdure("run", "--store", store, "--faux", script, "Hi")
    #expect(result.status == 0, "\(result.error)")
    return store
  }

  private func change(_ store: String, _ sql: String) {
    let code = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])"
    let sql = "PRAGMA ignore_check_constraints = ON; " + sql
    let result = Program.runTool(["python3", "-c", code, store, sql], in: folder)
    #expect(result.status == 0, "\(result.error)")
  }

  @Test(arguments: ["1", "2", "9"])
  func `the newest entries are not shown without the damage behind them`(_ last: String) {
    let store = fill("s.sqlite")
    change(store, "UPDATE entries SET record = 'x' WHERE id = (SELECT max(id) FROM entries)")
    let result = perdure("log", "--store", store, "--last", last)
    #expect(result.status == 3)
    #expect(result.output.contains("Hi"))
    #expect(result.error.contains("is damaged in entry 10"))
    #expect(result.error.split(separator: "\n").count == 1)
  }

  @Test func `damage among the newest entries is named once`() {
    let store = fill("s.sqlite")
    _ = fill("s.sqlite")
    change(store, "UPDATE entries SET record = 'x' WHERE id = 10")
    let result = perdure("log", "--store", store, "--last", "3")
    #expect(result.status == 3)
    #expect(result.error.split(separator: "\n").count == 1)
    #expect(perdure("log", "--store", store, "--last", "1").status == 0)
  }

  private static let writing = [
    ["store", "compact"], ["resume"], ["compact"], ["conversation", "archive", "1"],
    ["conversation", "delete", "1"], ["conversation", "unarchive", "1"],
  ]

  @Test(arguments: writing)
  func `a verb that changes a store makes none in an empty folder`(_ words: [String]) {
    #expect(Program.runTool(["mkdir", folder.file("d")], in: folder).status == 0)
    let result = Program.run(words + ["--store", folder.file("d")], in: folder)
    #expect(result.status == 3)
    #expect(result.error.contains("there is no store at "))
    #expect(names() == "")
  }

  @Test(arguments: writing)
  func `a file that is no store gets no lock file beside it`(_ words: [String]) {
    #expect(Program.runTool(["mkdir", folder.file("d")], in: folder).status == 0)
    let file = folder.write("something else", to: "d/text")
    let result = Program.run(words + ["--store", file], in: folder)
    #expect(result.status == 3)
    #expect(result.error.contains("is not a store"))
    #expect(names() == "text\n")
  }

  @Test(arguments: ["backup", "export"])
  func `no copy is made in the folder of the store`(_ verb: String) {
    let store = fill("d/")
    let before = names()
    let result = perdure("store", verb, store + "copy", "--store", store)
    #expect(result.status == 3)
    #expect(result.error.contains("lies in the folder of the store"))
    #expect(names() == before)
  }

  @Test func `an export of a damaged store names the row`() {
    let store = fill("s.sqlite")
    change(store, "UPDATE entries SET record = 'x' WHERE id = 10")
    let result = perdure("store", "export", folder.file("out"), "--store", store)
    #expect(result.status == 3)
    #expect(result.error.contains("s.sqlite is damaged in entry 10"))
    #expect(result.error.contains("'perdure store check'") && !folder.has("out"))
  }

  @Test func `archiving twice says that nothing changed`() {
    let store = fill("s.sqlite")
    #expect(perdure("conversation", "archive", "1", "--store", store).status == 0)
    let second = perdure("conversation", "archive", "1", "--store", store)
    #expect(second.status == 0 && second.output.contains("nothing changed"))
    let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
    let refused = perdure("run", "--store", store, "--faux", script, "Hi")
    #expect(refused.error.contains("run `perdure conversation unarchive 1 --store "))
    #expect(perdure("conversation", "unarchive", "1", "--store", store).status == 0)
    let fourth = perdure("conversation", "unarchive", "1", "--store", store)
    #expect(fourth.output.contains("nothing changed"))
  }

  @Test func `a conversation that is not there is answered with those that are`() {
    let result = perdure("conversation", "archive", "99", "--store", fill("s.sqlite"))
    #expect(result.status == 3 && result.error.contains("has no conversation 99; it has 1"))
  }

  @Test(arguments: ["", "copy/"])
  func `a copy needs a name that a file can have`(_ name: String) {
    let result = perdure("store", "backup", name, "--store", fill("s.sqlite"))
    #expect(result.status == 2)
  }

  @Test(arguments: [
    ["store", "check"], ["store", "export"], ["store", "compact"], ["resume"], ["compact"],
    ["log"], ["conversation", "list"], ["conversation", "archive", "1"], ["store", "backup", "x"],
  ])
  func `a store in memory is refused by every verb that needs one`(_ words: [String]) {
    let result = Program.run(words + ["--store", ":memory:"], in: folder)
    #expect(result.status == 2 && result.error.contains("in memory is gone already"))
  }

  @Test func `a lock file is private`() {
    _ = fill("s.sqlite")
    let mode = Program.runTool(["stat", "-c", "%a", folder.file("s.sqlite.lock")], in: folder)
    #expect(mode.output == "600\n")
  }

  @Test(arguments: ["s.sqlite", "s/"])
  func `a full disk is a store that is unwritable`(_ name: String) {
    let store = fill(name)
    let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
    let result = Program.runTool(
      [
        "sh", "-c", #"ulimit -f 8; exec "$0" "$@""#, Program.products + "/perdure", "run",
        "--store", store, "--faux", script, String(repeating: "long ", count: 4_000),
      ],
      in: folder
    )
    #expect(result.status == 3)
    #expect(result.error.contains("cannot grow"))
    #expect(perdure("store", "check", "--store", store).status == 0)
  }
}
