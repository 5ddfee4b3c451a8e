import Foundation
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

/// A process of the engine that is killed at a storage call and played again.
struct CrashRun {
  var walk: String
  var replay: String
  let folder: URL

  init(_ walk: String, _ replay: String) throws {
    self.walk = walk
    self.replay = replay
    folder = FileManager.default.temporaryDirectory
      .appending(path: "perdure-crash-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
  }

  struct Ended {
    var status: Int32
    var wasKilled: Bool
    var output: String

    var result: JSON? {
      output.split(separator: "\n").last.flatMap { try? JSON(parsing: String($0)) }
    }
  }

  func play(dyingAt call: Int, _ moment: String) throws -> Ended {
    let process = Process()
    process.executableURL = TestPaths.product("CrashProcess")
    process.arguments = [
      folder.appending(path: "s.sqlite").path, folder.appending(path: "effects").path, walk,
      replay, "\(call)", moment,
    ]
    let pipe = Pipe()
    process.standardOutput = pipe
    process.standardError = pipe
    try process.run()
    let data = pipe.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    return Ended(
      status: process.terminationStatus, wasKilled: process.terminationReason == .uncaughtSignal,
      output: String(decoding: data, as: UTF8.self))
  }

  func effects() -> [String] {
    let text = try? String(contentsOf: folder.appending(path: "effects"), encoding: .utf8)
    return (text ?? "").split(separator: "\n").map(String.init)
  }

  func remove() { try? FileManager.default.removeItem(at: folder) }
}

/// Where the build puts what the tests run.
enum TestPaths {
  /// The folder of the built products: that of the test bundle.
  static let products: URL = {
    // Swift Testing is started as `…/debug/perdurePackageTests.xctest` or through a helper that
    // names the bundle in its arguments.
    let bundle = CommandLine.arguments.first { $0.hasSuffix(".xctest") } ?? CommandLine.arguments[0]
    return URL(fileURLWithPath: bundle).deletingLastPathComponent()
  }()

  static func product(_ name: String) -> URL { products.appending(path: name) }
}

@Suite struct FailpointTests {
  static let cases: [(String, String)] = [
    ("A1", "unsafe"), ("A2", "unsafe"), ("A2", "safe"), ("A3", "unsafe"), ("A3", "safe"),
  ]

  @Test(arguments: cases)
  func `a run killed at any storage call ends as if it had lived`(
    _ walk: String,
    _ replay: String
  ) throws {
    let whole = try CrashRun(walk, replay)
    defer { whole.remove() }
    let lived = try whole.play(dyingAt: 0, "before")
    let expected = try #require(lived.result?["context"], "\(lived.output)")
    var call = 0
    var deaths = 0
    repeat {
      call += 1
      deaths = 0
      for moment in ["before", "after"] {
        let run = try CrashRun(walk, replay)
        defer { run.remove() }
        guard try run.play(dyingAt: call, moment).wasKilled else { continue }
        deaths += 1
        try check(run, expected, "killed \(moment) storage call \(call)")
      }
    } while deaths > 0
    #expect(call > 10, "only \(call) storage calls were reached")
  }

  private func check(_ run: CrashRun, _ expected: JSON, _ when: String) throws {
    let again = try run.play(dyingAt: 0, "before")
    #expect(again.status == 0, "\(when): \(again.output)")
    #expect(!again.output.contains("violation"), "\(when): \(again.output)")
    let context = try #require(again.result?["context"], "\(when): \(again.output)")
    let effects = run.effects()
    let ones = effects.filter { $0 == "one" }.count
    let twos = effects.filter { $0 == "two" }.count
    if run.walk == "A1" {
      #expect(context == expected, "\(when)")
    } else if run.replay == "safe" {
      #expect(ones >= 1 && twos >= 1, "\(when): \(effects)")
      #expect(context == expected, "\(when)")
    } else {
      #expect(ones <= 1 && twos <= 1, "\(when): \(effects)")
      checkUnsafe(context, expected, ones, twos, when)
    }
  }

  /// An unsafe call either ran to its result, or is answered as interrupted.
  private func checkUnsafe(
    _ context: JSON,
    _ expected: JSON,
    _ ones: Int,
    _ twos: Int,
    _ when: String
  ) {
    let messages = context.array ?? []
    let wanted = expected.array ?? []
    #expect(messages.count == wanted.count, "\(when): \(context.compactText)")
    for (message, whole) in zip(messages, wanted) where message != whole {
      let text = message["content"]?.array?.last?["text"]?.text ?? ""
      #expect(message["role"] == "toolResult", "\(when): \(message.compactText)")
      #expect(message["toolCallId"] == whole["toolCallId"], "\(when)")
      #expect(text.contains("interrupted"), "\(when): \(message.compactText)")
    }
    // A result that says it worked must have had its effect.
    for (id, count) in [("c1", ones), ("c2", twos)] {
      let result = messages.first { $0["toolCallId"]?.text == id }
      if result?["isError"] == false { #expect(count == 1, "\(when): \(id)") }
    }
  }
}
