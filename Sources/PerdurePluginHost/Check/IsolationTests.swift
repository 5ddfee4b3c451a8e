internal import PerdureModel
import PerdureValue

/// The group isolation: the plugin answers in a process of its own what it answers in this one.
extension PluginTest {
  private static let canCompare: @Sendable (Manifest) -> Bool = { manifest in
    !manifest.tools.isEmpty && manifest.execution.mode == .any && IsolatedRun.isAvailable
  }

  static let isolation: [PluginTest] = [
    PluginTest(
      group: .isolation,
      word: "same",
      question: "tools answer in perdure-runner what they answer in process",
      remedy: "use nothing of the host's process; files, variables and the folder are the runner's",
      limitMs: 180_000,
      concerns: canCompare
    ) { subject in
      for tool in subject.manifest.tools {
        guard var samples = try? SchemaSamples(tool.parameters, seed: subject.seed),
          let arguments = samples.valid()
        else { continue }
        let run = IsolatedRun(subject, tool, arguments)
        let here = try run.answer(isolation: "in-process")
        guard try run.answer(isolation: "in-process") == here else {
          subject.notes.append("\(tool.name) answers differently each time")
          continue
        }
        let there = try run.answer(isolation: "runner")
        if there != here {
          throw CheckFailure("\(tool.name) answers \(here) in process and \(there) in the runner")
        }
      }
    },
    PluginTest(
      group: .isolation,
      word: "functions",
      question: "each function survives what fits its tool's schema",
      remedy: "compare \"args\" and \"returns\" with the header of the library",
      limitMs: 180_000,
      concerns: { $0.isForeign && IsolatedRun.isAvailable },
      isForForeign: true,
      body: callFunctions
    ),
  ]

  private static func callFunctions(_ subject: CheckSubject) throws {
    for tool in subject.manifest.tools {
      guard var samples = try? SchemaSamples(tool.parameters, seed: subject.seed) else { continue }
      for _ in 0..<3 {
        guard let arguments = samples.valid() else { break }
        guard let death = try IsolatedRun(subject, tool, arguments).death() else { continue }
        throw CheckFailure("given \(arguments.compactText), \(death)")
      }
    }
  }
}

/// One conversation with a scripted model that calls a tool once.
struct IsolatedRun {
  private let path: String
  private let tool: ManifestTool
  private let arguments: JSON

  /// Whether this program has a runner beside it.
  static var isAvailable: Bool { CheckProcess.hasNeighbour("perdure-runner") }

  init(_ subject: CheckSubject, _ tool: ManifestTool, _ arguments: JSON) {
    path = subject.description.path
    self.tool = tool
    self.arguments = arguments
  }

  private var script: JSON {
    let call: JSON = [
      "id": "check-1", "name": .string(tool.name), "arguments": arguments,
    ]
    return [
      "turns": [
        ["steps": [["toolCall": call]]],
        ["steps": [["text": "It says: "], ["toolResult": "check-1"]]],
      ]
    ]
  }

  /// What the model was told, with the exit status.
  func answer(isolation: String) throws -> String {
    let end = try run(isolation: isolation, listeningTo: 1)
    return "'\(String(decoding: end.told.prefix(2_000), as: UTF8.self))' (status \(end.status))"
  }

  /// How the process of the plugin ended, if it did not outlive the call.
  func death() throws -> String? {
    let end = try run(isolation: "runner", listeningTo: 2)
    let lines = String(decoding: end.told, as: UTF8.self).split(separator: "\n")
    return lines.first { $0.contains("the process of plugin") }.map { line in
      line.split(separator: ": ").last.map(String.init) ?? String(line)
    }
  }

  private func run(isolation: String, listeningTo stream: Int32) throws -> CheckProcess.End {
    guard let folder = CheckProcess.makeFolder() else {
      throw CheckFailure("there is no place for a store", remedy: "set TMPDIR")
    }
    defer { CheckProcess.removeFolder(folder) }
    do throws(PerdureError) {
      try FileAccess.write(script.encoded, to: folder + "/script.json", mode: 0o600)
    } catch { throw CheckFailure(error.message) }
    let end = CheckProcess.run(
      [
        "run", "--store", folder + "/store.sqlite", "--plugin", path, "--isolation", isolation,
        "--faux", folder + "/script.json", "Call it.",
      ],
      in: folder,
      listeningTo: stream,
      limit: 30_000
    )
    guard let end, !end.isTimeout else {
      throw CheckFailure("\(tool.name) takes too long to compare")
    }
    return end
  }
}
