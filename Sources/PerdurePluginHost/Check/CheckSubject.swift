internal import PerdureModel
import PerdureValue

/// The plugin that is checked, in the process of one test.
final class CheckSubject {
  let description: PluginDescription
  let seed: UInt64
  private let bytes: [UInt8]
  private let copies: String
  private let path: String
  /// What is worth saying although nothing is wrong.
  var notes: [String] = []

  /// How long a call may take before it is cancelled.
  static let patience: Int64 = 3_000
  /// Beyond the grace of the manifest, for machines that are busy.
  private static let margin: Int64 = 2_000
  /// How long a plugin may take to stop, as it is told.
  static let stopLimit: Int64 = 7_000

  /// Reads the file; throws what it is refused for.
  init(path: String, copies: String, seed: UInt64) throws {
    let examined = try PluginFiles.examine(path: path)
    description = examined.description
    bytes = examined.bytes
    self.copies = copies
    self.path = path
    self.seed = seed
  }

  var manifest: Manifest { description.manifest }
  var targets: CheckTargets { CheckTargets(manifest: manifest, seed: seed) }
  /// The texts among the constants of the file.
  var texts: [String] { (try? ELFFile(bytes))?.texts ?? [] }

  /// Maps a copy of its own, as each activation does.
  func copy(_ behaviour: CheckBehaviour = CheckBehaviour()) throws -> CheckHost {
    let path = try makeCopy()
    defer { PrivateCopies.remove(path) }
    return try CheckHost(path: path, behaviour)
  }

  private func makeCopy() throws -> String {
    _ = PrivateCopies.sweep(copies)
    return try PrivateCopies.make(
      of: bytes,
      id: manifest.id,
      digest: description.digest,
      in: copies
    ).path
  }

  /// Lives through some lives of one mapping.
  func withMapping(_ body: (String) throws -> Void) throws {
    let path = try makeCopy()
    defer { PrivateCopies.remove(path) }
    try body(path)
  }

  // MARK: One life

  /// Loads the plugin, runs `body` and closes it; whatever promise it broke meanwhile is thrown.
  func live(
    _ behaviour: CheckBehaviour = CheckBehaviour(),
    _ body: (CheckHost) throws -> Void
  ) throws {
    let host = try copy(behaviour)
    try begin(host)
    try body(host)
    try end(host)
  }

  /// Enters and activates, and gives settings, as a host does.
  func begin(_ host: CheckHost) throws {
    try expect(host.enter(), "its entry function")
    try expect(host.activate(), "its activation")
    guard let settings = manifest.settings?.defaults else { return }
    let call = host.start(
      "settings.changed",
      [
        "ctx": ["now": 1_700_000_000_000, "settings": 1], "settings": .object(settings),
        "revision": 1, "reason": "initial",
      ]
    )
    guard host.isOver(call, within: 10_000) else {
      throw CheckFailure("it does not complete settings.changed within 10 seconds")
    }
    let seen = host.look(at: call)
    guard seen.accepted == 0, seen.status == 0 else {
      throw CheckFailure(
        "it refuses its own default settings: \(Self.sentence(host, call))",
        remedy: "accept the default of the manifest's settings in settings.changed"
      )
    }
  }

  /// Stops and destroys, and throws whatever promise was broken.
  func end(_ host: CheckHost) throws {
    try stop(host)
    try expect(host.destroy(), "destroy")
    try throwOffences(of: host)
  }

  /// Asks the plugin to stop and waits until it says that it did.
  func stop(_ host: CheckHost) throws {
    switch host.deactivate() {
    case .absent: return
    case .done:
      guard host.isStopped(within: Self.stopLimit) else {
        throw CheckFailure(
          "it does not say lifecycle.stopped within \(Self.stopLimit / 1_000) seconds of deactivate",
          remedy:
            "ask for the operation lifecycle.stopped with {\"ticket\": \"N\"} when all is stopped,"
            + " or leave deactivate null"
        )
      }
    case .refused(let code, _): throw CheckFailure("deactivate fails with \(Self.word(code))")
    case .hung:
      throw CheckFailure(
        "deactivate does not return within 10 seconds",
        remedy: "return at once and say lifecycle.stopped later"
      )
    }
  }

