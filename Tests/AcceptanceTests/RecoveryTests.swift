import Glibc
import PerdureValue
import Testing

/// What happens to work that is cut off.
@Suite struct RecoveryTests {
  private let folder = Folder()
  private let journal: Journal

  init() { journal = Journal(in: folder) }

  private var store: String { folder.file("s.sqlite") }

  /// Starts a run and returns when its tool has begun.
  private func startAtGate(
    _ plugin: String = Fixtures.safeGate,
    _ more: [String] = []
  )
    -> Program.Running
  {
    let run = Program.start(
      [
        "run", "--store", store, "--plugin", plugin, "--faux",
        Fixtures.gateScript(journal, in: folder), "Go.",
      ] + more,
      in: folder
    )
    #expect(journal.line() == "started")
    return run
  }

  private func openGate() { folder.write("", to: "gate") }

  private func resume(_ more: [String] = []) -> Program.Finished {
    Program.run(["resume", "--store", store] + more, in: folder)
  }

  private func killed(_ plugin: String = Fixtures.safeGate) {
    let run = startAtGate(plugin)
    run.signal(SIGKILL)
    #expect(run.wait().status == 137)
  }

  @Test func `a killed run is resumed as it was recorded`() {
    killed()
    openGate()
    let result = resume()
    #expect(result.status == 0)
    #expect(result.output == "It says: the gate is open\n")
    #expect(result.error == "")
    #expect(journal.line() == "started")
  }

  @Test func `an unsafe call that had begun is not run again`() {
    killed(Fixtures.unsafeGate)
    openGate()
    let result = resume()
    #expect(result.status == 0)
    #expect(result.output.contains("interrupted"))
  }

  @Test func `with nothing to do resume is silent`() {
    killed()
    openGate()
    _ = resume()
    let second = resume()
    #expect(second.status == 0)
    #expect(second.output + second.error == "")
  }

  @Test func `a busy conversation refuses a prompt and is left alone`() {
    killed()
    let before = folder.bytes(of: "s.sqlite-wal")
    let result = Program.run(
      ["run", "--store", store, "--faux", folder.file("gate.json"), "Me too."],
      in: folder
    )
    #expect(result.status == 75)
    #expect(result.error.contains("unfinished work; run `perdure resume --store \(store)`"))
    let again = Program.run(
      ["run", "--json", "--store", store, "--faux", folder.file("gate.json"), "Me too."],
      in: folder
    )
    #expect(again.events.last?["error"]?["code"] == "conversation_busy")
    let log = Program.run(["log", "--store", store, "--json"], in: folder)
    #expect(log.events.filter { $0["kind"] == "pi.user" }.count == 1)
    #expect(log.events.last?["unfinished"] == true)
    #expect(before.count > 0)
  }

  /// Asks in the way of the run that was killed.
  private func ask(_ prompt: String, _ more: [String]) -> Program.Finished {
    Program.run(
      [
        "run", "--store", store, "--plugin", Fixtures.safeGate, "--faux", folder.file("gate.json"),
        prompt,
      ] + more,
      in: folder
    )
  }

  @Test(arguments: ["follow-up", "steer"])
  func `a prompt can wait for unfinished work or join it`(_ mode: String) {
    killed()
    openGate()
    let result = ask("Me too.", ["--when-busy", mode, "--json"])
    #expect(result.status == 0, "\(result.error)")
    #expect(result.events.last?["answers"]?.array?.count == 1)
    let log = Program.run(["log", "--store", store, "--json"], in: folder)
    let kinds = log.events.compactMap { $0["kind"]?.text }.filter { $0 != "pi.system" }
    let round = ["pi.user", "pi.assistant", "pi.tool-result"]
    // One that joins has the answer of the run; one that waits has a run of its own.
    if mode == "steer" {
      #expect(kinds.starts(with: round + ["pi.user", "pi.assistant"]))
    } else {
      #expect(kinds.starts(with: round + ["pi.assistant", "pi.user", "pi.assistant"]))
    }
  }

