import PerdureModel
import PerdureStorage
import PerdureValue

/// Makes a store of an export.
package struct StoreImport {
  private let path: String
  private let builder: any StoreBuilder
  private var rules: ImportRules?
  private var counters = StoreCounters()
  private var pending: [(part: StorePart, line: Int)] = []
  private var line = 0
  private var isEnded = false

  private init(_ path: String, _ builder: any StoreBuilder) {
    self.path = path
    self.builder = builder
  }

  /// Reads the export in the file at `path` into a new store; returns how many lines it has.
  ///
  /// The store has its name once all of it is on disk. Throws `invalidInput`, naming the line, for
  /// an export that is damaged or cut off, and leaves nothing behind then.
  package static func run(_ path: String, into site: StoreSite) async throws -> Int {
    let file = try StreamFile.open(path)
    let builder: any StoreBuilder =
      switch site.format {
      case .sqlite: try await SQLiteBuilder.begin(path: site.path)
      case .jsonl: try await JSONLBuilder.begin(path: site.path)
      }
    do {
      var reader = StoreImport(path, builder)
      try await reader.read(file)
      try await builder.finish(reader.counters)
      return reader.line
    } catch {
      await builder.abandon()
      throw error
    }
  }

  private static let longestLine = 256 << 20

  private mutating func read(_ file: StreamFile) async throws {
    let digest = try ContentDigest()
    var rest: [UInt8] = []
    while true {
      let chunk: [UInt8]
      do {
        chunk = try file.read()
      } catch {
        throw PerdureError(
          .invalidInput,
          "the file \(path) cannot be read",
          hint: "check the path",
          cause: error.description
        )
      }
      if chunk.isEmpty { break }
      var start = rest.count
      rest += chunk
      var begin = 0
      while let end = rest[start...].firstIndex(of: UInt8(ascii: "\n")) {
        line += 1
        let bytes = Array(rest[begin...end])
        do {
          try await take(bytes, digest)
        } catch let error as PerdureError
          where error.details == nil
          && [.invalidInput, .storeCorrupt].contains(error.code)
        {
          throw located(error, line)
        }
        (begin, start) = (end + 1, end + 1)
      }
      rest.removeFirst(begin)
      guard rest.count < Self.longestLine else {
        throw located(ExportLine.bad("it is longer than 256 MiB"), line + 1)
      }
    }
    guard isEnded, rest.isEmpty else {
      throw PerdureError(
        .invalidInput,
        isEnded
          ? "\(path) goes on behind the line that ends it"
          : line == 0
            ? "\(path) is no export of a store" : "\(path) is cut off behind line \(line)",
        hint: "export the store again; nothing was imported"
      )
    }
  }

  private func located(_ error: PerdureError, _ line: Int) -> PerdureError {
    let what = error.cause.map { "\(error.message): \($0)" } ?? error.message
    return PerdureError(
      .invalidInput,
      "line \(line) of \(path) cannot be imported",
      hint: "export the store again; nothing was imported",
      details: ["line": .int(line)],
      cause: what
    )
  }

  private mutating func take(_ bytes: [UInt8], _ digest: ContentDigest) async throws {
    if isEnded { throw ExportLine.bad("it stands behind the line that ends the export") }
    let json: JSON
    do {
      json = try JSON(parsing: Array(bytes.dropLast()))
    } catch {
      throw ExportLine.bad("it is not JSON (\(error))")
    }
    guard rules != nil else {
      counters = try ExportLine.header(json)
      rules = ImportRules(counters)
      try digest.add(bytes)
      return
    }
    switch try ExportLine(json: json) {
    case .header: break
    case .part(let part):
      try rules?.add(part)
      pending.append((part, line))
      if pending.count == 256 { try await flush() }
      try digest.add(bytes)
    case .end(let counts, let stored):
      try rules?.end(counts)
      guard try digest.end() == stored else {
        throw ExportLine.bad("the lines before it are not those whose digest it holds")
      }
      try await flush()
      isEnded = true
    }
  }

  private mutating func flush() async throws {
    defer { pending.removeAll(keepingCapacity: true) }
    do {
      try await builder.add(pending.map { $0.part })
    } catch let failure as StorePartFailure {
      throw located(ExportLine.bad(failure.message), pending[failure.index].line)
    }
  }
}
