import Foundation
import PerdureValue
import Testing

/// What confines a run on a folder, with the program as users have it.
@Suite(
  .enabled(
    if: !Machine.deniesNamespaces,
    "Tests/sandbox/impossible lets a machine without namespaces leave them out"
  )
)
struct SandboxTests: SandboxRuns {
  let folder = Folder()

  @Test func `by default commands and tools see the folder, no other file and no network`() throws {
    let secret = folder.file("secret")
    let line = """
      cat \(secret) && echo READ; echo changed > \(secret); \
      python3 -c 'import socket; socket.create_connection(("127.0.0.1", 1), 2)' 2>&1 | tail -n 1; \
      cat /proc/net/dev | grep -c eth; echo made > made.txt; pwd
      """
    let finished = run([
      ("bash", ["command": .string(line)]), ("write", ["path": "/etc/evil", "content": "x"]),
      ("write", ["path": "/usr/evil", "content": "x"]), ("read", ["path": .string(secret)]),
      ("write", ["path": "../up", "content": "x"]),
    ])
    #expect(finished.status == 0, "\(finished.output)")
    let told = results(finished)
    #expect(!told.contains("canary") && !told.contains("READ\\n"))
    #expect(told.contains("unreachable"))
    #expect(told.contains("/workspace"))
    #expect(folder.read("secret") == "canary")
    #expect(folder.read("work/made.txt") == "made\n")
    #expect(!folder.has("up"))
    #expect(!FileManager.default.fileExists(atPath: "/etc/evil"))
  }

  @Test func `the header and the log name what was enforced`() {
    let header = bash("true").events.first?["environment"]
    #expect(header?["tier"] == "namespaces")
    #expect(header?["sandbox"] == "workspace")
    #expect(header?["network"] == "off")
    #expect(header?["folder"]?.text == folder.file("work"))
    let enforced = header?["enforced"]?.array?.compactMap { $0.text } ?? []
    for what in ["fsRead", "fsWrite", "network", "processes", "signals", "killTree"] {
      #expect(enforced.contains(what))
    }
    let log = Program.run(["log", "--store", folder.file("s.sqlite"), "--json"], in: folder)
    #expect(log.events.first?["environment"] == header)
    let text = Program.run(["log", "--store", folder.file("s.sqlite")], in: folder).output
    #expect(text.contains("--sandbox workspace, tier namespaces, network off"))
  }

  @Test func `the result of a command names what was enforced`() {
    let finished = bash("true")
    let entry = finished.events.last { $0["kind"] == "pi.tool-result" }
    #expect(entry?.compactText.contains("killTree") == true)
  }

  @Test func `a folder that is only read stays as it is`() {
    let finished = run(
      [
        ("bash", ["command": "echo x > new; echo ok > /tmp/x && cat /tmp/x"]),
        ("write", ["path": "new", "content": "x"]),
      ],
      ["--sandbox", "readonly"]
    )
    #expect(results(finished).contains("ok"))
    #expect(!folder.has("work/new"))
  }

  @Test func `a further path is written and a hidden one is empty`() throws {
    for name in ["work", "more"] {
      try FileManager.default.createDirectory(
        atPath: folder.file(name),
        withIntermediateDirectories: true
      )
    }
    try "canary".write(toFile: folder.file("work/.env"), atomically: true, encoding: .utf8)
    let more = folder.file("more")
    let finished = bash(
      "cat .env; echo x > \(more)/made && echo WRITTEN",
      ["--write", more, "--hide", ".env"]
    )
    #expect(!results(finished).contains("canary"))
    #expect(results(finished).contains("WRITTEN"))
    #expect(folder.read("more/made") == "x\n")
    #expect(finished.events.first?["environment"]?["hidden"] == ["/workspace/.env"])
  }

  @Test func `commands have a loopback of their own if that is chosen`() {
    let line = """
      python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 8000)); \
      c = socket.create_connection(("127.0.0.1", 8000), 5); print("CONNECTED")'
      """
    #expect(results(bash(line, ["--network", "loopback"])).contains("CONNECTED"))
  }

  @Test func `commands reach the hosts that are named, and no other`() throws {
    let served = Folder()
    try "PUBLISHED".write(toFile: served.file("page"), atomically: true, encoding: .utf8)
    let (server, port) = try Self.serve(served)
    defer {
      // The program begins with the signals of a test's thread, which are held back.
      server.signal(SIGKILL)
      _ = server.wait()
    }
    let line = """
      for host in 127.0.0.1 127.0.0.2; do curl -sS -i http://$host:\(port)/page; done; \
      curl -sS --noproxy '*' http://127.0.0.1:\(port)/page
      """
    let finished = bash(line, ["--network", "allow=127.0.0.1:\(port),*.example.com"])
    let told = results(finished)
    #expect(told.contains("PUBLISHED"), "\(finished.output)")
    #expect(told.contains("HTTP/1.1 403 no rule allows 127.0.0.2:\(port)"))
    #expect(told.contains("Failed to connect") || told.contains("Couldn't connect"))
    let header = finished.events.first?["environment"]
    #expect(header?["network"] == "allow")
    #expect(header?["allowed"] == [.string("127.0.0.1:\(port)"), "*.example.com"])
    // What was decided is in the details of the result.
    let entry = finished.events.last { $0["kind"] == "pi.tool-result" }?.compactText ?? ""
    #expect(entry.contains(#""outcome":"refused""#) && entry.contains(#""outcome":"allowed""#))
    #expect(entry.contains("did not do what it was asked: no rule allows 127.0.0.2:\(port)"))
    let log = Program.run(["log", "--store", folder.file("s.sqlite")], in: folder).output
    #expect(log.contains("network allow=127.0.0.1:\(port),*.example.com"))
  }

