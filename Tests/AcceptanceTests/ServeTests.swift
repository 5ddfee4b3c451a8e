import Glibc
import PerdureValue
import Testing

/// A host that stays up, and the commands that talk to it.
@Suite struct ServeTests {
  private let folder = Folder()
  private let output: Journal

  init() { output = Journal(in: folder, named: "served") }

  private static let script = #"{"turns": [{"steps": [{"text": "Hello."}]}]}"#

  /// Starts a host and returns when it takes requests.
  private func serve(
    _ store: String = "s.sqlite",
    _ more: [String] = []
  ) throws -> Program.Running {
    let script = folder.write(Self.script, to: "hello.json")
    let faux = more.contains("--faux") ? [] : ["--faux", script]
    let host = Program.start(
      ["serve", "--store", folder.file(store)] + faux + more,
      in: folder,
      output: output
    )
    let line = try #require(output.line())
    #expect(line == "serving \(folder.file(store))".trimmingSlash)
    return host
  }

  private func perdure(_ words: [String], store: String = "s.sqlite") -> Program.Finished {
    Program.run(words + ["--store", folder.file(store)], in: folder)
  }

  private func end(_ host: Program.Running, store: String = "s.sqlite") {
    #expect(perdure(["close"], store: store).status == 0)
    #expect(host.wait().status == 0)
  }

  private func peer() throws -> ControlPeer {
    try #require(ControlPeer(to: folder.file("s.sqlite.control")))
  }

  @Test(arguments: ["s.sqlite", "lines/"])
  func `a prompt goes to the host that works on the store`(store: String) throws {
    let host = try serve(store)
    let result = perdure(["run", "Hi"], store: store)
    #expect(result.status == 0)
    #expect(result.output == "Hello.\n")
    end(host, store: store)
    #expect(perdure(["log"], store: store).output.contains("Hello."))
  }

  @Test func `the events of a prompt are those of its conversation`() throws {
    let host = try serve()
    let events = perdure(["run", "--json", "--conversation", "new", "Hi"]).events
    #expect(events.first?["type"] == "header")
    #expect(events.first?["owner"]?.int == Int64(host.pid))
    let entries = events.filter { $0["type"] == "entry" }
    #expect(entries.map { $0["kind"] } == ["pi.user", "pi.assistant"])
    #expect(events.last?["answers"]?.array?.first?["text"] == "Hello.")
    end(host)
  }

  @Test func `what a prompt says against how its host treats approvals is exit 3`() throws {
    let host = try serve("s.sqlite", ["--faux", Fixtures.wordcountScript])
    let refused = perdure(["run", "--approvals", "deny", "Hello."])
    #expect(refused.status == 3)
    #expect(refused.error.contains("there it is --approvals wait"))
    end(host)
  }

  @Test func `a call that waits is approved through the host`() throws {
    let host = try serve(
      "s.sqlite",
      [
        "--plugin", Fixtures.wordcount, "--faux", Fixtures.wordcountScript,
        "--require-approval", "wordcount",
      ]
    )
    let events = Journal(in: folder, named: "events")
    let run = Program.start(
      ["run", "--json", "--store", folder.file("s.sqlite"), "How long is it?"],
      in: folder,
      output: events
    )
    var question: JSON?
    while question == nil, let line = events.line() {
      let event = try JSON(parsing: line)
      if event["type"] == "approval" { question = event }
    }
    let id = try #require(question?["id"]?.int)
    #expect(perdure(["approve", "\(id)"]).output.hasPrefix("approved \(id): "))
    var last: JSON?
    while let line = events.line() {
      last = try JSON(parsing: line)
      if last?["type"] == "result" { break }
    }
    #expect(last?["answers"]?.array?.first?["text"] == "It has 10 words, 2 lines.")
    #expect(run.wait().status == 0)
    end(host)
  }

  @Test func `the output of a tool reaches the one who gave the prompt`() throws {
    let journal = Journal(in: folder)
    let script = Fixtures.gateScript(journal, in: folder, says: "working")
    let host = try serve("s.sqlite", ["--plugin", Fixtures.safeGate, "--faux", script])
    let events = Journal(in: folder, named: "events")
    let run = Program.start(
      ["run", "--json", "--store", folder.file("s.sqlite"), "Go."],
      in: folder,
      output: events
    )
    var text: JSON?
    while text == nil, let line = events.line() {
      let event = try JSON(parsing: line)
      if event["type"] == "output" { text = event["text"] }
    }
    #expect(text == "working")
    folder.write("", to: "gate")
    #expect(run.wait().status == 0)
    end(host)
  }

