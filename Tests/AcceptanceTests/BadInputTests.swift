import Glibc
import PerdureValue
import Testing

/// Stores that were damaged, moved or written by others, as users meet them.
@Suite struct BadInputTests {
  enum Kind: String, CaseIterable {
    case sqlite, jsonl

    /// What names such a store on the command line.
    var name: String { self == .sqlite ? "s.sqlite" : "store/" }
    /// The file that changes with every commit.
    var file: String { self == .sqlite ? "s.sqlite" : "store/main.jsonl" }
  }

  private let folder = Folder()

  @discardableResult
  private func run(_ kind: Kind, _ words: String...) -> Program.Finished {
    let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
    return Program.run(
      ["run", "--store", folder.file(kind.name), "--faux", script] + words,
      in: folder
    )
  }

  private func log(_ kind: Kind, _ words: String...) -> Program.Finished {
    Program.run(["log", "--store", folder.file(kind.name)] + words, in: folder)
  }

  private func python(_ code: String, _ words: String...) {
    let result = Program.runTool(["python3", "-c", code] + words, in: folder)
    #expect(result.status == 0, "\(result.error)")
  }

  /// A store with two conversations, the second of which has the id that is returned.
  private func makeTwo(_ kind: Kind) throws -> String {
    #expect(run(kind, "One.").status == 0)
    let second = run(kind, "--conversation", "new", "--json", "Two.")
    let ids = second.events.compactMap { $0["conversation"]?.int }
    let id = try #require(ids.first)
    return "\(id)"
  }

  @Test func `a damaged entry is named, and the log shows the rest`() throws {
    let second = try makeTwo(.sqlite)
    python(
      """
      import sqlite3, sys
      with sqlite3.connect(sys.argv[1]) as db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        db.execute("UPDATE entries SET record = 'x' WHERE id = "
          "(SELECT min(id) FROM entries WHERE conversation_id = 1)")
        db.execute("UPDATE tasks SET record = 'x', status = 'running' WHERE conversation_id = 1")
      """,
      folder.file("s.sqlite")
    )
    let before = folder.bytes(of: "s.sqlite")
    let damaged = log(.sqlite)
    #expect(damaged.status == 3)
    #expect(damaged.output.contains("Hello."))
    #expect(damaged.error.contains("s.sqlite is damaged in entry "))
    #expect(damaged.error.contains("s.sqlite is damaged in task "))
    let whole = log(.sqlite, second)
    #expect(whole.status == 0)
    #expect(whole.output.contains("Two.") && whole.error == "")
    #expect(folder.bytes(of: "s.sqlite") == before)
  }

  @Test func `a damaged line is named, and the log shows the rest`() throws {
    let second = try makeTwo(.jsonl)
    var lines = folder.read("store/main.jsonl").split(separator: "\n").map(String.init)
    let place = try #require(lines.firstIndex { $0.contains("One.") })
    lines[place] = String(lines[place].prefix(60))
    folder.write(lines.joined(separator: "\n") + "\n", to: "store/main.jsonl")
    let before = folder.bytes(of: "store/main.jsonl")
    for conversation in ["1", second] {
      let damaged = log(.jsonl, conversation)
      #expect(damaged.status == 3)
      #expect(damaged.error.contains("is damaged in line \(place + 1) of main.jsonl"))
      #expect(damaged.output.contains("Hello."))
    }
    #expect(log(.jsonl, second).output.contains("Two."))
    #expect(run(.jsonl, "Three.").status == 3)
    #expect(folder.bytes(of: "store/main.jsonl") == before)
  }

