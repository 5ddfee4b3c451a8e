import PerdureValue

/// The handlers of a plugin by their targets, once they fit its manifest.
struct HandlerTable {
  private(set) var handlers: [String: Contribution.Handler] = [:]
  /// The first values of documents, by kind.
  private(set) var initialDocuments: [String: JSON] = [:]

  private var raw: Set<String> = []
  private var named: Set<String> = []

  /// Throws a sentence that names what the manifest or the plugin lacks.
  init(_ contributions: [Contribution], _ manifest: JSON) throws(PluginError) {
    for contribution in contributions {
      for (target, handler) in contribution.handlers {
        guard handlers.updateValue(handler, forKey: target) == nil else {
          throw Self.problem("the plugin has two handlers for \(target)")
        }
        if contribution.isRaw { raw.insert(target) }
      }
    }
    try expectCalls(of: manifest)
    try expectTasks(of: manifest)
    try expectLife(of: manifest)
    for target in handlers.keys.sorted() where !named.contains(target) && !raw.contains(target) {
      throw Self.problem("the manifest does not name \(target)")
    }
    addIfAbsent("settings.changed") { _ in Payload([:]) }
    addIfAbsent("selftest") { _ in Payload(["checks": []]) }
  }

  private mutating func expectCalls(of manifest: JSON) throws(PluginError) {
    for tool in Self.elements("tools", manifest) {
      let name = Self.text(tool, "name")
      try expect("tool:\(name)")
      if tool["prepare"]?.bool == true { try expect("tool.prepare:\(name)") }
    }
    for section in Self.elements("sections", manifest) where section["text"] == nil {
      try expect("section:\(Self.text(section, "key"))")
    }
    for hook in Self.elements("hooks", manifest) { try expect("hook:\(Self.text(hook, "point"))") }
    for wrap in Self.elements("wraps", manifest) {
      let kind = wrap["tool"] == nil ? "section" : "tool"
      try expect("wrap:\(kind):\(Self.text(wrap, JSONString(kind)))")
    }
  }

  private mutating func expectTasks(of manifest: JSON) throws(PluginError) {
    for task in Self.elements("tasks", manifest) {
      let type = Self.text(task, "type")
      let versioned = "\(type)@\(task["version"]?.int ?? 1)"
      for phase in task["phases"]?.array ?? [] {
        try expect("task:\(versioned)/\(phase.text ?? "")")
      }
      addIfAbsent("task.abort:\(versioned)") { _ in Payload(TaskAbortion.aborted) }
      try expect("task.abort:\(versioned)")
      // A type always knows its beginning and its migration; the manifest says whether it is asked.
      let asks = task["initial"]?.text != nil
      try expect("task.initial:\(type)", ifWanted: asks)
      try expect("task.migrate:\(type)", ifWanted: task["migrates"]?.array?.isEmpty == false)
    }
  }

  private mutating func expectLife(of manifest: JSON) throws(PluginError) {
    for document in Self.elements("documents", manifest) {
      let kind = Self.text(document, "kind")
      initialDocuments[kind] = document["initial"] ?? [:]
      if document["migrates"]?.array?.isEmpty == false { try expect("document.migrate:\(kind)") }
    }
    if !Self.elements("health", manifest).isEmpty { try expect("health") }
    if manifest["state"] != nil {
      try expect("snapshot")
      try expect("restore")
    }
  }

  private mutating func expect(_ target: String, ifWanted: Bool = true) throws(PluginError) {
    named.insert(target)
    guard ifWanted, handlers[target] == nil else { return }
    throw Self.problem("the manifest names \(target), which has no handler")
  }

  private mutating func addIfAbsent(_ target: String, _ handler: @escaping Contribution.Handler) {
    if handlers[target] == nil { handlers[target] = handler }
  }

  private static func elements(_ key: JSONString, _ manifest: JSON) -> [JSON] {
    manifest[key]?.array ?? []
  }

  private static func text(_ element: JSON, _ key: JSONString) -> String {
    element[key]?.text ?? ""
  }

  private static func problem(_ message: String) -> PluginError {
    PluginError(.invalid, message, reason: "shape")
  }
}

/// What becomes of an aborted task whose type says nothing.
enum TaskAbortion {
  static let aborted: JSON = [
    "state": ["status": "terminal", "outcome": ["status": "aborted"]]
  ]
}