  @Test func `what was asked goes on when the one who asked is gone`() throws {
    let journal = Journal(in: folder)
    let script = Fixtures.gateScript(journal, in: folder)
    let host = try serve("s.sqlite", ["--plugin", Fixtures.safeGate, "--faux", script])
    let run = Program.start(["run", "--store", folder.file("s.sqlite"), "Go."], in: folder)
    _ = journal.line()
    run.signal(SIGKILL)
    #expect(run.wait().status == 128 + SIGKILL)
    folder.write("", to: "gate")
    #expect(perdure(["resume"]).status == 0)
    #expect(perdure(["log"]).output.contains("It says: the gate is open"))
    end(host)
  }

  @Test func `an interrupted run can abort its work in the host`() throws {
    let journal = Journal(in: folder)
    let script = Fixtures.gateScript(journal, in: folder)
    let host = try serve("s.sqlite", ["--plugin", Fixtures.safeGate, "--faux", script])
    let run = Program.start(
      ["run", "--abort-on-interrupt", "--store", folder.file("s.sqlite"), "Go."],
      in: folder
    )
    _ = journal.line()
    run.signal(SIGINT)
    let result = run.wait()
    #expect(result.status == 130)
    #expect(result.error.contains("aborted"))
    #expect(perdure(["task", "list"]).output == "")
    end(host)
  }

  @Test func `a host that was killed leaves nothing in the way`() throws {
    let host = try serve()
    host.signal(SIGKILL)
    #expect(host.wait().status == 128 + SIGKILL)
    #expect(folder.has("s.sqlite.control"))
    #expect(perdure(["run", "--faux", folder.file("hello.json"), "Hi"]).output == "Hello.\n")
    #expect(!folder.has("s.sqlite.control"))
  }

  @Test func `a second host is refused`() throws {
    let host = try serve()
    let second = perdure(["serve", "--faux", folder.file("hello.json")])
    #expect(second.status == 8)
    #expect(second.error.contains("\(host.pid)"))
    #expect(perdure(["run", "Hi"]).output == "Hello.\n")
    end(host)
  }

  @Test func `options that are not the host's are refused`() throws {
    let host = try serve()
    let result = perdure(["run", "--max-retries", "7", "Hi"])
    #expect(result.status == 3)
    #expect(result.error.contains("in another way"))
    #expect(perdure(["run", "--faux", folder.file("hello.json"), "Hi"]).status == 0)
    end(host)
  }