  @Test(arguments: Kind.allCases)
  func `an unknown conversation is named with those that there are`(kind: Kind) {
    run(kind, "Hi")
    for words in [["log", "99"], ["run", "--conversation", "99", "Hi"]] {
      var arguments = [words[0], "--store", folder.file(kind.name)] + words.dropFirst()
      if words[0] == "run" {
        arguments += ["--faux", Fixtures.script(#"{"text": "x"}"#, in: folder)]
      }
      let result = Program.run(arguments, in: folder)
      #expect(result.status != 0)
      #expect(result.error.contains("has no conversation 99"))
    }
  }

  @Test(arguments: Kind.allCases)
  func `a disk that fills up under a run is named, and the store goes on later`(kind: Kind) {
    run(kind, "Hi")
    let script = Fixtures.script(#"{"text": "Again."}"#, in: folder)
    let words = ["run", "--store", folder.file(kind.name), "--faux", script, "Go on"]
    let size = folder.bytes(of: kind.file).count
    // Blocks of 512 bytes: what is there may stay, and hardly anything be added.
    let result = Program.runTool(
      ["sh", "-c", #"ulimit -f $0; shift 0; exec "$@""#, "\(size / 512 + 1)"]
        + [Program.products + "/perdure"] + words,
      in: folder
    )
    #expect(result.status != 0)
    #expect(result.error.contains("File too large") || result.error.contains("cannot grow"))
    #expect(Program.run(["resume", "--store", folder.file(kind.name)], in: folder).status == 0)
    #expect(log(kind).output.contains("Hello."))
  }

  /// Starts a run whose tool waits, does something to the store, and lets the run go on.
  private func disturbed(_ kind: Kind, _ change: () throws -> Void) rethrows -> Program.Finished {
    let journal = Journal(in: folder)
    let running = Program.start(
      [
        "run", "--store", folder.file(kind.name), "--plugin", Fixtures.safeGate, "--faux",
        Fixtures.gateScript(journal, in: folder), "Wait",
      ],
      in: folder
    )
    #expect(journal.line() == "started")
    try change()
    folder.write("", to: "gate")
    return running.wait()
  }

  @Test(arguments: Kind.allCases)
  func `a store that is moved under a run is noticed and not written any more`(kind: Kind) {
    let name = kind == .sqlite ? "s.sqlite" : "store"
    let result = disturbed(kind) {
      #expect(unsafe rename(folder.file(name), folder.file("moved")) == 0)
    }
    #expect(result.status == 1)
    #expect(result.error.contains("moved or replaced while it was open"))
    #expect(!folder.has(kind.file))
  }

  @Test(arguments: Kind.allCases)
  func `a program that writes to the store under a run is noticed`(kind: Kind) {
    let result = disturbed(kind) {
      switch kind {
      case .sqlite:
        python(
          """
          import sqlite3, sys
          with sqlite3.connect(sys.argv[1]) as db:
            db.execute("UPDATE durable_metadata SET next_seq = next_seq + 1")
          """,
          folder.file("s.sqlite")
        )
      case .jsonl:
        python(
          #"""
          import sys
          with open(sys.argv[1], "a") as main:
            main.write('{"format":1,"type":"commit","seq":900,"writes":[]}\n')
          """#,
          folder.file("store/main.jsonl")
        )
      }
    }
    #expect(result.status == 1)
    #expect(result.error.contains("another program wrote to the store"))
    #expect(log(kind).output.contains("Wait"))
  }

  @Test(arguments: Kind.allCases)
  func `lone surrogates of a store are shown as replacement characters`(kind: Kind) {
    run(kind, "Hi")
    switch kind {
    case .sqlite:
      python(
        #"""
        import sqlite3, sys
        with sqlite3.connect(sys.argv[1]) as db:
          db.execute("UPDATE entries SET record = replace(record, 'Hello.', 'He\\ud800o.')")
        """#,
        folder.file("s.sqlite")
      )
    case .jsonl:
      let text = folder.read("store/main.jsonl")
      folder.write(text.replacing("Hello.", with: #"He\ud800o."#), to: "store/main.jsonl")
    }
    #expect(log(kind).output.contains("He\u{FFFD}o."))
    let events = log(kind, "--json")
    #expect(events.status == 0)
  }
}
