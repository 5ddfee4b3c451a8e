import PerdureValue
import Testing

/// What is seen of a tool while it runs.
@Suite struct OutputTests {
  private let folder = Folder()
  private let journal: Journal
  private let events: Journal

  init() {
    journal = Journal(in: folder)
    events = Journal(in: folder, named: "events")
  }

  /// Starts a run whose tool puts `says` out and waits for a gate.
  private func start(says: String, _ more: [String], onTerminal: Bool = false) -> Program.Running {
    Program.start(
      [
        "run", "--store", folder.file("s.sqlite"), "--plugin", Fixtures.safeGate, "--faux",
        Fixtures.gateScript(journal, in: folder, says: says), "Go.",
      ] + more,
      in: folder,
      output: events,
      onTerminal: onTerminal
    )
  }

  /// Returns the next line that is looked for, before the gate is opened.
  private func line(_ isWanted: (String) -> Bool) -> String? {
    while let line = events.line() {
      if isWanted(line) { return line }
    }
    return nil
  }

  private func openGate() { folder.write("", to: "gate") }

  private func event(says: String) throws -> JSON {
    let run = start(says: says, ["--json"])
    let line = try #require(line { $0.hasPrefix(#"{"type":"output""#) })
    openGate()
    #expect(run.wait().status == 0)
    return try JSON(parsing: line)
  }

  @Test func `the output of a running tool is an event`() throws {
    let event = try event(says: #"water is on\n"#)
    #expect(event["tool"] == "wait")
    #expect(event["conversation"] == 1)
    #expect(event["text"] == "water is on\n")
    #expect(event["task"]?.int != nil)
    #expect(event["skipped"] == nil)
  }

  @Test func `a flood of output is cut to its end`() throws {
    let event = try event(says: String(repeating: "x", count: 5_000) + "é")
    #expect(event["text"]?.text?.utf8.count == 4_096)
    #expect(event["text"]?.text?.hasSuffix("xé") == true)
    #expect(event["skipped"] == 906)
  }

  @Test func `the output of a running tool is shown on a terminal`() throws {
    let run = start(says: #"water\u001b[2J is on\nand"#, [], onTerminal: true)
    let first = try #require(line { $0.contains("│") })
    openGate()
    #expect(first.hasSuffix("  │ water[2J is on\r"))
    #expect(line { $0.contains("│") } == "  │ and\r")
    #expect(line { $0.contains("←") } == "← wait: the gate is open\r")
    #expect(run.wait().status == 0)
  }

  @Test func `a tool that puts out very much does not fill the memory`() throws {
    let run = Program.start(
      [
        "run", "--store", folder.file("s.sqlite"), "--plugin", Fixtures.safeGate, "--faux",
        Fixtures.gateScript(journal, in: folder, mib: 48), "Go.",
      ],
      in: folder
    )
    #expect(journal.line() == "started")
    let peak = run.peakKiB
    openGate()
    #expect(run.wait().status == 0)
    // Half of that is the program itself.
    #expect(try #require(peak) < 64 << 10)
  }
}
