import CPerdureLinux
import Synchronization

/// How often this process has waited for the disk.
///
/// The program has its own `fsync` and `fdatasync`, which stand before those of the C library for
/// every library in the process; so SQLite's waits are counted as well.
enum Syncs {
  fileprivate static let counter = Atomic<Int64>(0)

  /// The waits so far.
  static var count: Int64 { counter.load(ordering: .relaxed) }

  fileprivate static func wait(for descriptor: Int32, dataOnly: Bool) -> Int32 {
    counter.add(1, ordering: .relaxed)
    return perdure_bench_sync(descriptor, dataOnly ? 1 : 0)
  }
}

@c(fsync)
public func countedSync(_ descriptor: Int32) -> Int32 {
  Syncs.wait(for: descriptor, dataOnly: false)
}

@c(fdatasync)
public func countedDataSync(_ descriptor: Int32) -> Int32 {
  Syncs.wait(for: descriptor, dataOnly: true)
}
