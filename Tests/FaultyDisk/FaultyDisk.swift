import CFaultyDisk
import Synchronization

/// A disk for SQLite that fails once, in a chosen call, or keeps somebody waiting.
///
/// Only calls that change something, or open a file, count, from 1. Nothing waits for the real disk.
///
/// `@unchecked Sendable`: `disk` is set in the initializer and read in the deinitializer only.
@safe package final class FaultyDisk: @unchecked Sendable {
  /// How a call fails.
  package enum Fault: String, Sendable, CaseIterable {
    /// It does nothing and reports an error.
    case fails
    /// It does a half of its work and reports an error.
    case tears
    /// As `tears`, and nothing changes from then on, as if the process had ended.
    case dies
    /// As `tears`, and nothing can grow from then on.
    case fills
    /// It does its work and reports an error.
    case misreports
  }

  /// A call that counts.
  package enum Call: Int32, Sendable {
    case open, write, sync, truncate, delete
  }

  private struct State {
    var count = 0
    var isFull = false
    var isDead = false
  }

  /// What to open a database with.
  package let name: String
  private let fault: Fault
  private let failing: Int
  private let before: @Sendable (Call) -> Void
  private let state = Mutex(State())
  private var disk: UnsafeMutableRawPointer?

  private static let last = Atomic(0)

  /// Makes a disk; a `failing` call of 0 never comes, and `before` may wait before any call.
  package init(
    _ fault: Fault = .fails,
    at failing: Int = 0,
    before: @escaping @Sendable (Call) -> Void = { _ in }
  ) {
    let number = Self.last.add(1, ordering: .relaxed).newValue
    name = "faulty-disk-\(number)"
    self.fault = fault
    self.failing = failing
    self.before = before
    let context = unsafe Unmanaged.passUnretained(self).toOpaque()
    unsafe disk = faulty_disk_register(
      name,
      { context, call, grows in
        guard let context = unsafe context else { return 0 }
        let disk = unsafe Unmanaged<FaultyDisk>.fromOpaque(context).takeUnretainedValue()
        return disk.decide(call, grows: grows != 0)
      },
      context
    )
  }

  deinit { if let disk = unsafe disk { unsafe faulty_disk_unregister(disk) } }

  /// Whether the failing call came.
  package var hasFailed: Bool { failing > 0 && count >= failing }

  /// How many calls there were.
  package var count: Int { state.withLock { $0.count } }

  private func decide(_ call: Int32, grows: Bool) -> Int32 {
    if let call = Call(rawValue: call) { before(call) }
    let action = state.withLock { state in
      state.count += 1
      if state.isDead { return FAULTY_DISK_FAIL }
      if state.isFull { return grows ? FAULTY_DISK_FULL : FAULTY_DISK_PASS }
      guard state.count == failing else { return FAULTY_DISK_PASS }
      switch fault {
      case .fails: return FAULTY_DISK_FAIL
      case .tears: return FAULTY_DISK_TEAR
      case .misreports: return FAULTY_DISK_MISREPORT
      case .dies:
        state.isDead = true
        return FAULTY_DISK_TEAR
      case .fills:
        state.isFull = true
        return grows ? FAULTY_DISK_TEAR_FULL : FAULTY_DISK_PASS
      }
    }
    return Int32(action.rawValue)
  }
}
