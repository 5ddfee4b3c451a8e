import Perdure
import PerdureValue

/// `perdure version`: what this build is made of.
enum VersionVerb {
  static let verb = Verb(
    name: "version",
    summary: "show the versions of Perdure and of what it is built on",
    options: [Option(name: "json", help: "write one JSON object")],
    body: { _, reporter in
      let facts: [(name: JSONString, title: String, value: JSON)] = [
        ("perdure", "perdure", .string(PerdureVersion.perdure)),
        ("abi", "plugin ABI", .string(PerdureVersion.abi)),
        ("messageLevel", "message level", .int(PerdureVersion.messageLevel)),
        ("swift", "Swift", .string(PerdureVersion.swift)),
        ("sqlite", "SQLite", .string(PerdureVersion.sqlite)),
      ]
      if reporter.isJSON {
        let object = JSONObject(facts.map { ($0.name, $0.value) })
        reporter.printStyled(String(decoding: EventLine.bytes(.object(object)), as: UTF8.self))
      } else {
        reporter.print(
          facts.map { "\($0.title) \($0.value.text ?? $0.value.compactText)" }
            .joined(separator: "\n")
        )
      }
      return .ok
    }
  )
}
