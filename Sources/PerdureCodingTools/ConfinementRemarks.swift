import PerdureModel
import PerdureValue

extension Confinement {
  /// What happened to a command because of it that a model should know.
  var remarks: [ToolDiagnostic] {
    var remarks: [ToolDiagnostic] = []
    if facts["leftover"] == true {
      remarks.append(
        ToolDiagnostic(
          .info,
          "Processes that the command left behind were ended with it",
          code: "leftover"
        )
      )
    }
    if facts["leftRunning"] == true {
      remarks.append(
        ToolDiagnostic(
          .info,
          "Processes that the command left behind still run, and nothing ends them",
          code: "left_running"
        )
      )
    }
    let made = (facts["unprotected"]?.array ?? []).filter { $0["reason"]?.text != "tier" }
      .compactMap { $0["path"]?.text }
    if !made.isEmpty {
      remarks.append(
        ToolDiagnostic(
          .warn,
          "These paths are protected and can be changed only because they were missing or links when the "
            + "sandbox was made: \(made.joined(separator: ", "))",
          code: "unprotected"
        )
      )
    }
    let denied = (facts["requests"]?.array ?? []).filter { $0["outcome"]?.text != "allowed" }
      .compactMap { $0["reason"]?.text }
    if !denied.isEmpty {
      // Many programs show nothing of it but a number.
      let rest = denied.count > 8 ? ", and \(denied.count - 8) more" : ""
      remarks.append(
        ToolDiagnostic(
          .warn,
          "The network of the sandbox did not do what it was asked: "
            + denied.prefix(8).joined(separator: "; ") + rest,
          code: "network"
        )
      )
    }
    return remarks
  }
}
