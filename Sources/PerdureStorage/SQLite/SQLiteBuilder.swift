package import PerdureModel
import PerdureValue

/// A new SQLite store that is filled with the parts of another.
///
/// It is written without a journal into a file of another name: if the process dies, nothing of it
/// counts.
package final class SQLiteBuilder: StoreBuilder {
  private let thread: StoreThread<SQLiteFiller>
  private let destination: Destination

  private init(_ thread: StoreThread<SQLiteFiller>, _ destination: Destination) {
    self.thread = thread
    self.destination = destination
  }

  /// Begins a store at a path that must name nothing.
  package static func begin(path: String) async throws -> SQLiteBuilder {
    let destination = try Destination(path)
    let thread = try StoreThread<SQLiteFiller>()
    do {
      try await thread.adopt {
        try StorePath.create(destination.partial)
        return try SQLiteFiller(destination.partial)
      }
    } catch {
      await thread.stop()
      destination.abandon()
      throw error
    }
    return SQLiteBuilder(thread, destination)
  }

  package func add(_ parts: [StorePart]) async throws {
    try await thread.call { try $0.add(parts) }
  }

  package func finish(_ counters: StoreCounters) async throws {
    try await thread.call { try $0.finish(counters) }
    await thread.stop()
    do {
      let folder = try FolderFiles(at: HostFolder.parent(of: destination.partial), creates: false)
      try folder.flush(HostFolder.name(of: destination.partial))
    } catch {
      throw Destination.error(error, destination.path)
    }
    try destination.publish()
  }

  package func abandon() async {
    await thread.stop()
    destination.abandon()
  }
}

/// The database of a builder, for the one thread that uses it.
private final class SQLiteFiller: BlockingStore {
  private let connection: Connection

  init(_ path: String) throws {
    connection = try Connection(path: path)
    do {
      for pragma in [
        "page_size = 1024", "journal_mode = OFF", "synchronous = OFF", "cache_size = -16000",
        // What we write is printed from values, so the checks could find nothing.
        "ignore_check_constraints = ON",
      ] {
        _ = try connection.rows("PRAGMA \(pragma)") { _ in }
      }
      try connection.execute("BEGIN")
      for sql in Schema.creation + [Schema.extras] { try connection.execute(sql) }
    } catch {
      connection.close()
      throw error
    }
  }

  func add(_ parts: [StorePart]) throws {
    for (index, part) in parts.enumerated() {
      do {
        try add(part)
      } catch let error as PerdureError where error.code == .storeCorrupt {
        // A constraint of the tables: places ascend, so it can only be the table of ids.
        throw StorePartFailure(index: index, "the id \(part.place.id) belongs to another record")
      }
    }
  }

  private func add(_ part: StorePart) throws {
    switch part {
    case .revision(let id, let sequence, let content):
      let (kind, value): (String, JSON) =
        switch content {
        case .base(_, let value): ("base", value)
        case .delta(_, let operations): ("delta", .array(operations.map { $0.json }))
        }
      try insert(
        "document_revisions (document_id, seq, kind, version, content)",
        [
          .int(id.value), .int(sequence), .string(kind), .int(content.version),
          .text(value.encoded),
        ]
      )
    case .extra(let scope, let id, let value):
      try insert(
        "perdure_extras (scope, id, value)",
        [.string(scope), .int(id), .text(value.encoded)]
      )
    case .conversation(let record): try insert(part, record.json)
    case .entry(let found): try insert(part, found.entry.json)
    case .task(let record): try insert(part, record.json)
    case .submission(let record): try insert(part, record.json)
    case .document(let record): try insert(part, record.json)
    }
  }

  private func insert(_ part: StorePart, _ json: JSON) throws {
    guard let row = RecordRow(part), let type = part.recordType else { return }
    try insert("record_ids (id, record_type)", [.int(row.id), .string(type.rawValue)])
    let names = row.columns.map { $0.name }.joined(separator: ", ")
    try insert(
      "\(row.table) (id, \(names), record)",
      [.int(row.id)] + row.columns.map { $0.value } + [.text(json.encoded)]
    )
  }

  private func insert(_ target: String, _ values: [SQLValue]) throws {
    let places = Array(repeating: "?", count: values.count).joined(separator: ", ")
    try connection.run("INSERT INTO \(target) VALUES (\(places))", values)
  }

  func finish(_ counters: StoreCounters) throws {
    try connection.run(
      "UPDATE durable_metadata SET next_id = ?, next_seq = ? WHERE singleton = 1",
      [.string(String(counters.nextId)), .int(counters.nextSequence)]
    )
    // Sorting once is less work than keeping the order all the time.
    for index in Schema.indexes {
      try connection.execute("CREATE INDEX \(index.name) ON \(index.columns)")
    }
    try connection.execute("COMMIT")
  }

  func afterCall() {}

  func close() { connection.close() }
}