  func expect(_ step: CheckHost.Step, _ what: String) throws {
    switch step {
    case .done, .absent: return
    case .hung: throw CheckFailure("\(what) does not return within 10 seconds")
    case .refused(let code, let message):
      throw CheckFailure(
        "\(what) fails with \(Self.word(code))" + (message.isEmpty ? "" : ": \(message)"),
        remedy: message.isEmpty
          ? nil
          : "the sentence is the plugin's own: change the plugin, or its manifest, so that it fits"
      )
    }
  }

  func throwOffences(of host: CheckHost) throws {
    guard let first = host.offences.first else { return }
    throw CheckFailure(first, remedy: CheckRemedy.of(first))
  }

  static func word(_ code: Int32) -> String { BorderCode(rawValue: code)?.word ?? "\(code)" }

  static func sentence(_ host: CheckHost, _ call: UInt64) -> String {
    let seen = host.look(at: call)
    let message = host.failure(of: call).message
    let code = seen.accepted != 0 ? seen.accepted : seen.status
    return message.isEmpty ? word(code) : message
  }

  // MARK: Calls

  /// Starts a call of the target.
  func start(_ target: CheckTarget, on host: CheckHost, cancelledFor reason: UInt32 = 0) -> UInt64 {
    host.start(target.name, target.input(), cancelledFor: reason)
  }

  /// Waits for a call, at last by cancelling it.
  func finish(
    _ call: UInt64,
    of target: CheckTarget,
    on host: CheckHost,
    patience: Int64 = CheckSubject.patience
  ) throws {
    if host.isOver(call, within: patience) { return }
    host.cancel(call, for: 2)
    try expectEnd(call, of: target, on: host)
  }

  /// Waits for a call that was cancelled.
  func expectEnd(_ call: UInt64, of target: CheckTarget, on host: CheckHost) throws {
    guard host.isOver(call, within: Int64(target.graceMs) + Self.margin) else {
      let seen = host.look(at: call)
      let what = seen.hasReturned ? "is not completed" : "is still in start"
      throw CheckFailure(
        "\(target.name) \(what) \(target.graceMs) ms, its grace, after it was cancelled",
        remedy: "complete every accepted call; look at calls.cancelled in loops, or register"
          + " calls.on_cancel"
      )
    }
  }

  /// Reads what a call was answered with; a refusal or an error is no answer.
  func answer(_ call: UInt64, of target: CheckTarget, on host: CheckHost) throws {
    let seen = host.look(at: call)
    guard seen.accepted == 0, seen.status == 0 else {
      return try failure(call, of: target, on: host)
    }
    let payload = try host.payload(of: call)
    do throws(BorderProblem) {
      if target.hasOutput {
        if payload.isMessage {
          _ = try ToolCompletion.decode(try payload.object())
        } else {
          _ = try ToolCompletion.decode(payload)
        }
      } else if payload.type == .text, target.name.contains("section:") {
        _ = try payload.text()
      } else {
        _ = try payload.object()
      }
    } catch {
      throw CheckFailure(
        "\(target.name) is answered with \(error.phrase)",
        remedy: "answer with the JSON object that docs/plugins.md has for this call"
      )
    }
  }

  /// Checks the form of an error.
  private func failure(_ call: UInt64, of target: CheckTarget, on host: CheckHost) throws {
    let seen = host.look(at: call)
    let code = seen.accepted != 0 ? seen.accepted : seen.status
    guard BorderCode(rawValue: code) != nil else {
      throw CheckFailure(
        "\(target.name) ends with the code \(code), which perdure.h does not have",
        remedy: "use one of the PDR_E_ codes and say the rest in the error's message"
      )
    }
    let detail = host.failure(of: call).detail
    if !detail.isEmpty, (try? JSON(parsing: Array(detail.utf8)))?.object == nil {
      throw CheckFailure(
        "\(target.name) ends with error details that are no JSON object",
        remedy: "leave pdr_err.detail empty or make it a JSON object"
      )
    }
  }
}
