package import PerdureModel
import PerdureValue

/// All that came of one launch, for commands whose output is small, such as probes.
package struct SandboxOutcome: Sendable {
  package var records: [SandboxRecord]
  package var output: [UInt8]
  package var errors: [UInt8]
  package var status: Int32

  /// Runs a launch to its end.
  ///
  /// More output than `most` bytes ends it, and so do `milliseconds`.
  package init(of launch: SandboxLaunch, most: Int = 1 << 20, milliseconds: Int64? = nil) {
    let deadline = milliseconds.map { monotonicNanoseconds() + $0 * 1_000_000 }
    var collected: [SandboxLaunch.End: [UInt8]] = [:]
    var open = SandboxLaunch.End.allCases
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    while !open.isEmpty {
      let left = deadline.map { ($0 - monotonicNanoseconds()) / 1_000_000 }
      if let left, left <= 0 {
        launch.abandon()
        break
      }
      for end in launch.wait(for: open, milliseconds: left.map { Int32(clamping: $0) } ?? -1) {
        guard let bytes = launch.read(end, into: &buffer) else { continue }
        if bytes.isEmpty { open.removeAll { $0 == end } }
        collected[end, default: []] += bytes
        if collected[end, default: []].count > most { launch.end() }
      }
    }
    status = launch.finish()
    output = collected[.output] ?? []
    errors = collected[.errors] ?? []
    records = (collected[.records] ?? []).split(separator: UInt8(ascii: "\n")).map {
      SandboxRecord(line: String(decoding: $0, as: UTF8.self))
    }
  }

  /// What records alone tell.
  init(records: [SandboxRecord]) {
    self.records = records
    output = []
    errors = []
    status = 0
  }

  /// What the launcher gave, by its own words.
  package var enforced: [String] {
    records.compactMap { if case .enforced(let what) = $0 { what } else { nil } }
  }

  /// What it does without, by its own words.
  package var weakened: [String] {
    records.compactMap { if case .weakened(let what) = $0 { what } else { nil } }
  }

  /// Why nothing ran, if nothing did: stage, number of the error and remedy.
  package var failure: PerdureError? {
    for record in records {
      guard case .failed(let stage, let code, let detail) = record else { continue }
      let remedy = records.compactMap { if case .remedy(let text) = $0 { text } else { nil } }.first
      return PerdureError(
        "sandbox_unavailable",
        "the sandbox failed at its stage '\(stage)' with error \(code): \(detail)",
        hint: remedy,
        details: [
          "stage": .string(stage), "errno": .int(Int64(code)), "detail": .string(detail),
        ]
      )
    }
    return nil
  }
}
