extension Manifest {
  /// What the plugin brings, such as "tool grep" or "hook beforeTool (guard)".
  package var registers: [String] {
    tools.map { "tool \($0.name)" + ($0.overrides ? " (overrides)" : "") }
      + sections.map { "section \($0.key)" }
      + hooks.map { "hook \($0.point) (\($0.role.rawValue))" }
      + wraps.map { wrap in
        let target = wrap.tool.map { "tool \($0)" } ?? "section \(wrap.section ?? "")"
        return "wrap of \(target) (\(wrap.role.rawValue))"
      }
      + tasks.map { "task \($0.type) (version \($0.version))" }
      + documents.map { "document \($0.kind)" }
  }
}
