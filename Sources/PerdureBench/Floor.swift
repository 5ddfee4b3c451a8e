import PerdureModel
import PerdureValue

/// What SQLite alone costs for the rows of W1: two commits a turn, with no agent around them.
enum Floor {
  static func run(_ arguments: Arguments) throws {
    let calibration = try Calibration(in: arguments.folder)
    let turns = arguments.count ?? 200
    let path = arguments.folder + "/floor.db"
    Machine.removeDatabase(path)
    let database = try open(path, arguments)
    let begin = try Database.Statement(database, "BEGIN IMMEDIATE")
    let commit = try Database.Statement(database, "COMMIT")
    let answer = try insert(database, "assistant")
    let result = try insert(database, "toolResult")
    let stamps = Stamps()
    for turn in 0..<turns {
      stamps.hit()
      try begin.run()
      try answer.run(Self.answer(turn))
      try commit.run()
      try begin.run()
      try result.run(Self.result(turn))
      try commit.run()
    }
    stamps.hit()
    let level = arguments.sync == "full" ? "FULL" : "NORMAL"
    var line = ResultLine("w1", peer: "SQLite floor \(level) 2 commits/turn")
    stamps.summary.add(to: &line, turns: turns)
    line["sync"] = .string(arguments.sync)
    let bytes = try database.usedBytes()
    line["db_bytes"] = .int(bytes)
    line.set("db_bytes_per_turn", Double(bytes) / Double(max(1, turns)))
    line.print(calibration)
  }

  private static func open(_ path: String, _ arguments: Arguments) throws -> Database {
    let database = try Database(path: path)
    try database.execute("PRAGMA journal_mode = WAL")
    try database.execute("PRAGMA synchronous = \(arguments.sync)")
    try database.execute(
      "CREATE TABLE e (id INTEGER PRIMARY KEY, conv INTEGER, kind TEXT, json TEXT)"
    )
    try database.execute("CREATE INDEX e_conv ON e (conv, id)")
    return database
  }

  private static func insert(_ database: Database, _ kind: String) throws -> Database.Statement {
    try Database.Statement(
      database,
      "INSERT INTO e (conv, kind, json) VALUES (1, '\(kind)', ?)"
    )
  }

  private static func answer(_ turn: Int) -> String {
    """
    {"role": "assistant", "content": [{"type": "toolCall", "id": "call_\(turn)", "name": "noop", \
    "arguments": {"i": \(turn)}}]}
    """
  }

  private static func result(_ turn: Int) -> String {
    """
    {"role": "toolResult", "id": "call_\(turn)", "content": [{"type": "text", \
    "text": "\(BenchHost.payload)"}]}
    """
  }
}