  /// A server on the loopback of the machine, for the files of a folder.
  private static func serve(_ folder: Folder) throws -> (Program.Running, String) {
    let output = Journal(in: folder, named: "served")
    let script = """
      import functools, sys, http.server as h
      web = functools.partial(h.SimpleHTTPRequestHandler, directory=sys.argv[1])
      s = h.ThreadingHTTPServer(("127.0.0.1", 0), web)
      print(s.server_address[1], flush=True); s.serve_forever()
      """
    let running = Program.startTool(
      ["/bin/sh", "-c", #"exec python3 -c "$1" "$2" > "$0""#, output.path, script, folder.path],
      in: folder
    )
    return (running, try #require(output.line()))
  }

  @Test(arguments: [
    (["--network", "allow=a b"], "'a b' is no rule for a network"),
    (["--network", "allow=*"], "'*' is no rule for a network"),
    (["--network", "allow=example.com", "--sandbox-tier", "landlock"], "the tier landlock cannot"),
  ])
  func `a network that cannot be had is refused`(options: [String], part: String) {
    let finished = bash("echo x > made", options)
    #expect(finished.status == 3)
    #expect(finished.output.contains(part), "\(finished.output)")
    #expect(!folder.has("work/made"))
  }

  @Test func `the weaker tier is taken only when it is named`() {
    let finished = bash("cat \(folder.file("secret"))", ["--sandbox-tier", "landlock"])
    #expect(finished.status == 0, "\(finished.output)")
    #expect(finished.events.first?["environment"]?["tier"] == "landlock")
    #expect(!results(finished).contains("canary"))
  }

  @Test func `nothing of a sandbox is left on the host`() {
    let temporary = folder.file("tmp")
    try? FileManager.default.createDirectory(
      atPath: temporary,
      withIntermediateDirectories: true
    )
    let finished = bash("seq 1 30000; sleep 77777 &", environment: ["TMPDIR": temporary])
    #expect(finished.status == 0)
    #expect(results(finished).contains("/run/output/"))
    #expect((try? FileManager.default.contentsOfDirectory(atPath: temporary)) == [])
  }

  @Test func `nothing outlives a host that is killed, and what goes on is confined as before`() {
    let secret = folder.file("secret")
    let mark = "9\(UInt32.random(in: 100_000...999_999))"
    let script = folder.file("script.json")
    let turns: JSON = [
      "turns": [
        [
          "steps": [
            [
              "toolCall": [
                "id": "a", "name": "bash",
                "arguments": [
                  "command": .string("trap '' TERM HUP; setsid sleep \(mark) & sleep \(mark)")
                ],
              ]
            ]
          ]
        ],
        [
          "steps": [
            [
              "toolCall": [
                "id": "b", "name": "bash",
                "arguments": ["command": .string("cat \(secret) || echo CONFINED")],
              ]
            ]
          ]
        ],
        ["steps": [["text": "done"]]],
      ]
    ]
    folder.write(turns.compactText, to: "script.json")
    folder.write("canary", to: "secret")
    try? FileManager.default.createDirectory(
      atPath: folder.file("work"),
      withIntermediateDirectories: true
    )
    let store = folder.file("s.sqlite")
    let running = Program.start(
      [
        "run", "--json", "--store", store, "--no-plugins", "--faux", script, "--cwd",
        folder.file("work"), "Go",
      ],
      in: folder
    )
    while !Self.runs("sleep\0\(mark)") { sched_yield() }
    running.signal(SIGKILL)
    _ = running.wait()
    // As soon as the kernel tells those who watch it.
    while Self.runs("sleep\0\(mark)") { sched_yield() }
    let resumed = Program.run(["resume", "--json", "--store", store], in: folder)
    #expect(resumed.events.first?["environment"]?["tier"] == "namespaces")
    #expect(results(resumed).contains("CONFINED"))
    #expect(!results(resumed).contains("canary"))
  }

  @Test func `a server in the background is reached by the next command`() {
    let server = "echo served > page.txt; exec python3 -u -m http.server 8124 --bind 127.0.0.1"
    let client = """
      until python3 -c 'import urllib.request as u; \
      print(u.urlopen("http://127.0.0.1:8124/page.txt").read())' 2> /dev/null; do sleep 0.1; done
      """
    let finished = run(
      [
        ("bash", ["command": .string(server), "background": true]),
        ("bash", ["command": .string(client)]),
        ("bash_session", ["session": "bg-k3f9a2mn"]),
      ],
      ["--network", "loopback"]
    )
    #expect(finished.status == 0, "\(finished.output)")
    let told = results(finished)
    #expect(told.contains("The session bg-"))
    #expect(told.contains("b'served"))
    #expect(told.contains("there is no session 'bg-k3f9a2mn', or it is gone"))
  }

  @Test(arguments: [[], ["--sandbox-tier", "landlock"], ["--sandbox", "none"]])
  func `a command in the background does not outlive a host that is killed`(options: [String]) {
    let mark = "9\(UInt32.random(in: 100_000...999_999))"
    let stubborn =
      "trap '' TERM HUP; setsid bash -c \"trap '' TERM HUP; sleep 1\(mark)\" & sleep 1\(mark)"
    let calls: [(String, JSON)] = [
      ("bash", ["command": .string(stubborn), "background": true]),
      ("bash", ["command": .string("sleep 2\(mark)")]),
      ("bash_session", ["session": "bg-k3f9a2mn"]),
    ]
    let turns = calls.enumerated().map { index, call -> JSON in
      let step: JSON = [
        "id": .string("c\(index)"), "name": .string(call.0), "arguments": call.1,
      ]
      return ["steps": [["toolCall": step]]]
    }
    let text: JSON = ["turns": .array(turns + [["steps": [["text": "done"]]]])]
    folder.write(text.compactText, to: "script.json")
    try? FileManager.default.createDirectory(
      atPath: folder.file("work"),
      withIntermediateDirectories: true
    )
    let store = folder.file("s.sqlite")
    let running = Program.start(
      [
        "run", "--json", "--store", store, "--no-plugins", "--faux", folder.file("script.json"),
        "--cwd", folder.file("work"),
      ] + options + ["Go"],
      in: folder
    )
    while !Self.runs("sleep\u{0}2\(mark)") { sched_yield() }
    #expect(Self.runs("sleep\u{0}1\(mark)"))
    running.signal(SIGKILL)
    _ = running.wait()
    // As soon as the kernel tells those who watch it.
    while Self.runs("sleep\u{0}1\(mark)") { sched_yield() }
    let resumed = Program.run(["resume", "--json", "--store", store], in: folder)
    #expect(results(resumed).contains("there is no session 'bg-k3f9a2mn', or it is gone"))
  }

  /// Whether a process of the machine has a command line that begins so; words are followed by zeros.
  private static func runs(_ line: String) -> Bool {
    let all = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
    return all.contains { number in
      UInt32(number) != nil
        && String(decoding: Folder.bytes(at: "/proc/\(number)/cmdline"), as: UTF8.self)
          .hasPrefix(line)
    }
  }

  @Test func `another command cannot confine a run that goes on in another way`() {
    let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
    try? FileManager.default.createDirectory(
      atPath: folder.file("work"),
      withIntermediateDirectories: true
    )
    let store = folder.file("s.sqlite")
    let first = Program.run(
      [
        "run", "--store", store, "--no-plugins", "--faux", script, "--cwd", folder.file("work"),
        "Hi",
      ],
      in: folder
    )
    #expect(first.status == 0)
    let output = Journal(in: folder, named: "served")
    let server = Program.start(["serve", "--store", store], in: folder, output: output)
    defer {
      server.signal(SIGTERM)
      _ = server.wait()
    }
    #expect(output.line() == "serving \(store)")
    let second = Program.run(["run", "--store", store, "--sandbox", "none", "Hi"], in: folder)
    #expect(second.status == 3)
    #expect(second.error.contains("there it is --sandbox workspace"))
  }

  @Test func `the doctor tells what each tier gives`() throws {
    let text = Program.run(["doctor", "sandbox"], in: folder)
    #expect(text.status == 0)
    #expect(text.output.contains("tier namespaces: works"))
    let json = Program.run(["doctor", "sandbox", "--json"], in: folder)
    let object = try JSON(parsing: json.output)
    let tiers = object["tiers"]?.array ?? []
    #expect(tiers.compactMap { $0["tier"]?.text } == ["namespaces", "landlock", "none"])
    #expect(tiers.first?["available"] == true)
    #expect(object["facts"]?["kernel"] != nil)
  }

  @Test func `what the host trusts may lie where the model only reads`() {
    let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
    try? FileManager.default.createDirectory(
      atPath: folder.file("work/p"),
      withIntermediateDirectories: true
    )
    let finished = Program.run(
      [
        "run", "--faux", script, "--cwd", folder.file("work"), "--plugins", folder.file("work/p"),
        "--store", folder.file("work/s.sqlite"), "--sandbox", "readonly", "Hi",
      ],
      in: folder
    )
    #expect(finished.status == 0, "\(finished.error)")
  }
}
