import Glibc
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization

/// The call at which something happens: a death or, in memory, a fault.
final class Failpoint: Sendable {
  /// Whose calls are counted.
  enum Layer: String { case storage, files }

  /// When it happens at the chosen call; `half` of a write is done only to files.
  enum Moment: String { case before, half, after }

  /// A call that was made.
  struct Call: Sendable {
    var name: String
    var writes: Bool
  }

  let layer: Layer
  private let target: Int
  private let moment: Moment
  private let happen: @Sendable () throws -> Void
  private let made = Mutex<[Call]>([])

  init(
    layer: Layer,
    target: Int,
    moment: Moment,
    _ happen: @escaping @Sendable () throws -> Void
  ) {
    self.layer = layer
    self.target = target
    self.moment = moment
    self.happen = happen
  }

  convenience init(
    _ layer: String,
    _ target: String,
    _ moment: String,
    _ happen: @escaping @Sendable () throws -> Void
  ) throws {
    guard let layer = Layer(rawValue: layer), let target = Int(target),
      let moment = Moment(rawValue: moment)
    else { throw PerdureError(.invalidInput, "there is no call '\(layer) \(target) \(moment)'") }
    self.init(layer: layer, target: target, moment: moment, happen)
  }

  /// The calls so far.
  var calls: [Call] { made.withLock { $0 } }

  /// Whether the chosen call came.
  var isReached: Bool { target > 0 && calls.count >= target }

  /// Counts a call and returns when something happens at it, or `nil`.
  func enter(_ name: String, writes: Bool) throws -> Moment? {
    let number = made.withLock { calls in
      calls.append(Call(name: name, writes: writes))
      return calls.count
    }
    guard number == target else { return nil }
    if moment == .before { try happen() }
    return moment
  }

  /// What happens behind a part of the chosen call.
  func reach(_ moment: Moment, _ chosen: Moment?) throws {
    if chosen == moment { try happen() }
  }

  /// Ends this process as `kill -9` does.
  static func die() {
    kill(getpid(), SIGKILL)
    // The signal may reach another thread first.
    while true { pause() }
  }
}

/// A storage with a failpoint.
final class FailpointStorage: ForwardingStorage {
  let base: any Storage
  private let failpoint: Failpoint

  init(_ base: any Storage, _ failpoint: Failpoint) {
    self.base = base
    self.failpoint = failpoint
  }

  func around<Result>(
    writes: Bool,
    _ call: () async throws -> Result
  ) async throws -> Result {
    let chosen = try failpoint.enter(writes ? "apply" : "read", writes: writes)
    let result = try await call()
    try failpoint.reach(.after, chosen)
    return result
  }
}

/// The files of a folder with a failpoint in the calls that change something.
final class FailpointFiles: StoreFiles {
  private let base: any StoreFiles
  private let failpoint: Failpoint

  init(_ base: any StoreFiles, _ failpoint: Failpoint) {
    self.base = base
    self.failpoint = failpoint
  }

  private func call(
    _ name: String,
    half: () throws(FileFailure) -> Void = {},
    whole: () throws(FileFailure) -> Void
  ) throws(FileFailure) {
    // Only deaths happen here.
    let chosen = try? failpoint.enter(name, writes: true)
    if chosen == .half {
      try half()
      try? failpoint.reach(.half, chosen)
    }
    try whole()
    try? failpoint.reach(.after, chosen)
  }

  func names() throws(FileFailure) -> [String] { try base.names() }

  func read(_ name: String, from offset: Int) throws(FileFailure) -> [UInt8]? {
    try base.read(name, from: offset)
  }

  func read(
    _ name: String,
    from offset: Int,
    count: Int
  ) throws(FileFailure) -> [UInt8]? {
    try base.read(name, from: offset, count: count)
  }

  func mark(_ name: String) throws(FileFailure) -> FileMark? { try base.mark(name) }

  func append(_ bytes: [UInt8], to name: String) throws(FileFailure) {
    try call("append") { () throws(FileFailure) in
      try base.append(Array(bytes.prefix(bytes.count / 2)), to: name)
    } whole: { () throws(FileFailure) in
      try base.append(bytes, to: name)
    }
  }

  func write(_ bytes: [UInt8], to name: String) throws(FileFailure) {
    try call("write") { () throws(FileFailure) in
      try base.write(Array(bytes.prefix(bytes.count / 2)), to: name)
    } whole: { () throws(FileFailure) in
      try base.write(bytes, to: name)
    }
  }

  func flush(_ name: String) throws(FileFailure) { try base.flush(name) }

  func flushNames() throws(FileFailure) { try base.flushNames() }

  func rename(_ name: String, to new: String) throws(FileFailure) {
    try call("rename") { () throws(FileFailure) in try base.rename(name, to: new) }
  }

  func truncate(_ name: String, to size: Int) throws(FileFailure) {
    try call("truncate") { () throws(FileFailure) in try base.truncate(name, to: size) }
  }

  func remove(_ name: String) throws(FileFailure) {
    try call("remove") { () throws(FileFailure) in try base.remove(name) }
  }

  func share() { base.share() }

  func exclude() -> Bool { base.exclude() }

  func release() { base.release() }

  func areInPlace() -> Bool { base.areInPlace() }
}
