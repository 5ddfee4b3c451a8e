import Glibc
import PerdureValue
import Testing

/// Tasks that were cut off too often, and the verb that lets them go on.
@Suite(.timeLimit(.minutes(5))) struct ParkedTaskTests {
  private static let script =
    #"{"turns": [{"steps": [{"toolCall": {"id": "c", "name": "act"}}]},"#
    + #" {"steps": [{"text": "It says: "}, {"toolResult": "c"}]}]}"#

  private let folder = Folder()
  private var script: String { folder.write(Self.script, to: "script.json") }

  /// Compiles a plugin whose tool does this.
  private func plugin(_ act: String, as name: String) -> String {
    Fixtures.compile(
      "Tests/Fixtures/Acceptance/rude.c",
      as: name,
      in: folder,
      [
        "-include", "fcntl.h", "-include", "unistd.h", "-DRUDE=\(act)",
        #"-DMORE="\"replay\": \"safe\", \"deadlineMs\": 60000,""#,
      ]
    )
  }

  private func perdure(_ words: String...) -> Program.Finished {
    Program.run(words + ["--store", folder.file("s.sqlite")], in: folder)
  }

  /// Lets a call end its process until it is parked; returns its number.
  private func park() throws -> String {
    let run = perdure(
      "run",
      "--plugin",
      plugin("abort()", as: "bad.so"),
      "--isolation",
      "runner",
      "--faux",
      script,
      "Act."
    )
    #expect(run.status == 1)
    #expect(run.error.contains("task retry --store \(folder.file("s.sqlite"))"), "\(run.error)")
    let lines = perdure("task", "list").output.split(separator: "\n")
    let parked = try #require(lines.first { $0.contains("parked: cut off 5 times in a row") })
    return String(parked.prefix { $0 != " " })
  }

  @Test func `a parked task goes on with the next resume after it was retried`() throws {
    let id = try park()
    let good = plugin("", as: "good.so")
    let before = perdure("resume", "--plugin", good)
    #expect(before.status == 1)
    #expect(before.error.contains("is parked"))
    let events = perdure("task", "list", "--json").events
    let record = try #require(events.first { $0["id"]?.int == Int64(id) })
    #expect(record["condition"]?["reason"] == "restart_limit")
    let retried = perdure("task", "retry", id)
    #expect(retried.status == 0)
    #expect(
      retried.output
        == "task \(id) is no longer parked;"
        + " `perdure resume --store \(folder.file("s.sqlite"))` goes on with it\n"
    )
    #expect(perdure("task", "retry", id).output == "task \(id) is not parked\n")
    #expect(perdure("resume").output == "It says: done\n")
  }

  @Test func `a running host goes on at once with a task that is retried`() throws {
    let id = try park()
    let path = folder.file("called")
    try #require(unsafe mkfifo(path, 0o600) == 0)
    let output = Journal(in: folder, named: "served")
    let host = Program.start(
      [
        "serve", "--store", folder.file("s.sqlite"), "--plugin",
        plugin(#"close(open("\#(path)", O_WRONLY))"#, as: "good.so"),
      ],
      in: folder,
      output: output
    )
    #expect(try #require(output.line()).hasPrefix("serving"))
    let retried = perdure("task", "retry", id, "--json").events.first
    #expect(retried == ["task": .int(Int64(id) ?? 0), "retried": true])
    // Opens when the call is made.
    close(unsafe open(path, O_RDONLY))
    #expect(perdure("resume").status == 0)
    #expect(perdure("log").output.contains("It says: done"))
    #expect(perdure("close").status == 0)
    #expect(host.wait().status == 0)
  }

  @Test(arguments: [
    ("x", 2, "'x' is no task; give its number"), ("999", 3, "has no task 999; 'perdure task list"),
  ])
  func `what is no task cannot be retried`(id: String, status: Int, sentence: String) {
    let run = perdure("run", "--faux", Fixtures.script(#"{"text": "Hello."}"#, in: folder), "Hi")
    #expect(run.status == 0)
    let result = perdure("task", "retry", id)
    #expect(Int(result.status) == status)
    #expect(result.error.contains(sentence), "\(result.error)")
  }
}