  @Test(
    arguments: [
      (["conversation", "archive", "1"], "archived conversation 1\n"),
      (["conversation", "unarchive", "1"], "conversation 1 is open already; nothing changed\n"),
      (["store", "compact"], "removed 0 tasks and 0 submissions; compacted\n"),
      (["conversation", "delete", "5"], ""),
      (["task", "list"], ""), (["pending"], ""),
    ]
  )
  func `a verb says the same with and without a host`(words: [String], says: String) throws {
    let host = try serve()
    _ = perdure(["run", "Hi"])
    let served = perdure(words)
    #expect(served.output == says)
    end(host)
    let alone = perdure(words)
    if words.last != "1" { #expect(alone.output == says) }
    #expect(alone.status == served.status)
  }

  @Test func `the socket is for its user alone`() throws {
    let host = try serve()
    var status = stat()
    #expect(unsafe lstat(folder.file("s.sqlite.control"), &status) == 0)
    #expect(status.st_mode & 0o777 == 0o600)
    end(host)
    #expect(!folder.has("s.sqlite.control"))
  }

  /// Only root can be somebody else.
  @Test(.enabled(if: geteuid() == 0))
  func `a socket of another user is told nothing and stays`() throws {
    let stranger = folder.file("stranger")
    let source = Fixtures.root + "/Tests/Fixtures/Acceptance/stranger.c"
    #expect(Program.runTool(["cc", "-o", stranger, source], in: folder).status == 0)
    unsafe chmod(folder.path, 0o777)
    unsafe chmod(output.path, 0o666)
    let socket = folder.file("s.sqlite.control")
    let running = Program.startTool([stranger, socket, output.path], in: folder)
    #expect(output.line() == "listening")
    let script = folder.write(Self.script, to: "hello.json")
    let asked = perdure(["run", "--faux", script, "Hi"])
    #expect(asked.status == 8, "\(asked.error)")
    #expect(asked.error.contains("the control socket \(socket) belongs to another user"))
    #expect(asked.output == "")
    let served = perdure(["serve", "--faux", script])
    #expect(served.status == 3, "\(served.error)")
    #expect(folder.has("s.sqlite.control"))
    running.signal(SIGKILL)
    _ = running.wait()
  }

  @Test(
    arguments: [
      [UInt8]("garbage without a length".utf8), [255, 255, 255, 255], [2, 0, 0, 0, 0x7B, 0xFF],
      [4, 0, 0, 0] + [UInt8]("null".utf8), [0, 0, 0, 0],
      [9, 0, 0, 0] + [UInt8](#"{"id":"x"}"#.utf8.prefix(9)),
    ]
  )
  func `garbage ends its connection and nothing else`(bytes: [UInt8]) throws {
    let host = try serve()
    let peer = try peer()
    peer.send(bytes)
    // Closed, perhaps after an error that says why.
    if let answer = peer.frame() {
      #expect(answer["error"]?["code"] == "invalid_request")
      #expect(peer.frame() == nil)
    }
    #expect(perdure(["run", "Hi"]).output == "Hello.\n")
    end(host)
  }

  @Test(
    arguments: [
      #"{"id":1,"op":"dance"}"#, #"{"id":1,"op":"submit"}"#,
      #"{"id":1,"op":"submit","params":{"prompt":" "}}"#,
      #"{"id":1,"op":"submit","params":{"prompt":"x","conversation":"old"}}"#,
      #"{"id":1,"op":"submit","params":{"prompt":"x","whenBusy":"later"}}"#,
      #"{"id":1,"op":"submit","params":{"prompt":"x","options":{"store":[1]}}}"#,
      #"{"id":1,"op":"approve","params":{"approval":"7"}}"#,
      #"{"id":1,"op":"conversation.delete","params":{"conversation":1,"forks":1}}"#,
      #"{"id":1,"op":"log","params":{"conversation":1,"last":0}}"#,
    ]
  )
  func `a request that cannot be understood is refused in words`(request: String) throws {
    let host = try serve()
    let peer = try peer()
    let answer = try #require(peer.ask(request))
    #expect(answer["id"] == 1)
    #expect(answer["error"]?["code"] == "invalid_request")
    #expect(peer.ask(#"{"id":2,"op":"hello"}"#)?["result"]?["protocol"] == 1)
    end(host)
  }

  @Test func `a repeated request id is one submission`() throws {
    let host = try serve()
    let peer = try peer()
    let request = #","op":"submit","params":{"prompt":"Hi","requestId":"r"}}"#
    let first = try #require(peer.ask(#"{"id":1"# + request))
    let second = try #require(peer.ask(#"{"id":2"# + request))
    #expect(first["result"]?["answers"] == second["result"]?["answers"])
    #expect(first["result"]?["answers"]?.array?.count == 1)
    end(host)
  }

  @Test func `a prompt that nobody waits for is answered, too`() throws {
    let host = try serve()
    let peer = try peer()
    let request = #"{"id":1,"op":"submit","params":{"prompt":"Hi","detach":true}}"#
    #expect(peer.ask(request)?["result"]?["submission"]?.int != nil)
    #expect(perdure(["resume"]).status == 0)
    #expect(peer.ask(#"{"id":2,"op":"log","params":{"conversation":1}}"#)?["result"] != nil)
    #expect(perdure(["log"]).output.contains("Hello."))
    end(host)
  }

  @Test func `a path that is too long for an address works`() throws {
    let long = String(repeating: "long-", count: 30)
    _ = Program.runTool(["mkdir", folder.file(long)], in: folder)
    let host = try serve(long + "/s.sqlite")
    #expect(perdure(["run", "Hi"], store: long + "/s.sqlite").output == "Hello.\n")
    end(host, store: long + "/s.sqlite")
  }

  @Test func `a terminated host leaves its work to resume`() throws {
    let journal = Journal(in: folder)
    let script = Fixtures.gateScript(journal, in: folder)
    let host = try serve("s.sqlite", ["--plugin", Fixtures.safeGate, "--faux", script])
    let run = Program.start(["run", "--store", folder.file("s.sqlite"), "Go."], in: folder)
    _ = journal.line()
    host.signal(SIGTERM)
    #expect(host.wait().status == 143)
    let cut = run.wait()
    #expect(cut.status == 75)
    #expect(cut.error.contains("perdure resume"))
    folder.write("", to: "gate")
    #expect(perdure(["resume"]).output == "It says: the gate is open\n")
  }
}

extension String {
  /// The text without a slash at its end.
  fileprivate var trimmingSlash: String { hasSuffix("/") ? String(dropLast()) : self }
}
