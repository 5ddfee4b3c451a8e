import Foundation
import Glibc
import PerdureValue

/// Runs in a sandbox, with a model that is a script.
protocol SandboxRuns {
  var folder: Folder { get }
}

extension SandboxRuns {
  /// Runs a prompt that the model answers with calls, one in each turn, and then with a text.
  func run(
    _ calls: [(tool: String, arguments: JSON)],
    _ options: [String] = [],
    environment: [String: String] = [:]
  ) -> Program.Finished {
    let script = folder.file("script.json")
    let turns = calls.enumerated().map { index, call -> JSON in
      [
        "steps": [
          [
            "toolCall": [
              "id": .string("c\(index)"), "name": .string(call.tool),
              "arguments": call.arguments,
            ]
          ]
        ]
      ]
    }
    let text: JSON = ["turns": .array(turns + [["steps": [["text": "done"]]]])]
    try? text.compactText.write(toFile: script, atomically: true, encoding: .utf8)
    try? FileManager.default.createDirectory(
      atPath: folder.file("work"),
      withIntermediateDirectories: true
    )
    try? "canary".write(toFile: folder.file("secret"), atomically: true, encoding: .utf8)
    return Program.run(
      [
        "run", "--json", "--store", folder.file("s.sqlite"), "--no-plugins", "--faux", script,
        "--cwd", folder.file("work"),
      ] + options + ["Go"],
      in: folder,
      environment: environment
    )
  }

  func bash(
    _ line: String,
    _ options: [String] = [],
    environment: [String: String] = [:]
  ) -> Program.Finished {
    run([("bash", ["command": .string(line)])], options, environment: environment)
  }

  /// What the model was told of its calls.
  func results(_ run: Program.Finished) -> String {
    run.events.filter { $0["kind"] == "pi.tool-result" }
      .map { $0["model"]?.compactText ?? "" }.joined(separator: "\n")
  }
}

/// What the launcher itself finds on this machine.
enum Machine {
  /// Whether the machine denies namespaces or mounts, and `Tests/sandbox/impossible` lets it.
  ///
  /// A failure at another stage is one of ours, and must not turn tests off.
  static let deniesNamespaces: Bool = {
    let output = Program.probe(in: Folder())
    let isDenied = output.split(separator: "\n").contains {
      $0.hasPrefix("namespaces failed namespaces ") || $0.hasPrefix("namespaces failed root ")
    }
    return isDenied && isExcused("\(geteuid() == 0 ? "root" : "unprivileged")/namespaces")
  }()

  private static func isExcused(_ cell: String) -> Bool {
    let root = #filePath.split(separator: "/").dropLast(4).joined(separator: "/")
    let table = String(
      decoding: Folder.bytes(at: "/\(root)/Tests/sandbox/impossible"),
      as: UTF8.self
    )
    return table.split(separator: "\n").contains { line in
      let words = line.split(separator: " ", omittingEmptySubsequences: true)
      return words.starts(with: [Substring(cell), "no-namespaces"])
    }
  }
}
