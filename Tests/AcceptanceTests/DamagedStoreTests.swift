import Testing

/// Stores whose records another program broke.
@Suite struct DamagedStoreTests {
  /// One record that breaks a promise, and how the program ends then.
  struct Damage: Sendable, CustomTestStringConvertible {
    var name: String
    /// Applied to a store with the task 12, a call that was cut off, and the task 9, its run.
    var sql: String
    var status: Int32
    var sentence: String

    var testDescription: String { name }
  }

  private static func task(_ id: Int, _ member: String, _ value: String) -> String {
    "UPDATE tasks SET record = json_set(record, '$.\(member)', json('\(value)')) WHERE id = \(id)"
  }

  private static func state(_ id: Int, _ state: String, _ more: String) -> String {
    """
    UPDATE tasks SET status = '\(state)', record = json_patch(record,
    '{"state": {"status": "\(state)", \(more)}}') WHERE id = \(id)
    """
  }

  static let damages: [Damage] = [
    Damage(
      name: "a count of restarts that cannot grow",
      sql: task(12, "restarts", "9223372036854775807"),
      status: 1,
      sentence: "task 12 (pi.tool) of conversation 1: it was cut off too often"
    ),
    Damage(
      name: "a sleep that ended before all time",
      sql: state(12, "sleeping", #""until": -9223372036854775808"#),
      status: 0,
      sentence: ""
    ),
    Damage(
      name: "a task that waits for itself",
      sql: state(12, "waiting", #""on": [12], "policy": "failFast""#),
      status: 1,
      sentence: "what it waits for cannot end; the store is damaged"
    ),
    Damage(
      name: "a task of no status",
      sql: task(12, "state", #"{"status": "idle"}"#),
      status: 3,
      sentence: "s.sqlite is damaged in task 12 (task.state: 'status' is not a task status)"
    ),
    Damage(
      name: "an entry that is not JSON",
      sql: "UPDATE entries SET record = 'hello' WHERE id = 7",
      status: 3,
      sentence: "s.sqlite is damaged in entry 7 (not JSON: "
    ),
    Damage(
      name: "a submission of no status",
      sql: "UPDATE submissions SET record = json_set(record, '$.status', 'lost')",
      status: 3,
      sentence: "is damaged in submission 8 (submission 8: 'status' is not a submission status)"
    ),
    Damage(
      name: "a sequence that cannot grow",
      sql: "UPDATE durable_metadata SET next_seq = 9223372036854775807",
      status: 3,
      sentence: "has no readable counters"
    ),
  ]

  @Test(arguments: damages)
  func `resume says what is wrong`(_ damage: Damage) throws {
    let folder = Folder()
    let journal = Journal(in: folder)
    let store = folder.file("s.sqlite")
    let running = Program.start(
      [
        "run", "--store", store, "--plugin", Fixtures.safeGate, "--faux",
        Fixtures.gateScript(journal, in: folder), "Wait",
      ],
      in: folder
    )
    #expect(journal.line() == "started")
    running.signal(9)
    _ = running.wait()
    folder.write("", to: "gate")
    let change = Program.runTool(
      [
        "python3", "-c",
        "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])", store,
        "PRAGMA ignore_check_constraints = ON; " + damage.sql,
      ],
      in: folder
    )
    try #require(change.status == 0, "\(change.error)")
    let result = Program.run(["resume", "--store", store], in: folder)
    #expect(result.status == damage.status)
    if damage.status == 0 { #expect(result.output == "It says: the gate is open\n") }
    #expect(result.error.contains(damage.sentence))
  }
}
