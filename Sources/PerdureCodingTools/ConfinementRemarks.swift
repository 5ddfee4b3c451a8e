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
    return remarks
  }
}
