package import PerdureStorage
import Synchronization

/// The files of a store on a disk that fails once, in a chosen call, or keeps somebody waiting.
///
/// Only calls that change something count, from 1. Nothing waits for the real disk.
package final class FaultyFiles: StoreFiles {
  /// How a call fails.
  package enum Fault: String, Sendable, CaseIterable {
    /// It does nothing and reports an error.
    case fails
    /// It does a half of its work and reports an error.
    case tears
    /// As `tears`, and nothing can grow from then on.
    case fills
    /// It does its work and reports an error.
    case misreports
    /// It does nothing, and neither does any later call: what is there is what a killed process
    /// leaves.
    case dies
  }

  private struct State {
    var calls: [String] = []
    var isFull = false
    var isDead = false
  }

  private let base: any StoreFiles
  private let fault: Fault
  private let failing: Int
  private let before: @Sendable (String) -> Void
  private let state = Mutex(State())

  /// Puts a failing disk under `base`; a `failing` call of 0 never comes, and `before` may wait
  /// before any call that counts.
  package init(
    _ base: any StoreFiles,
    _ fault: Fault = .fails,
    at failing: Int = 0,
    before: @escaping @Sendable (String) -> Void = { _ in }
  ) {
    self.base = base
    self.fault = fault
    self.failing = failing
    self.before = before
  }

  /// What was called, as `append main.jsonl`.
  package var calls: [String] { state.withLock { $0.calls } }

  /// Whether the failing call came.
  package var hasFailed: Bool { failing > 0 && calls.count >= failing }

  private static let broken = FileFailure(code: 5, "Input/output error")
  private static let full = FileFailure(code: 28, "No space left on device")

  /// Does `half` or `whole` of a call, as the disk allows.
  private func call(
    _ name: String,
    grows: Bool = false,
    half: () throws(FileFailure) -> Void = {},
    whole: () throws(FileFailure) -> Void
  ) throws(FileFailure) {
    before(name)
    let (isFailing, isFull, isDead) = state.withLock { state in
      state.calls.append(name)
      let isFailing = state.calls.count == failing
      if isFailing, fault == .dies { state.isDead = true }
      let wasFull = state.isFull
      if isFailing, fault == .fills { state.isFull = true }
      return (isFailing, wasFull, state.isDead)
    }
    if isDead { throw Self.broken }
    if isFull, grows { throw Self.full }
    guard isFailing else { return try whole() }
    switch fault {
    case .fails, .dies: throw Self.broken
    case .tears:
      try half()
      throw Self.broken
    case .fills:
      guard grows else { return try whole() }
      try half()
      throw Self.full
    case .misreports:
      try whole()
      throw Self.broken
    }
  }

  package func names() throws(FileFailure) -> [String] { try base.names() }

  package func read(_ name: String, from offset: Int) throws(FileFailure) -> [UInt8]? {
    try base.read(name, from: offset)
  }

  package func read(
    _ name: String,
    from offset: Int,
    count: Int
  ) throws(FileFailure) -> [UInt8]? {
    try base.read(name, from: offset, count: count)
  }

  package func mark(_ name: String) throws(FileFailure) -> FileMark? { try base.mark(name) }

  package func append(_ bytes: [UInt8], to name: String) throws(FileFailure) {
    try call("append \(name)", grows: true) { () throws(FileFailure) in
      try base.append(Array(bytes.prefix(bytes.count / 2)), to: name)
    } whole: { () throws(FileFailure) in
      try base.append(bytes, to: name)
    }
  }

  package func write(_ bytes: [UInt8], to name: String) throws(FileFailure) {
    try call("write \(name)", grows: true) { () throws(FileFailure) in
      try base.write(Array(bytes.prefix(bytes.count / 2)), to: name)
    } whole: { () throws(FileFailure) in
      try base.write(bytes, to: name)
    }
  }

  package func flush(_ name: String) throws(FileFailure) { try call("flush \(name)") {} }

  package func flushNames() throws(FileFailure) { try call("flush names") {} }

  package func rename(_ name: String, to new: String) throws(FileFailure) {
    try call("rename \(name)") { () throws(FileFailure) in try base.rename(name, to: new) }
  }

  package func truncate(_ name: String, to size: Int) throws(FileFailure) {
    try call("truncate \(name)") { () throws(FileFailure) in try base.truncate(name, to: size) }
  }

  package func remove(_ name: String) throws(FileFailure) {
    try call("remove \(name)") { () throws(FileFailure) in try base.remove(name) }
  }

  package func share() { base.share() }

  package func exclude() -> Bool { base.exclude() }

  package func release() { base.release() }

  package func areInPlace() -> Bool { base.areInPlace() }
}
