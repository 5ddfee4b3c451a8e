import Glibc
import PerdureModel
import Synchronization

/// Watches paths of a tree: what the kernel tells is only the reason to look, and what is reported is
/// what looks different then.
final class TreeWatch: FileWatch {
  /// One target with its path.
  struct Target: Sendable {
    var path: VirtualPath
    var target: WatchTarget
  }

  private struct State {
    var isClosed = false
    var hasEnded = false
    var mode: WatchMode = .native
    var closing: [CheckedContinuation<Void, Never>] = []
  }

  private static let settling: Int64 = 50_000_000
  private static let interval: Int64 = 2_000_000_000

  private let tree: FileTree
  private let targets: [Target]
  private let threads: WorkThreads
  private let courier: Courier
  private let onChange: @Sendable (FileChange) -> Void
  private let state = Mutex(State())
  private let bell = Mutex<Bell?>(nil)

  init(
    _ tree: FileTree,
    _ targets: [Target],
    _ threads: WorkThreads,
    _ onChange: @escaping @Sendable (FileChange) -> Void
  ) {
    self.tree = tree
    self.threads = threads
    courier = threads.makeCourier()
    self.targets = targets
    self.onChange = onChange
  }

  var mode: WatchMode { state.withLock { $0.mode } }

  /// Returns once everything is covered.
  func start() async throws(FileError) {
    let result = await withCheckedContinuation {
      (continuation: CheckedContinuation<Result<Void, FileError>, Never>) in
      let isStarted =
        courier.isReady && threads.start { [self] failure in run(continuation, failure) }
      if !isStarted {
        state.withLock { $0.hasEnded = true }
        continuation.resume(
          returning: .failure(FileError(.unknown, "no thread could be started for a watch"))
        )
      }
    }
    try result.get()
  }

  func close() async {
    state.withLock { $0.isClosed = true }
    bell.withLock { $0 }?.ring()
    await withCheckedContinuation { continuation in
      let hasEnded = state.withLock { state in
        if !state.hasEnded { state.closing.append(continuation) }
        return state.hasEnded
      }
      if hasEnded { continuation.resume() }
    }
  }

  private var isClosed: Bool { state.withLock { $0.isClosed } }

  // MARK: The thread

  private func run(
    _ started: CheckedContinuation<Result<Void, FileError>, Never>,
    _ failure: SystemFailure?
  ) {
    switch Result(catching: { () throws(FileError) in try cover(failure) }) {
    case .success((var coverage, let bell)):
      courier.deliver { started.resume(returning: .success(())) }
      follow(&coverage, bell)
    case .failure(let error): courier.deliver { started.resume(returning: .failure(error)) }
    }
    // Behind all that was to be told before.
    courier.deliver { [self] in
      let closing = state.withLock { state in
        state.hasEnded = true
        defer { state.closing = [] }
        return state.closing
      }
      for continuation in closing { continuation.resume() }
    }
  }

  private func cover(_ failure: SystemFailure?) throws(FileError) -> (WatchCoverage, Bell) {
    if let failure { throw WorkThreads.unprepared(failure) }
    var coverage = WatchCoverage(tree, targets)
    do {
      let bell = try Bell()
      self.bell.withLock { $0 = bell }
      try coverage.look()
      state.withLock { $0.mode = coverage.mode }
      return (coverage, bell)
    } catch let failure as SystemFailure {
      throw FileError(.unknown, "no watch can be made: \(failure.text)")
    } catch let error as FileError {
      throw error
    } catch {
      throw FileError(.unknown, "no watch can be made: \(error)")
    }
  }

  private func follow(_ coverage: inout WatchCoverage, _ bell: Bell) {
    while !isClosed {
      let now = monotonicNanoseconds()
      let isPolling = coverage.mode == .polling
      _ = Readiness.wait(
        bell.descriptor,
        coverage.source?.descriptor,
        until: isPolling ? now + Self.interval : nil
      )
      if isClosed { return }
      var news = coverage.source?.take() ?? .changed
      // What belongs together arrives within a moment.
      _ = Readiness.wait(bell.descriptor, until: monotonicNanoseconds() + Self.settling)
      if isClosed { return }
      news.formUnion(coverage.source?.take() ?? [])
      if !news.isEmpty || isPolling { report(&coverage, news) }
    }
  }

  private func report(_ coverage: inout WatchCoverage, _ news: ChangeSource.News) {
    let before = coverage.snapshot
    let wasPolling = coverage.mode == .polling
    do {
      try coverage.look()
    } catch {
      courier.deliver { [onChange] in onChange(.failed(error)) }
      state.withLock { $0.isClosed = true }
      return
    }
    state.withLock { $0.mode = coverage.mode }
    if news.contains(.overflow) || (coverage.mode == .polling) != wasPolling {
      courier.deliver { [onChange] in onChange(.overflow) }
      return
    }
    let changed = coverage.snapshot.changes(since: before)
    guard !changed.isEmpty else { return }
    let paths = changed.map { $0.text }.sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    courier.deliver { [onChange] in onChange(.paths(paths)) }
  }
}
