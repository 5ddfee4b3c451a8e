import Perdure

/// What it costs to append one word to a large document.
enum DocumentAppend {
  private struct Page: Codable, Sendable {
    var text: String
  }

  private static let word = "lorem "
  private static let document = Document("bench.page", scope: .session) { _ in
    Page(text: String(repeating: word, count: (1 << 20) / word.utf8.count))
  }

  static func run(_ arguments: Arguments) async throws {
    let calibration = try Calibration(in: arguments.folder)
    let count = arguments.count ?? 200
    Machine.removeDatabase(arguments.folder + "/perdure.db")
    let host = try await BenchHost.open(arguments, BenchModel(calls: 0, stamps: nil))
    try await append(host)
    let start = Usage()
    var commits: [Commit] = []
    for _ in 0..<count {
      let before = Commit.Mark(host.path)
      try await append(host)
      commits.append(before.commit(host.path))
    }
    let wall = start.elapsed
    var line = ResultLine("append")
    line["n"] = .int(Int64(count))
    line.set("ms_per_commit", wall / Double(max(1, count)))
    start.add(to: &line, count: count, per: "commit")
    line.set("written_bytes_p50", percentile(commits.map(\.written), 50))
    line.set("written_bytes_max", commits.map(\.written).max() ?? 0)
    line.set("disk_bytes_per_commit", commits.map(\.disk).reduce(0, +) / Double(max(1, count)))
    line.set("log_bytes_p50", percentile(commits.map(\.log), 50))
    try await host.harness.close()
    line.set("reopen_and_read_ms", try await reading(arguments))
    line["sync"] = .string(arguments.sync)
    line.print(calibration)
  }

  private static func append(_ host: BenchHost) async throws {
    try await host.harness.commit { tx in
      try await tx.edit(document) { try $0.append(word, to: ["text"]) }
    }
  }

  /// How long it takes to open the store and read the document, changes included.
  private static func reading(_ arguments: Arguments) async throws -> Double {
    let start = Machine.now
    let host = try await BenchHost.open(arguments, BenchModel(calls: 0, stamps: nil))
    guard try await host.harness.value(document) != nil else {
      throw PerdureError(.notFound, "the document of the benchmark is gone")
    }
    let time = milliseconds(Machine.now - start)
    try await host.harness.close()
    return time
  }

  /// What one commit wrote: into files, to the disk, and as growth of the write-ahead log.
  private struct Commit {
    var written: Double
    var disk: Double
    var log: Double

    struct Mark {
      private let written = Machine.writtenBytes
      private let disk = Machine.diskBytes
      private let log: Int64

      init(_ path: String) { log = Machine.size(of: path + "-wal") }

      func commit(_ path: String) -> Commit {
        Commit(
          written: Double(Machine.writtenBytes - written),
          disk: Double(Machine.diskBytes - disk),
          log: Double(max(0, Machine.size(of: path + "-wal") - log))
        )
      }
    }
  }
}
