import Glibc
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import TestPrograms

/// Processes that want to own one store, and die now and then while they do.
///
///     CrashProcess race sqlite|jsonl FOLDER SEED TURNS    owns the store TURNS times, or dies before
///     CrashProcess raced sqlite|jsonl FOLDER              checks what all of them left
///
/// A witness beside the store, locked in another way, says whether two own it at once. What was
/// confirmed is written down as `SEQUENCE TOKEN` by whoever committed it.
struct Race {
  enum Kind: String { case sqlite, jsonl }

  let kind: Kind
  let folder: String

  private var confirmed: String { folder + "/confirmed" }

  private func open() async throws -> any Storage {
    switch kind {
    case .sqlite:
      try await SQLiteStorage.open(path: folder + "/store.sqlite", durability: .normal)
    case .jsonl: try await JSONLStorage.open(path: folder + "/store", durability: .normal)
    }
  }

  // MARK: Racing

  func run(seed: UInt64, turns: Int) async throws {
    var random = SeededGenerator(seed: seed)
    // Opened before any store, so that a kill frees the witness before the store.
    let witness = try Witness(folder + "/witness")
    if random.chance(60) { Self.killLater(microseconds: UInt32(random.int(1...60_000))) }
    for turn in 1...turns {
      let storage = try await owned()
      guard witness.take() else {
        print("violation: two processes own the store")
        exit(3)
      }
      for _ in 0..<random.int(1...4) { try await commit("\(getpid())-\(turn)", to: storage) }
      witness.release()
      await storage.close()
    }
  }

  /// Tries until the store is free.
  private func owned() async throws -> any Storage {
    while true {
      do {
        return try await open()
      } catch let error as PerdureError where error.code == .storeInUse {
        sched_yield()
      }
    }
  }

  private func commit(_ token: String, to storage: any Storage) async throws {
    let counters = try await storage.counters()
    let entry = EntryRecord(
      id: .known(counters.nextId),
      conversationId: .root,
      kind: "race",
      data: .string(token)
    )
    var writes = [StorageWrite.entry(entry)]
    if counters.nextSequence == 1 { writes.append(.conversation(ConversationRecord(id: .root))) }
    let batch = Batch(sequence: counters.nextSequence, writes: writes, at: 0)
    try await storage.apply([batch], expecting: counters, nextId: counters.nextId + 1)
    try append("\(counters.nextSequence) \(token)", to: confirmed)
  }

  private static func killLater(microseconds: UInt32) {
    var thread = pthread_t()
    let delay = unsafe UnsafeMutableRawPointer(bitPattern: UInt(microseconds))
    unsafe pthread_create(
      &thread,
      nil,
      { delay in
        usleep(UInt32(truncatingIfNeeded: UInt(bitPattern: delay)))
        kill(getpid(), SIGKILL)
        return nil
      },
      delay
    )
  }

  // MARK: Checking

  /// Prints what is wrong, or how many commits there are and by how many processes.
  func check() async throws {
    let storage = try await open()
    let counters = try await storage.counters()
    var tokens: [Int64: String] = [:]
    let entries = try await Page.all(order: .ascending) {
      try await storage.scanEntries(EntryQuery(conversationId: .root), $0)
    }
    for entry in entries {
      guard let found = try await storage.entry(entry.id) else { continue }
      tokens[found.commitSequence] = entry.data?.text
    }
    if tokens.keys.sorted() != Array(1..<counters.nextSequence) {
      print("violation: the commits are not 1 to \(counters.nextSequence - 1)")
    }
    for line in Program.read(confirmed).split(separator: "\n") {
      let words = line.split(separator: " ")
      guard words.count == 2, let sequence = Int64(words[0]) else { continue }
      if tokens[sequence] != String(words[1]) { print("violation: lost the commit \(line)") }
    }
    if kind == .sqlite, let storage = storage as? SQLiteStorage {
      let found = try await storage.inspect {
        try $0.rows("PRAGMA integrity_check") { $0.string(0) }
      }
      if found != ["ok"] { print("violation: \(found)") }
    }
    let owners = Set(tokens.values.compactMap { $0.split(separator: "-").first })
    print("commits \(tokens.count) owners \(owners.count)")
    await storage.close()
  }
}

/// A lock of the kind that a process has, not a descriptor.
private struct Witness {
  private let file: Int32

  init(_ path: String) throws {
    file = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw PerdureError(.invalidInput, "cannot open \(path)") }
  }

  /// Takes it; `false` if another process has it.
  func take() -> Bool { set(F_WRLCK) }

  func release() { _ = set(F_UNLCK) }

  private func set(_ type: Int32) -> Bool {
    var lock = Glibc.flock()
    lock.l_type = Int16(type)
    lock.l_whence = Int16(SEEK_SET)
    return unsafe fcntl(file, F_SETLK, &lock) == 0
  }
}
