package import PerdureModel
import PerdureValue

/// A new store in a folder of JSON lines that is filled with the parts of another.
///
/// Like an open store, all of it is held in memory until it is finished.
package final class JSONLBuilder: StoreBuilder {
  private let thread: StoreThread<JSONLFiller>
  private let destination: Destination

  private init(_ thread: StoreThread<JSONLFiller>, _ destination: Destination) {
    self.thread = thread
    self.destination = destination
  }

  /// Begins a store at a path that must name nothing.
  package static func begin(path: String) async throws -> JSONLBuilder {
    let destination = try Destination(path)
    let thread = try StoreThread<JSONLFiller>()
    do {
      try await thread.adopt {
        do throws(FileFailure) {
          return JSONLFiller(try FolderFiles(at: destination.partial, creates: true))
        } catch {
          throw Destination.error(error, destination.path)
        }
      }
    } catch {
      await thread.stop()
      destination.abandon()
      throw error
    }
    return JSONLBuilder(thread, destination)
  }

  package func add(_ parts: [StorePart]) async throws {
    try await thread.call { try $0.add(parts) }
  }

  package func finish(_ counters: StoreCounters) async throws {
    let path = destination.path
    try await thread.call { filler in
      do {
        try filler.finish(counters)
      } catch let failure as FileFailure {
        throw Destination.error(failure, path)
      }
    }
    await thread.stop()
    try destination.publish()
  }

  package func abandon() async {
    await thread.stop()
    destination.abandon()
  }
}

/// The parts of a builder, for the one thread that uses them.
private final class JSONLFiller: BlockingStore {
  private let files: FolderFiles
  private var types: [Int64: RecordType] = [:]
  private var commits = CommitPlan()

  init(_ files: FolderFiles) { self.files = files }

  func add(_ parts: [StorePart]) throws {
    for (index, part) in parts.enumerated() {
      if let type = part.recordType, types.updateValue(type, forKey: part.place.id) != nil {
        throw StorePartFailure(index: index, "the id \(part.place.id) belongs to another record")
      }
      commits.add(part)
    }
  }

  func finish(_ counters: StoreCounters) throws {
    var state = MemoryState()
    var markers: [UInt8] = []
    var sidecars: [Sidecar: [UInt8]] = [:]
    try files.append([], to: JSONLNames.main)
    for batch in commits.batches(until: counters.nextSequence) {
      let effects = try BatchEffects(batch, state.facts(BatchNeeds(batch)))
      try state.replay(batch)
      var encoder = GroupEncoder()
      encoder.add(batch, effects, nextId: nil)
      markers += encoder.markers
      for (sidecar, addition) in encoder.additions {
        let kept = addition.newBase.map { addition.bytes[$0...] } ?? addition.bytes[...]
        if addition.newBase != nil { sidecars[sidecar] = [] }
        sidecars[sidecar, default: []] += kept
      }
      for sidecar in encoder.finished { sidecars[sidecar] = nil }
      guard markers.count > 1 << 20 else { continue }
      try files.append(markers, to: JSONLNames.main)
      markers = []
    }
    try files.append(markers, to: JSONLNames.main)
    for (sidecar, bytes) in sidecars { try files.write(bytes, to: sidecar.name) }
    try writeExtras(nextId: state.counters.nextId < counters.nextId ? counters.nextId : nil)
    for name in try files.names() { try files.flush(name) }
    try files.flushNames()
  }

  private func writeExtras(nextId: Int64?) throws {
    var encoder = GroupEncoder()
    if let nextId { encoder.add(ExtrasRecord(commit: nil, nextId: nextId, writes: [])) }
    var rest = commits.extras[...]
    while !rest.isEmpty {
      let chunk = Array(rest.prefix(100))
      encoder.add(ExtrasRecord(commit: nil, nextId: nil, writes: chunk))
      rest = rest.dropFirst(chunk.count)
    }
    if !encoder.extras.isEmpty { try files.append(encoder.extras, to: JSONLNames.extras) }
  }

  func afterCall() {}

  func close() {}
}

/// Which part goes into which commit.
///
/// Entries, documents and their revisions name theirs. Other records go into the commit of the next
/// record that names one, because ids are minted in the order of commits.
private struct CommitPlan {
  private(set) var extras: [ExtraWrite] = []
  private var writes: [Int64: [StorageWrite]] = [:]
  private var free: [(id: Int64, write: StorageWrite)] = []
  private var anchors: [(id: Int64, sequence: Int64)] = []
  private var documents: [DocumentID: DocumentRecord] = [:]

  mutating func add(_ part: StorePart) {
    switch part {
    case .conversation(let record): free.append((record.id.value, .conversation(record)))
    case .task(let record): free.append((record.id.value, .task(record)))
    case .submission(let record): free.append((record.id.value, .submission(record)))
    case .entry(let found):
      anchors.append((found.entry.id.value, found.commitSequence))
      writes[found.commitSequence, default: []].append(.entry(found.entry))
    case .document(let record): add(record)
    case .revision(let id, let sequence, let content): add(id, sequence, content)
    case .extra(let scope, let id, let value):
      extras.append(ExtraWrite(scope: scope, id: id, value: value))
    }
  }

  private mutating func add(_ record: DocumentRecord) {
    anchors.append((record.id.value, record.createdAt))
    if let retired = record.retiredAt {
      writes[retired, default: []].append(.retireDocument(record.id))
    }
    // The value with which a document began may be gone; nothing can read it then.
    if record.isCurrentOnly {
      writes[record.createdAt, default: []].append(
        .createDocument(record, version: 1, value: [:])
      )
    }
    documents[record.id] = record
  }

  private mutating func add(_ id: DocumentID, _ sequence: Int64, _ content: DocumentContent) {
    guard let record = documents[id] else { return }
    guard sequence == record.createdAt, case .base(let version, let value) = content else {
      writes[sequence, default: []].append(.changeDocument(id, content))
      return
    }
    writes[sequence, default: []].removeAll { write in
      if case .createDocument(let other, _, _) = write { return other.id == id }
      return false
    }
    writes[sequence, default: []].append(.createDocument(record, version: version, value: value))
  }

  /// Returns the batches in their order; the last sequence number has one, be it empty.
  func batches(until nextSequence: Int64) -> [Batch] {
    var writes = writes
    if nextSequence > 1 { writes[nextSequence - 1, default: []] += [] }
    let anchors = anchors.sorted { $0.id < $1.id }
    var place = 0
    for (id, write) in free.sorted(by: { $0.id < $1.id }) {
      while place < anchors.count, anchors[place].id < id { place += 1 }
      let sequence = place < anchors.count ? anchors[place].sequence : nextSequence - 1
      writes[sequence, default: []].append(write)
    }
    return writes.keys.sorted().map { sequence in
      Batch(sequence: sequence, writes: writes[sequence] ?? [], at: 0)
    }
  }
}
