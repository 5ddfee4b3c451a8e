/// Results of tests in the form that build servers read.
enum JUnitReport {
  /// Returns the text of the file.
  static func text(plugin: String, results: [ScriptResult]) -> String {
    let failed = results.count { $0.outcome == .failed }
    let time = seconds(results.reduce(0) { $0 + $1.milliseconds })
    let counts = #"tests="\#(results.count)" failures="\#(failed)" errors="0" time="\#(time)""#
    var lines = [
      #"<?xml version="1.0" encoding="UTF-8"?>"#, "<testsuites \(counts)>",
      #"  <testsuite name="\#(escaped(plugin))" \#(counts)>"#,
    ]
    for result in results {
      let head =
        #"    <testcase classname="\#(escaped(plugin))" name="\#(escaped(result.script))" "#
        + #"time="\#(seconds(result.milliseconds))""#
      guard result.outcome == .failed else {
        lines.append(head + "/>")
        continue
      }
      lines.append(head + ">")
      lines.append(
        #"      <failure message="\#(escaped(result.reason ?? ""))">"#
          + escaped(result.diff.joined(separator: "\n")) + "</failure>"
      )
      lines.append("    </testcase>")
    }
    lines += ["  </testsuite>", "</testsuites>", ""]
    return lines.joined(separator: "\n")
  }

  private static func seconds(_ milliseconds: Int64) -> String {
    let rest = String(1_000 + milliseconds % 1_000).dropFirst()
    return "\(milliseconds / 1_000).\(rest)"
  }

  /// The text without what XML has other uses for, or no place for at all.
  private static func escaped(_ text: String) -> String {
    var scalars = String.UnicodeScalarView()
    for scalar in text.unicodeScalars {
      switch scalar {
      case "&": scalars.append(contentsOf: "&amp;".unicodeScalars)
      case "<": scalars.append(contentsOf: "&lt;".unicodeScalars)
      case ">": scalars.append(contentsOf: "&gt;".unicodeScalars)
      case "\"": scalars.append(contentsOf: "&quot;".unicodeScalars)
      case "\t", "\n": scalars.append(scalar)
      default:
        let isAllowed = scalar.value >= 0x20 && scalar.value != 0xFFFE && scalar.value != 0xFFFF
        scalars.append(isAllowed ? scalar : "\u{FFFD}")
      }
    }
    return String(scalars)
  }
}
