import Glibc
import PerdureValue
import Testing

/// The verbs that look after a store, as users run them.
@Suite struct StoreVerbTests {
  private let folder = Folder()

  /// A store of one kind in a name that its path shows.
  enum Kind: String, CaseIterable, Sendable {
    case file = "store.sqlite"
    case folder = "store/"
  }

  private func perdure(_ words: String...) -> Program.Finished { Program.run(words, in: folder) }

  private func fill(_ kind: Kind) -> String {
    let store = folder.file(kind.rawValue)
    let result = perdure(
      "run",
      "--store",
      store,
      "--plugin",
      Fixtures.wordcount,
      "--faux",
      Fixtures.wordcountScript,
      "Count."
    )
    #expect(result.status == 0, "\(result.error)")
    return store
  }

  private func start(_ kind: Kind, _ journal: Journal) -> (String, Program.Running) {
    let store = folder.file(kind.rawValue)
    let running = Program.start(
      [
        "run", "--store", store, "--plugin", Fixtures.safeGate, "--faux",
        Fixtures.gateScript(journal, in: folder), "Go.",
      ],
      in: folder
    )
    #expect(journal.line() == "started")
    return (store, running)
  }

  private func change(_ store: String, _ sql: String) {
    let code = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])"
    let result = Program.runTool(["python3", "-c", code, store, sql], in: folder)
    #expect(result.status == 0, "\(result.error)")
  }

  // MARK: Check

  @Test(arguments: Kind.allCases)
  func `a check of a sound store ends with 0`(_ kind: Kind) {
    let store = fill(kind)
    let result = perdure("store", "check", "--store", store)
    #expect(result.status == 0)
    #expect(result.output.hasPrefix("nothing is broken in ") && result.error == "")
    let events = perdure("store", "check", "--json", "--store", store).events
    #expect(events.map { $0["type"] } == ["header", "result"])
    #expect(events.last?["findings"] == 0 && events.last?["exit"] == 0)
  }

  @Test func `a check names what is broken, a line for each, and ends with 1`() {
    let store = fill(.file)
    change(store, "UPDATE entries SET conversation_id = 7 WHERE id = 7; DROP TABLE submissions")
    let result = perdure("store", "check", "--store", store)
    #expect(result.status == 1)
    #expect(result.output.contains("entry 7: its column conversation_id is 7"))
    #expect(result.output.contains("table submissions: it is missing"))
    let events = perdure("store", "check", "--json", "--store", store).events
    let finding = events.first { $0["code"] == "column" }
    #expect(finding?["type"] == "finding" && finding?["object"] == "entry 7")
    #expect(events.last?["exit"] == 1 && events.last?["findings"]?.int ?? 0 >= 2)
  }

  @Test func `a store that cannot be read at all ends a check with 3`() {
    #expect(perdure("store", "check", "--store", folder.file("none")).status == 3)
    let file = folder.write(String(repeating: "no store", count: 1_000), to: "other")
    let result = perdure("store", "check", "--store", file)
    #expect(result.status == 3)
    #expect(result.error.contains("is not a store"))
  }

  @Test(arguments: Kind.allCases)
  func `a check beside the owner changes nothing`(_ kind: Kind) throws {
    let journal = Journal(in: folder)
    let (store, running) = start(kind, journal)
    let before = Program.runTool(["ls", "-lR", "--time-style=full-iso", store], in: folder).output
    let result = perdure("store", "check", "--store", store)
    #expect(result.status == 0, "\(result.output)")
    let after = Program.runTool(["ls", "-lR", "--time-style=full-iso", store], in: folder).output
    #expect(before == after)
    running.signal(SIGKILL)
    _ = running.wait()
    // Nor does it repair what a killed owner left.
    #expect(perdure("store", "check", "--store", store).status == 0)
    folder.write("", to: "gate")
    #expect(perdure("resume", "--store", store).output == "It says: the gate is open\n")
  }

  // MARK: Backup

  @Test(arguments: Kind.allCases)
  func `a copy that is made beside the owner goes on by itself`(_ kind: Kind) {
    let journal = Journal(in: folder)
    let (store, running) = start(kind, journal)
    let copy = folder.file("copy")
    let result = perdure("store", "backup", copy, "--store", store)
    #expect(result.status == 0, "\(result.error)")
    #expect(perdure("store", "check", "--store", copy).status == 0)
    #expect(!folder.has("copy.partial") && !folder.has("copy.partial.lock"))
    folder.write("", to: "gate")
    #expect(running.wait().output == "It says: the gate is open\n")
    #expect(perdure("resume", "--store", copy).output == "It says: the gate is open\n")
  }

  @Test func `a copy overwrites nothing`() {
    let store = fill(.file)
    folder.write("mine", to: "copy")
    let result = perdure("store", "backup", folder.file("copy"), "--store", store)
    #expect(result.status == 3)
    #expect(result.error.contains("copy exists already"))
    #expect(folder.read("copy") == "mine")
  }

  @Test func `a copy of a damaged store is made and told apart`() {
    let store = fill(.file)
    change(store, "UPDATE entries SET conversation_id = 7 WHERE id = 7")
    let result = perdure("store", "backup", folder.file("copy"), "--store", store)
    #expect(result.status == 1)
    #expect(result.error.contains("is damaged, and so is the copy of it"))
    #expect(folder.has("copy"))
  }

  // MARK: Export and import

  @Test(arguments: Kind.allCases, Kind.allCases)
  func `an imported store exports the same bytes`(_ from: Kind, _ to: Kind) {
    let store = fill(from)
    let file = folder.file("export")
    #expect(perdure("store", "export", file, "--store", store).status == 0)
    let copy = folder.file("new-" + to.rawValue)
    let result = perdure("store", "import", file, "--store", copy)
    #expect(result.status == 0, "\(result.error)")
    #expect(perdure("store", "export", "--store", copy).output == folder.read("export"))
    #expect(perdure("store", "check", "--store", copy).status == 0)
    let logs = [store, copy].map { perdure("log", "--json", "--store", $0).events }
    #expect(logs[0].dropFirst() == logs[1].dropFirst())
  }

  @Test(arguments: Kind.allCases)
  func `unfinished work goes on in an imported store`(_ kind: Kind) {
    let journal = Journal(in: folder)
    let (store, running) = start(.file, journal)
    running.signal(SIGKILL)
    _ = running.wait()
    let export = perdure("store", "export", "--store", store)
    let new = folder.file("new-" + kind.rawValue)
    let result = Program.run(
      ["store", "import", "-", "--store", new],
      in: folder,
      input: export.output
    )
    #expect(result.status == 0, "\(result.error)")
    folder.write("", to: "gate")
    #expect(perdure("resume", "--store", new).output == "It says: the gate is open\n")
  }

  @Test(arguments: Kind.allCases)
  func `a killed import leaves no store, and the next one succeeds`(_ kind: Kind) {
    let store = fill(.file)
    let text = perdure("store", "export", "--store", store).output
    // A pipe that stays open: the import has all lines but the last one and waits for that.
    let pipe = Journal(in: folder, named: "pipe")
    let lines = text.split(separator: "\n").dropLast().map { $0 + "\n" }.joined()
    let new = folder.file("new-" + kind.rawValue)
    let running = Program.start(["store", "import", pipe.path, "--store", new], in: folder)
    folder.feed(lines, to: "pipe")
    let partial = "new-" + (kind == .file ? "store.sqlite" : "store") + ".partial"
    while !folder.has(partial) { usleep(1_000) }
    running.signal(SIGKILL)
    #expect(running.wait().status == 128 + SIGKILL)
    #expect(perdure("log", "--store", new).status == 3)
    folder.write(text, to: "export")
    let result = perdure("store", "import", folder.file("export"), "--store", new)
    #expect(result.status == 0, "\(result.error)")
    #expect(!folder.has(partial))
    #expect(perdure("store", "check", "--store", new).status == 0)
  }

  @Test func `an import that is cut off names where`() {
    let text = perdure("store", "export", "--store", fill(.file)).output
    folder.write(String(text.dropLast(40)), to: "export")
    let result = perdure("store", "import", folder.file("export"), "--store", folder.file("new"))
    #expect(result.status == 3)
    #expect(result.error.contains("export is cut off behind line "))
    #expect(!folder.has("new") && !folder.has("new.partial"))
    #expect(perdure("store", "import", folder.file("export")).status == 2)
  }

  // MARK: Log

  @Test(arguments: Kind.allCases)
  func `the newest entries are shown in order`(_ kind: Kind) {
    let store = fill(kind)
    func ids(_ more: String...) -> [JSON?] {
      Program.run(["log", "--json", "--store", store] + more, in: folder).events
        .filter { $0["type"] == "entry" }.map { $0["id"] }
    }
    let all = ids()
    #expect(all.count == 5)
    #expect(ids("--last", "2") == Array(all.suffix(2)))
    #expect(ids("--last", "5") == all && ids("--last", "99") == all)
    #expect(perdure("log", "--last", "0", "--store", store).status == 2)
  }

  // MARK: Help

  @Test(arguments: ["check", "backup", "export", "import"])
  func `every verb of stores has a help`(_ verb: String) {
    let result = perdure("store", verb, "--help")
    #expect(result.status == 0)
    #expect(result.output.hasPrefix("Usage: perdure store \(verb) "))
    #expect(perdure("--help").output.contains("  store \(verb)"))
  }
}

extension Folder {
  /// Writes to a pipe that somebody else reads.
  fileprivate func feed(_ text: String, to name: String) {
    let descriptor = unsafe open(file(name), O_WRONLY | O_CLOEXEC)
    defer { close(descriptor) }
    let bytes = Array(text.utf8)
    _ = unsafe bytes.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
  }
}