  @Test func `a prompt that waits behind a run that fails stays queued`() {
    killed()
    openGate()
    let failing = #"{"steps": [{"error": {"status": 400, "message": "no"}}]}"#
    folder.write(#"{"turns": [{"steps": [{"text": "x"}]}, \#(failing)]}"#, to: "gate.json")
    let result = ask("Me too.", ["--when-busy", "follow-up"])
    #expect(result.status == 1)
    #expect(result.error.contains("the prompt waits in conversation 1"))
  }

  @Test func `an unknown way to treat a busy conversation is a usage error`() {
    let result = ask("Me too.", ["--when-busy", "maybe"])
    #expect(result.status == 2)
    #expect(result.error.contains("--when-busy cannot be 'maybe'"))
  }

  @Test func `a plugin that was changed is refused until it is named again`() {
    let plugin = Fixtures.compile("Tests/Fixtures/Acceptance/gate.c", as: "p.so", in: folder)
    killed(plugin)
    openGate()
    _ = Fixtures.compile("Tests/Fixtures/Acceptance/gate.c", as: "p.so", in: folder, ["-O2", "-g"])
    let refused = resume()
    #expect(refused.status == 5)
    #expect(refused.error.contains("--plugin \(plugin)`"))
    #expect(resume(["--plugin", plugin]).output == "It says: the gate is open\n")
  }

  @Test func `a plugin that is gone is named`() {
    let plugin = Fixtures.compile("Tests/Fixtures/Acceptance/gate.c", as: "p.so", in: folder)
    killed(plugin)
    unsafe unlink(plugin)
    let result = resume()
    #expect(result.status == 5)
    #expect(result.error.contains("does not exist any more"))
  }

  @Test func `a store whose owner takes no requests is refused and names it`() {
    let run = startAtGate()
    unsafe unlink(store + ".control")
    let result = Program.run(
      ["run", "--store", store, "--faux", folder.file("gate.json"), "Me too."],
      in: folder
    )
    #expect(result.status == 8)
    #expect(result.error.contains("is in use by process"))
    run.signal(SIGKILL)
    _ = run.wait()
  }

  @Test func `the log of a store in use can be read`() {
    let run = startAtGate()
    let log = Program.run(["log", "--store", store], in: folder)
    #expect(log.status == 0)
    #expect(log.output.contains("Go."))
    run.signal(SIGKILL)
    _ = run.wait()
  }

  @Test func `the log names the process that works on unfinished work, while it does`() {
    let run = startAtGate()
    let log = Program.run(["log", "--store", store], in: folder)
    #expect(log.output.contains("[unfinished work; process \(run.pid) works on it]"))
    #expect(!log.output.contains("perdure resume"))
    let json = Program.run(["log", "--store", store, "--json"], in: folder)
    #expect(json.events.last?["owner"]?.int == Int64(run.pid))
    run.signal(SIGKILL)
    _ = run.wait()
    let after = Program.run(["log", "--store", store], in: folder)
    #expect(after.output.contains("`perdure resume --store \(store)` continues it"))
  }

  @Test(arguments: [SIGINT, SIGTERM])
  func `the first signal closes so that resume continues`(_ signal: Int32) {
    let run = startAtGate()
    run.signal(signal)
    let result = run.wait()
    #expect(result.status == 128 + signal)
    #expect(result.output == "")
    #expect(result.error.contains("`perdure resume --store \(store)` continues"))
    openGate()
    #expect(resume().output == "It says: the gate is open\n")
  }

  @Test func `a signal ends the events with a result`() {
    let run = startAtGate(Fixtures.safeGate, ["--json"])
    run.signal(SIGTERM)
    let result = run.wait()
    #expect(result.events.last?["type"] == "result")
    #expect(result.events.last?["exit"] == 143)
  }

  @Test func `resume can be interrupted too`() {
    killed()
    let run = Program.start(["resume", "--store", store], in: folder)
    #expect(journal.line() == "started")
    run.signal(SIGINT)
    #expect(run.wait().status == 130)
    openGate()
    #expect(resume().output == "It says: the gate is open\n")
  }

  @Test func `resume of a missing store is an error`() {
    let result = Program.run(["resume", "--store", folder.file("none.sqlite")], in: folder)
    #expect(result.status == 3)
  }

  /// Changes a store as another program might.
  private func rewrite(_ statement: String) {
    let program = """
      import sqlite3, sys
      store = sqlite3.connect(sys.argv[1])
      store.execute(sys.argv[2])
      store.commit()
      """
    let result = Program.runTool(["python3", "-c", program, store, statement], in: folder)
    #expect(result.status == 0)
  }

  @Test func `a store with what this version lacks can be read and not continued`() {
    let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
    let run = ["run", "--store", store, "--faux", script, "Hi"]
    _ = Program.run(run, in: folder)
    rewrite(
      """
      UPDATE tasks SET kind = 'pi.other', status = 'pending', record =
        json_set(record, '$.kind', 'pi.other', '$.state',
          json('{"status": "pending", "checkpoint": {"phase": "select"}}'))
      """
    )
    #expect(Program.run(["log", "--store", store], in: folder).output.contains("Hello."))
    let result = resume()
    #expect(result.status == 3)
    #expect(result.error.contains("pi.other"))
  }

  @Test func `a prompt that is only queued is no work to resume`() {
    let script = Fixtures.script(#"{"text": "Hello."}"#, in: folder)
    let run = ["run", "--store", store, "--faux", script, "Hi"]
    _ = Program.run(run, in: folder)
    rewrite(
      """
      UPDATE submissions SET status = 'queued', record =
        json_remove(json_set(record, '$.status', 'queued'), '$.answer', '$.entry')
      """
    )
    // Nothing runs for it alone, and whoever asks learns that it waits.
    let result = resume()
    #expect(result.status == 0)
    #expect(result.output == "")
    #expect(result.error.contains("a prompt waits in conversation 1"))
  }

  @Test func `a store of a newer schema is refused`() {
    _ = Program.run(
      ["run", "--store", store, "--faux", Fixtures.script(#"{"text": "x"}"#, in: folder), "Hi"],
      in: folder
    )
    rewrite("UPDATE durable_schema SET version = 99")
    let result = resume()
    #expect(result.status == 3)
    #expect(result.error.contains("99"))
  }

  @Test func `a task that no loaded code can run is named`() {
    killed()
    rewrite(
      """
      UPDATE tasks SET record = json_set(record, '$.version', 99) WHERE status != 'terminal'
      """
    )
    let result = resume()
    #expect(result.status == 1)
    #expect(result.error.contains("a newer version started it"))
  }
}
